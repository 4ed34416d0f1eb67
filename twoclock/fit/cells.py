"""Which runs enter the headline exponent, cell by cell, and what is remarkable about the cells.

A cell is the runs of one batch size in one stratum. Nothing here fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoclock.errors import FitError
from twoclock.fit.settings import FitSettings
from twoclock.notes import Note
from twoclock.results import Cell
from twoclock.schema import check_columns

_NEEDED = ("run_id", "clock", "batch_size", "lower", "upper", "censoring")
_KINDS = ("exact", "interval", "left", "right")
_MIN_SIZES = 3  # the floor never leaves fewer batch sizes than this
_ALONE = "the seed bootstrap cannot vary it, and its interval is too short"
_SHARE = 0.2  # failed-before-target share of a cell, or its range over B, that is warned about


@dataclass(frozen=True, eq=False)
class Selection:
    """The events of one fit, who is in the headline, and the remarks that go with it.

    Parameters
    ----------
    events : DataFrame
        All rows, sorted by batch size and run_id, with columns ``used`` and ``why_not``.
    eligible : DataFrame
        Rows that could be fitted: the headline ones and those of floor-bound cells.
    cells : tuple of Cell
        By batch size, ascending.
    notes : tuple of Note
        Remarks.
    """

    events: pd.DataFrame
    eligible: pd.DataFrame
    cells: tuple[Cell, ...]
    notes: tuple[Note, ...]

    @property
    def used(self) -> pd.DataFrame:
        """Rows of the headline."""
        return self.events[self.events["used"].to_numpy(dtype=bool)]


def select(
    events: pd.DataFrame, settings: FitSettings, batch_sizes: tuple[int, ...] | None = None
) -> Selection:
    """Decide which runs enter the headline exponent.

    Parameters
    ----------
    events : DataFrame
        Rows of one stratum, clock and target; may carry ``used`` and ``why_not`` from before.
    settings : FitSettings
        The floor rule.
    batch_sizes : tuple of int, optional
        Keep only these batch sizes in the headline (the floor then only warns).

    Raises
    ------
    FitError
        Several clocks or targets in one table, or an impossible interval.
    """
    table = _checked(events)
    notes = [*_drop_before_start(table), *_drop_uninformed(table), *_drop_copies(table)]
    if batch_sizes is not None:
        outside = table["used"] & ~table["batch_size"].isin(batch_sizes)
        _exclude(table, outside, "batch size is outside the compared set")
    eligible = table[table["used"]]
    rollouts = _rollouts(eligible)
    bound = tuple(b for b, r in rollouts.items() if r is not None and r < settings.floor_rollouts)
    remain = len(rollouts) - len(bound)
    leave_out = settings.floor == "exclude" and batch_sizes is None and remain >= _MIN_SIZES
    if bound:
        notes.append(_floor_note(bound, rollouts, settings, left_out=leave_out))
        if leave_out:
            why = "floor_bound: too few rollouts to the event"
            _exclude(table, table["used"] & table["batch_size"].isin(bound), why)
    cells = _cells(table, eligible, bound)
    notes += _seed_notes(cells) + _share_notes(eligible)
    return Selection(table, eligible, cells, tuple(notes))


def _checked(events: pd.DataFrame) -> pd.DataFrame:
    """Return a sorted copy with ``used`` and ``why_not``, after checking what a fit relies on."""
    check_columns(events, _NEEDED, where="events")
    table = events.copy()
    table["censoring"] = table["censoring"].astype("string").fillna("")
    for name in ("clock", "target"):
        values = table[name].dropna().unique().tolist() if name in table.columns else []
        if len(values) > 1:
            got = ", ".join(str(value) for value in values[:3])
            msg = f"events: one fit takes one {name}, got {got}; fit each by itself"
            raise FitError(msg)
    lower = table["lower"].astype("float64").fillna(0.0)
    upper = table["upper"].astype("float64").fillna(np.inf)
    bad = ~((lower >= 0.0) & (upper >= lower)) | (lower == np.inf)
    bad |= (upper <= 0.0) & (table["censoring"] != "before_start")
    if bad.any():
        row = table[bad].iloc[0]
        msg = (
            f"events: run {row['run_id']!r} has the interval ({row['lower']}, {row['upper']}]; "
            "needs 0 <= lower <= upper and upper > 0"
        )
        raise FitError(msg)
    table["lower"], table["upper"] = lower, upper
    kinds = np.select(
        [table["censoring"] == "before_start", lower == upper, lower == 0.0, upper == np.inf],
        ["before_start", "exact", "left", "right"],
        "interval",
    )
    table["censoring"] = pd.Series(kinds, index=table.index, dtype="string")
    used = table["used"].fillna(value=True) if "used" in table.columns else True
    table["used"] = pd.Series(used, index=table.index).astype(bool)
    why = table["why_not"] if "why_not" in table.columns else pd.Series("", index=table.index)
    table["why_not"] = why.astype("string").fillna("")
    if "seed" not in table.columns:
        table["seed"] = pd.Series(pd.NA, index=table.index, dtype="Int64")
    table["run_id"] = table["run_id"].astype("string")
    if table["run_id"].duplicated().any():
        run = str(table.loc[table["run_id"].duplicated(), "run_id"].iloc[0])
        msg = f"events: run {run!r} stands in two rows of one clock and target; keep one"
        raise FitError(msg)
    return table.sort_values(["batch_size", "run_id"], kind="stable").reset_index(drop=True)


def _exclude(table: pd.DataFrame, rows: pd.Series[bool], why: str) -> None:
    table.loc[rows, "why_not"] = why
    table.loc[rows, "used"] = False


def _names(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(str(run) for run in rows["run_id"])


def _drop_before_start(table: pd.DataFrame) -> list[Note]:
    rows = table["used"] & (table["censoring"] == "before_start")
    if not rows.any():
        return []
    _exclude(table, rows, "before_start: the target was met at 0 responses")
    names = _names(table[rows])
    message = f"{len(names)} run(s) met the target at 0 responses and tell nothing about learning"
    return [Note("before_start", f"{message}: {', '.join(names)}", runs=names)]


def _drop_uninformed(table: pd.DataFrame) -> list[Note]:
    """Leave out runs with the interval (0, inf]: their likelihood is 1 whatever the exponent."""
    rows = table["used"] & (table["lower"] == 0.0) & (table["upper"] == np.inf)
    if not rows.any():
        return []
    _exclude(table, rows, "no validation: nothing is known of the event")
    names = _names(table[rows])
    message = (
        f"{len(names)} run(s) say nothing of the event (no validation after the start; lower 0, "
        f"upper empty) and are not counted: {', '.join(names)}"
    )
    return [Note("no_information", message, runs=names)]


def _drop_copies(table: pd.DataFrame) -> list[Note]:
    """Leave out runs that repeat another one's seed, batch size and exact event."""
    keys = ["batch_size", "seed", "lower", "upper"]
    exact = table["used"] & (table["lower"] == table["upper"]) & table["seed"].notna()
    copies = exact & table[exact].duplicated(keys).reindex(table.index, fill_value=False)
    if not copies.any():
        return []
    _exclude(table, copies, "duplicate: same seed, batch size and event as another run")
    names = _names(table[copies])
    message = (
        f"{', '.join(names)}: same seed, batch size and event as another run; counted once "
        "(a copied folder is no new seed)"
    )
    return [Note("duplicate_run", message, runs=names)]


