"""Write a result for people: terminal text, tables and figures to a folder.

Importing this package loads neither torch nor matplotlib; `write_report` loads matplotlib when it
draws.
"""

from __future__ import annotations

from twoclock.report.display import display_tables
from twoclock.report.files import FORMATS, write_report
from twoclock.report.tables import report_tables
from twoclock.report.text import render, to_text

__all__ = ["FORMATS", "display_tables", "render", "report_tables", "to_text", "write_report"]
