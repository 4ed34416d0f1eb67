"""Write a result to a folder: tables, figures, `result.json` and `settings.toml`.

The same result gives the same bytes: no file holds a date, a path of the writing machine or a
program's version other than twoclock's own.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import orjson
import pandas as pd

from twoclock.errors import SettingsError
from twoclock.progress import Progress
from twoclock.report.display import display_tables
from twoclock.report.markup import to_latex, to_markdown, to_toml
from twoclock.report.tables import report_tables
from twoclock.results import TwoClocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")
"""Formats that figures can be written in."""

SETTINGS_FILE = "settings.toml"
_MARK = "# Written by `twoclock fit --out`"

Write = Callable[[Path], None]
Group = dict[str, Write]
"""Files that are written one after the other: all tables, or one figure in every format."""

MOST_WORKERS = 4
"""Processes that draw figures: each loads matplotlib, so that more would not be faster."""


def write_report(
    result: TwoClocks,
    out: Path | str,
    *,
    formats: Sequence[str] = FORMATS,
    progress: Progress | None = None,
) -> tuple[Path, ...]:
    """Write every table and figure of a result, and what repeats it, to a folder.

    Parameters
    ----------
    result : TwoClocks
        What `twoclock fit` found.
    out : Path
        The folder: new, empty, or an earlier report, whose files are then replaced (those that this
        report does not have are removed; other files in the folder are never touched).
    formats : sequence of {"pdf", "svg", "png"}
        Formats of the figures; none: tables only.
    progress : callable, optional
        Called as ``progress(done, total, text)`` after each group of files and once at the end.

    Returns
    -------
    tuple of Path
        Everything written, `settings.toml` first: ``tables/NAME.csv|parquet|md|tex``,
        ``figures/NAME.FORMAT``, `result.json`.

    Raises
    ------
    SettingsError
        The folder holds something else, cannot be written, or a format is unknown.
    """
    for name in formats:
        if name not in FORMATS:
            msg = f"figure format {name!r} is not known; known: {', '.join(FORMATS)}"
            raise SettingsError(msg)
    out = Path(out)
    groups = _plan(result, tuple(dict.fromkeys(formats)))
    names = [SETTINGS_FILE, *(name for group in groups for name in group)]
    try:
        earlier = _earlier(out)
        _put(out / SETTINGS_FILE, partial(_settings, result, names))
        for name in earlier:
            if name not in names:
                (out / name).unlink(missing_ok=True)
        done = 1
        for written in _write_groups(out, groups):
            if progress is not None:
                progress(done, len(names), written[0])
            done += len(written)
    except OSError as err:
        msg = f"cannot write to {out}: {err.strerror or err}; give another --out folder"
        raise SettingsError(msg) from err
    if progress is not None:
        progress(len(names), len(names), "")
    return tuple(out / name for name in names)


def _earlier(out: Path) -> list[str]:
    """Return the files of an earlier report in `out`; refuse a folder that holds something else."""
    if out.exists() and not out.is_dir():
        msg = f"--out {out} is a file; give a folder"
        raise SettingsError(msg)
    if not out.exists() or not any(out.iterdir()):
        return []
    settings = out / SETTINGS_FILE
    text = settings.read_text(encoding="utf-8", errors="replace") if settings.is_file() else ""
    if not text.startswith(_MARK):
        msg = f"--out {out} is not empty and no earlier report; give a new or an empty folder"
        raise SettingsError(msg)
    try:
        names = tomllib.loads(text).get("report", {}).get("files", [])
    except tomllib.TOMLDecodeError:  # edited by hand: then nothing is removed
        return []
    return [name for name in names if isinstance(name, str) and _is_ours(out, name)]


def _is_ours(out: Path, name: str) -> bool:
    """Return whether `name` can be a file of a report: in one of its two folders, not a link."""
    path = Path(name)
    folder = out / path.parent
    inside = len(path.parts) == 2 and path.parts[0] in ("tables", "figures")
    return inside and path.name not in (".", "..") and not folder.is_symlink()


def _put(path: Path, write: Write) -> None:
    """Write a file whole or not at all: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_groups(out: Path, groups: Sequence[Group]) -> Iterator[list[str]]:
    """Write the groups and yield the names of each when it is done, figures on several cores."""
    tables, figures = groups[0], groups[1:]
    yield _put_all(out, tables)
    workers = min(len(figures), os.cpu_count() or 1, MOST_WORKERS)
    if workers < 2:
        yield from (_put_all(out, group) for group in figures)
        return
    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
    yield from parallel(joblib.delayed(_put_all)(out, group) for group in figures)


def _put_all(out: Path, group: Group) -> list[str]:
    for name, write in group.items():
        _put(out / name, write)
    return list(group)


def _plan(result: TwoClocks, formats: Sequence[str]) -> list[Group]:
    """Return what to write by its name in the folder: the tables, then each figure; none drawn."""
    tables: Group = {"result.json": partial(_json, result)}
    shown = display_tables(result)
    for name, frame in report_tables(result).items():
        title = name.replace("_", " ").capitalize()
        tables[f"tables/{name}.csv"] = partial(_csv, frame)
        tables[f"tables/{name}.parquet"] = partial(_parquet, frame)
        tables[f"tables/{name}.md"] = partial(_text, partial(to_markdown, shown[name], title))
        tables[f"tables/{name}.tex"] = partial(_text, partial(to_latex, shown[name], title))
    if not formats:
        return [tables]
    from twoclock.report.figures import report_figures

    groups = [tables]
    for name, draw in report_figures(result).items():
        once = _Once(draw)
        groups.append({f"figures/{name}.{kind}": partial(_figure, once) for kind in formats})
    return groups


class _Once:
    """A figure drawn at the first call."""

    def __init__(self, draw: Callable[[], Figure]) -> None:
        self._draw = draw
        self._figure: Figure | None = None

    def __call__(self) -> Figure:
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        if self._figure is None:
            self._figure = self._draw()
            # Laid out once: every format gets the same positions, in a third of the time.
            if isinstance(self._figure.get_layout_engine(), ConstrainedLayoutEngine):
                self._figure.draw_without_rendering()
                self._figure.set_layout_engine("none")
        return self._figure


def _figure(once: _Once, path: Path) -> None:
    from twoclock.plots.style import figure_style, save_figure

    with figure_style():
        save_figure(once(), path)


def _csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, lineterminator="\n", encoding="utf-8")


def _parquet(frame: pd.DataFrame, path: Path) -> None:
    frame.to_parquet(path, index=False)


def _text(make: Callable[[], str], path: Path) -> None:
    path.write_text(make(), encoding="utf-8", newline="\n")


def _json(result: TwoClocks, path: Path) -> None:
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    path.write_bytes(orjson.dumps(result.to_dict(), option=options) + b"\n")


def _settings(result: TwoClocks, names: Sequence[str], path: Path) -> None:
    document: dict[str, Any] = {
        "twoclock": result.version,
        **result.settings,
        "report": {"files": list(names)},
        "files": [{"path": name, "sha256": digest} for name, digest in result.files],
    }
    head = f"{_MARK}; repeat it with `twoclock fit --settings {SETTINGS_FILE}`.\n"
    path.write_text(head + to_toml(document), encoding="utf-8", newline="\n")
