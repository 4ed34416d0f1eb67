"""A `runs.yaml` to fill in: what the logs lack as blanks, for files that lack it alike at once.

A blank means "still unknown", so that the file is valid as it is written.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twoclock.errors import SettingsError
from twoclock.notes import Refusal, printable
from twoclock.runs.sidecar import FACTS, NAMES, matches
from twoclock.runs.tables import Runs
from twoclock.runs.wants import QUESTIONS, list_wants

HEAD = """\
# What the logs in this folder do not tell; every command reads this file.
# Fill in what you know. A blank stays unknown, and `twoclock runs` goes on asking for it.
# path is a pattern for files or folders as seen from here: * is any text, ? one character.
# Where several entries match a log, the last one that fills a field in counts.
"""
KEYED = {"accuracy": "accuracy", "rollout": "step"}
"""Facts that are given as a key of the log, and the name under ``map`` that takes it."""

OPTIONAL = ("model", "task")
"""Asked for beside others where the log does not tell them: unequal ones are not compared."""

_SEED = re.compile(r"(?:\b|_)(?:seed|s)[-_=]?([0-9]{1,9})(?![0-9a-z])", re.IGNORECASE)
_MEANING = {"model": "base model", "task": "training task or data set"}


@dataclass(frozen=True)
class Lack:
    """What one file lacks."""

    path: Path
    facts: tuple[str, ...]
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known: Mapping[str, Any] = field(default_factory=dict)

    @property
    def alike(self) -> tuple[Any, ...]:
        """What files with one entry have in common."""
        keys = tuple(sorted((name, tuple(found)) for name, found in self.keys.items()))
        optional = tuple(name for name in OPTIONAL if name not in self.known)
        return (tuple(f for f in self.facts if f != "seed"), keys, optional)


def write_draft(
    paths: Sequence[str | Path], found: Runs | None, refused: Iterable[Refusal]
) -> tuple[Path, int]:
    """Write a `runs.yaml` into the folder that was read; return it and the number of its blanks.

    Raises
    ------
    SettingsError
        There is no single folder to write into, it has a `runs.yaml`, or nothing is missing.
    """
    if len(paths) != 1 or not Path(paths[0]).exists():
        msg = "--init needs one PATH, a folder of logs on this machine, to write runs.yaml into"
        raise SettingsError(msg)
    given = Path(paths[0])
    folder = given if given.is_dir() else given.parent
    for name in NAMES:
        if os.path.lexists(folder / name):
            msg = f"{folder / name} exists and is left alone; move it away, or add to it by hand"
            raise SettingsError(msg)
    refused = tuple(refused)
    lacks = find_lacks(found, refused)
    if not lacks:
        msg = f"{folder}: nothing is missing that runs.yaml could give; none is written"
        raise SettingsError(msg)
    others = [Path(item.path) for item in refused]
    others += [Path(file.path) for file in found.files] if found is not None else []
    text, blanks = draft(lacks, folder, others)
    file = folder / NAMES[0]
    with file.open("x", encoding="utf-8") as stream:
        stream.write(text)
    return file, blanks


def find_lacks(found: Runs | None, refused: Iterable[Refusal]) -> list[Lack]:
    """Return what each file lacks that a `runs.yaml` can give, in the order of paths."""
    lacks = []
    for item in refused:
        facts = tuple(fact for fact in item.facts if fact in FACTS or fact in KEYED)
        if facts:
            lacks.append(Lack(Path(item.path), facts, item.candidates, item.known))
    if found is not None:
        lacks += _of_runs(found)
    return sorted(lacks, key=lambda lack: str(lack.path))


def _of_runs(found: Runs) -> list[Lack]:
    """Return what runs lack that were read, each by the first file it was read from."""
    files: dict[str, Path] = {}
    for file in found.files:
        for run in file.run_ids if file.reader not in ("settings", "tables") else ():
            files.setdefault(run, Path(file.path))
    facts: dict[str, list[str]] = {}
    for want in list_wants(found, ()):
        for run in want.subjects if want.fact != "accuracy" else ():
            facts.setdefault(run, []).append(want.fact)
    table = found.runs.set_index("run_id")
    known = {
        run: {str(k): v for k, v in table.loc[run].dropna().to_dict().items()} for run in facts
    }
    by_file: dict[Path, Lack] = {}
    for run, names in facts.items():
        if run in files:
            path = files[run]
            by_file.setdefault(path, Lack(path, tuple(names), {}, known[run]))
    return list(by_file.values())


def draft(lacks: Sequence[Lack], folder: Path, others: Iterable[Path]) -> tuple[str, int]:
    """Return the text of a `runs.yaml` in `folder`, and the number of its blanks.

    Parameters
    ----------
    lacks : sequence of Lack
        What files lack.
    folder : Path
        Where the file will lie: an ancestor of every log.
    others : iterable of Path
        All files that were looked at: a pattern must not match one that lacks nothing.
    """
    every = list(dict.fromkeys([lack.path for lack in lacks] + list(others)))
    groups: dict[tuple[Any, ...], list[Lack]] = {}
    for lack in lacks:
        groups.setdefault(lack.alike, []).append(lack)
    entries: list[str] = []
    for group in groups.values():
        for glob, members in _globs(group, folder, every):
            entries.append(_entry(glob, members))
    shared = {lack.path for group in groups.values() if len(group) > 1 for lack in group}
    entries = [entry for entry in entries if entry]
    entries += [
        f"- path: {_quoted(_exact(lack.path, folder))}\n  {_seed(lack)}\n"
        for lack in lacks
        if "seed" in lack.facts and lack.path in shared
    ]
    asked = [name for name in QUESTIONS if any(name in lack.facts for lack in lacks)]
    asked += [name for name in OPTIONAL if any(name not in lack.known for lack in lacks)]
    text = HEAD + "#\n" + "".join(_meaning(name) for name in asked) + "\n" + "\n".join(entries)
    return text, sum(line.partition(" #")[0].rstrip().endswith(":") for line in _fields(text))


def _fields(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [line for line in lines if line.strip() != "map:"]


def _meaning(name: str) -> str:
    question = QUESTIONS.get(name)
    meaning = _MEANING[name] if question is None else question.meaning
    return f"# {KEYED.get(name, name):<12} {meaning}\n"


def _entry(glob: str, members: Sequence[Lack]) -> str:
    """Return one entry: the blanks of the files that a pattern matches."""
    first = members[0]
    facts = [f for f in first.facts if f not in KEYED and (f != "seed" or len(members) == 1)]
    keyed = [f for f in first.facts if f in KEYED]
    if not facts and not keyed:
        return ""
    facts += [name for name in OPTIONAL if name not in first.known]
    lines = [f"- path: {_quoted(glob)}" + (f" # {len(members)} files" if members[1:] else "")]
    lines += [f"  # known: {text}" for text in _known(members)]
    lines += ["  " + (_seed(first) if name == "seed" else f"{name}:") for name in facts]
    lines += ["  map:"] if keyed else []
    for name in keyed:
        keys = ", ".join(_quoted(printable(key)) for key in first.keys.get(name, ()))
        lines.append(f"    {KEYED[name]}:" + (f" # one of {keys}" if keys else ""))
    return "\n".join(lines) + "\n"


def _seed(lack: Lack) -> str:
    """Return the blank of a seed, with what the name of the log says, which is no proof."""
    said = _SEED.search(lack.path.as_posix())
    return "seed:" + (f" # the name says {said[1]}" if said else "")


def _known(members: Sequence[Lack]) -> list[str]:
    """Return what all members are known to have in common, to recognise them by."""
    names = ("framework", "model", "task", "group_size", "prompts_per_rollout", "lr")
    told = []
    for name in names:
        values = {str(lack.known.get(name)) for lack in members}
        if len(values) == 1 and members[0].known.get(name) is not None:
            told.append(f"{name} {printable(values.pop())}")
    return [", ".join(told)] if told else []


def _globs(
    group: Sequence[Lack], folder: Path, every: Sequence[Path]
) -> list[tuple[str, list[Lack]]]:
    """Return patterns that match the files of a group and no others, with what each matches."""
    if len(group) > 1:
        wanted = {lack.path for lack in group}
        for glob in _patterns([_relative(lack.path, folder) for lack in group]):
            if {p for p in every if _inside(p, folder) and _hits(glob, p, folder)} == wanted:
                return [(glob, list(group))]
    by_folder: dict[Path, list[Lack]] = {}
    for lack in group:
        by_folder.setdefault(lack.path.parent, []).append(lack)
    if len(by_folder) > 1:
        return [pair for part in by_folder.values() for pair in _globs(part, folder, every)]
    return [(_exact(lack.path, folder), [lack]) for lack in group]


def _patterns(names: Sequence[str]) -> list[str]:
    """Return patterns that match all names, from the plainest on."""
    start = _beginning(names)
    end = _beginning([name[::-1] for name in names])[::-1]
    home = start.rpartition("/")[0] + "/" if "/" in start else ""
    ending = end[end.index(".") :] if "." in end else ""
    least = min(len(name) for name in names)
    whole = [(start, end)] if len(start) + len(end) <= least else []
    return [f"./{_escaped(a)}*{_escaped(b)}" for a, b in [(home, ending), (home, ""), *whole]]


def _beginning(names: Sequence[str]) -> str:
    """Return the letters that all names begin with."""
    alike = itertools.takewhile(lambda row: len(set(row)) == 1, zip(*names, strict=False))
    return "".join(row[0] for row in alike)


def _hits(glob: str, path: Path, folder: Path) -> bool:
    return matches(glob, path, folder.absolute())


def _inside(path: Path, folder: Path) -> bool:
    return path.absolute().is_relative_to(folder.absolute())


def _relative(path: Path, folder: Path) -> str:
    return path.absolute().relative_to(folder.absolute()).as_posix()


def _exact(path: Path, folder: Path) -> str:
    """Return the pattern that matches a file alone."""
    return f"./{_escaped(_relative(path, folder))}"


def _escaped(name: str) -> str:
    r"""Return a name as a pattern for itself; letters that YAML cannot hold match any one.

    Examples
    --------
    >>> _escaped("run[1]*.csv"), _escaped("a\nb")
    ('run[[]1][*].csv', 'a?b')
    """
    special = {"[": "[[]", "*": "[*]", "?": "[?]"}
    return "".join(special.get(c, c if c.isprintable() else "?") for c in name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
