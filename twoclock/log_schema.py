"""The JSON Schema of the native log format, made from the tables in `twoclock.schema`."""

from __future__ import annotations

from typing import Any

from twoclock.schema import EVALS, LOG_FORMAT, PROBES, RUNS, STEPS, Column

_JSON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def _json_property(column: Column) -> dict[str, Any]:
    unit = f" [{column.unit}]" if column.unit else ""
    out: dict[str, Any] = {
        "description": column.meaning + unit,
        "type": [_JSON_TYPES[column.kind], "null"],
    }
    if column.choices:
        out["enum"] = [*column.choices, None]
    return out


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the native log format: `run.json` and one metrics row.

    Returns
    -------
    dict
        ``$defs`` holds ``run`` (the content of `run.json`) and ``row`` (a line of `metrics.jsonl`).

    Examples
    --------
    >>> sorted(json_schema()["$defs"])
    ['eval', 'probe', 'row', 'run', 'train']
    """
    run = {c.name: _json_property(c) for c in RUNS.columns}
    run["format"] = {"const": LOG_FORMAT}
    train = {c.name: _json_property(c) for c in STEPS.columns if c.name != "run_id"}
    evals = {c.name: _json_property(c) for c in EVALS.columns if c.name != "run_id"}
    probe = {c.name: _json_property(c) for c in PROBES.columns if c.name != "run_id"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "twoclock run log",
        "oneOf": [{"$ref": "#/$defs/run"}, {"$ref": "#/$defs/row"}],
        "$defs": {
            "run": {"type": "object", "properties": run, "required": ["format"]},
            "row": {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in ("train", "eval", "probe")]},
            "train": {
                "type": "object",
                "properties": {"kind": {"const": "train"}, **train},
                "required": ["kind", "rollout", "responses"],
            },
            "eval": {
                "type": "object",
                "properties": {"kind": {"const": "eval"}, **evals},
                "required": ["kind", "responses", "accuracy"],
            },
            "probe": {
                "type": "object",
                "properties": {"kind": {"const": "probe"}, **probe},
                "required": ["kind", "rollout", "responses"],
            },
        },
    }
