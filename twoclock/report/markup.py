"""Tables of text as Markdown and LaTeX, and settings as TOML: same input, same bytes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

LONG = 45
"""Rows above which a LaTeX table becomes a `longtable`, which may break over pages."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_NUMBER = re.compile(r"[-+]{0,2}[0-9][0-9,.]*(e-?[0-9]+)?( \[[-+0-9., a-z]*\])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def latex_escape(text: str) -> str:
    r"""Return `text` so that LaTeX prints it as it is; minus signs of numbers become real ones.

    Examples
    --------
    >>> print(latex_escape("a_b & 50% {x} [-0.05, +-0.1]"))
    a\_b \& 50\% \{x\} [$-$0.05, $\pm$0.1]
    """
    text = _CONTROL.sub(" ", text)
    text = "".join(_LATEX.get(letter, letter) for letter in text)
    text = text.replace("--", "-{}-")  # else one dash
    text = re.sub(r"\+-(?=[0-9])", r"$\\pm$", text)
    return re.sub(r"(?<![\w.$\\-])-(?=[0-9])", "$-$", text)


def to_latex(frame: pd.DataFrame, title: str) -> str:
    r"""Return a booktabs table to be read in by ``\input``; caption and float are the paper's.

    Parameters
    ----------
    frame : DataFrame
        Cells of text; column names are the header.
    title : str
        One line, written as a comment.

    Returns
    -------
    str
        A ``tabular``, or a ``longtable`` above `LONG` rows.
    """
    long = len(frame) > LONG
    packages = r"\usepackage{booktabs}" + (r" \usepackage{longtable}" if long else "")
    name = "longtable" if long else "tabular"
    align = "".join("r" if _numeric(frame[column]) else "l" for column in frame.columns) or "l"
    head = " & ".join(latex_escape(str(column)) for column in frame.columns) or "none"
    lines = [f"% {_CONTROL.sub(' ', title)}", f"% Needs {packages}"]
    lines += [rf"\begin{{{name}}}{{{align}}}", r"\toprule", rf"{head} \\", r"\midrule"]
    if long:
        lines += [r"\endhead"]
    for row in frame.itertuples(index=False):
        cells = [latex_escape(str(cell)) for cell in row]
        if cells and cells[0][:1] in ("[", "*"):
            cells[0] = "{}" + cells[0]  # else read as an argument of the line break before it
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", rf"\end{{{name}}}", ""])


def to_markdown(frame: pd.DataFrame, title: str) -> str:
    r"""Return a pipe table under a heading.

    Examples
    --------
    >>> print(to_markdown(pd.DataFrame({"a|b": ["x", "y"], "n": ["1", "2"]}), "Title"))
    # Title
    <BLANKLINE>
    | a\|b | n |
    |------|--:|
    | x    | 1 |
    | y    | 2 |
    <BLANKLINE>
    """
    title = f"# {_CONTROL.sub(' ', title)}\n\n"
    if frame.empty:
        return f"{title}None.\n"
    columns = []
    for i, name in enumerate(frame.columns):
        cells = [_markdown_cell(str(name)), *(_markdown_cell(str(c)) for c in frame.iloc[:, i])]
        width = max(map(len, cells))
        right = _numeric(frame.iloc[:, i])
        bar = "-" * (width + 1) + (":" if right else "-")
        padded = [cell.rjust(width) if right else cell.ljust(width) for cell in cells]
        columns.append([f" {padded[0]} ", bar, *(f" {cell} " for cell in padded[1:])])
    lines = ["|" + "|".join(cells) + "|" for cells in zip(*columns, strict=True)]
    return title + "\n".join(lines) + "\n"


def _markdown_cell(text: str) -> str:
    text = re.sub(r"([\\|*_`<~])", r"\\\1", _CONTROL.sub(" ", text))
    return text.replace("](", "]\\(")  # else a link


def _numeric(cells: pd.Series[Any]) -> bool:
    known = [str(cell) for cell in cells if str(cell)]
    return bool(known) and all(_NUMBER.fullmatch(cell) for cell in known)


def to_toml(values: Mapping[str, Any]) -> str:
    """Return a TOML document of nested plain values; keys whose value is None are left out.

    A small writer, because the standard library only reads TOML and these documents hold nothing
    but text, numbers, truth values, lists and tables.

    Examples
    --------
    >>> print(to_toml({"level": 0.95, "by": [], "failure": {"drop_abs": 0.1}, "select": None}))
    level = 0.95
    by = []
    <BLANKLINE>
    [failure]
    drop_abs = 0.1
    <BLANKLINE>
    """
    return "\n".join(_toml_table(values, ())).lstrip("\n") + "\n"


def _toml_table(values: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {k: v for k, v in values.items() if v is not None and not _is_table(v)}
    lines = [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in plain.items()]
    for key, value in values.items():
        if not _is_table(value):
            continue
        name = ".".join(_toml_key(part) for part in (*path, key))
        tables = [value] if isinstance(value, Mapping) else value
        mark = f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"
        for table in tables:
            lines += ["", mark, *_toml_table(table, (*path, key))]
    return lines


def _is_table(value: Any) -> bool:
    many = isinstance(value, list | tuple) and len(value) > 0
    return isinstance(value, Mapping) or (many and all(isinstance(v, Mapping) for v in value))


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _toml_string(key)


def _toml_string(text: str) -> str:
    # JSON escapes are a subset of TOML's, but for surrogates, which UTF-8 cannot hold either.
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any) -> str:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"{value}"
    if isinstance(value, list | tuple):
        items = [_toml_value(item) for item in value if item is not None]
        line = f"[{', '.join(items)}]"
        return line if len(line) <= 88 else "[\n" + "".join(f"    {i},\n" for i in items) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items() if v is not None)
        return "{ " + ", ".join(pairs) + " }"
    return _toml_string(str(value))