def _rollouts(rows: pd.DataFrame) -> dict[int, float | None]:
    """Return the median of upper/B over the runs with an event, by batch size."""
    sizes = rows["batch_size"].to_numpy(dtype=np.int64)
    upper = rows["upper"].to_numpy(dtype=np.float64)
    seen = np.isfinite(upper)
    out: dict[int, float | None] = {}
    for size in np.unique(sizes).tolist():
        ends = upper[seen & (sizes == size)]
        out[size] = float(np.median(ends)) / size if len(ends) else None
    return out


def _floor_note(
    bound: tuple[int, ...],
    rollouts: dict[int, float | None],
    settings: FitSettings,
    *,
    left_out: bool,
) -> Note:
    listed = ", ".join(f"B={b}: {rollouts[b]:.3g}" for b in bound)
    verdict = (
        "left out of the headline exponent (sensitivity all_cells has it with them)"
        if left_out
        else "used all the same; the exponent is pushed towards 1"
    )
    message = (
        f"floor_bound: fewer than {settings.floor_rollouts:g} rollouts to the event ({listed}); "
        f"weights change only after a rollout, so R >= B: {verdict}"
    )
    return Note("floor_bound", message)


def _cells(table: pd.DataFrame, eligible: pd.DataFrame, bound: tuple[int, ...]) -> tuple[Cell, ...]:
    out = []
    rollouts = _rollouts(eligible)
    sizes = eligible["batch_size"].to_numpy(dtype=np.int64)
    kinds = eligible["censoring"].to_numpy(dtype=object)
    inside = set(table.loc[table["used"], "batch_size"].tolist())
    remarks = {name: _flagged(eligible, name) for name in ("coarse_validation", "few_validations")}
    for size, per_event in rollouts.items():
        mine = sizes == size
        count = {kind: int((kinds[mine] == kind).sum()) for kind in _KINDS}
        flags = {
            "floor_bound": size in bound,
            "single_seed": int(mine.sum()) == 1,
            "no_event": count["right"] == int(mine.sum()),
            **{name: bool(rows[mine].any()) for name, rows in remarks.items()},
        }
        out.append(
            Cell(
                batch_size=size,
                n_runs=int(mine.sum()),
                n_exact=count["exact"],
                n_interval=count["interval"],
                n_left=count["left"],
                n_right=count["right"],
                rollouts_to_event=per_event,
                flags=tuple(name for name, has in flags.items() if has),
                in_headline=size in inside,
            )
        )
    return tuple(out)


def _flagged(rows: pd.DataFrame, flag: str) -> NDArray[np.bool_]:
    if "flags" not in rows.columns:
        return np.zeros(len(rows), dtype=bool)
    texts = ["" if pd.isna(text) else str(text) for text in rows["flags"]]
    return np.array([flag in [w.strip() for w in text.split(",")] for text in texts], dtype=bool)


def _seed_notes(cells: tuple[Cell, ...]) -> list[Note]:
    inside = [cell for cell in cells if cell.in_headline]
    notes = []
    single = [f"B={cell.batch_size}" for cell in inside if cell.n_runs == 1]
    if single:
        notes.append(Note("single_seed", f"one seed only at {', '.join(single)}: {_ALONE}"))
    if len(inside) == 2:
        sizes = " and ".join(f"B={cell.batch_size}" for cell in inside)
        notes.append(Note("two_batch_sizes", f"two B values ({sizes}): no check of the power law"))
    return notes


def _share_notes(rows: pd.DataFrame) -> list[Note]:
    """Warn where many runs failed before the target, or where that share changes with B."""
    flagged = _flagged(rows, "failed_before_target")
    failed = pd.Series(flagged, index=rows.index)
    if not flagged.any():
        return []
    shares = failed.groupby(rows["batch_size"]).mean()
    if shares.max() <= _SHARE and shares.max() - shares.min() <= _SHARE:
        return []
    listed = ", ".join(f"B={int(str(b))}: {share:.0%}" for b, share in shares.items())
    message = (
        f"runs that failed before the target are right-censored ({listed}): the exponent is that "
        "of learning if failure were absent; see the cumulative incidence"
    )
    return [Note("failed_before_target", message, runs=_names(rows[failed]))]
