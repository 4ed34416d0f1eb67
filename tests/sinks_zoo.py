"""One run of one framework (verl) in every sink, each with a seed of its own.

The binary sinks are written by hand here; `tests/sinks` has the real writers.
"""

import gzip
import io
import json
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tests.event_bytes import field as proto
from tests.event_bytes import hparams_value, record, scalar, start
from tests.wandb_bytes import config, ended, framed, history, run
from tests.zoo import jsonl, verl_config, verl_rows


def flat(seed):
    """Return the rows under plain keys, the step among them."""
    return [{"step": row["step"], **row["data"]} for row in verl_rows(seed)]


def dotted(seed):
    """Return the configuration under dotted names."""
    out = {}

    def walk(value, prefix):
        for key, item in value.items():
            name = f"{prefix}{key}"
            if isinstance(item, dict):
                walk(item, f"{name}.")
            else:
                out[name] = item

    walk(verl_config(seed), "")
    return out


def hydra(seed):
    """Return the configuration that lies beside logs that hold none."""
    return {".hydra/config.yaml": json.dumps(verl_config(seed))}


def table(seed, separator=",", point="."):
    """Return a table with a header; what was not logged is blank."""
    rows = flat(seed)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = [separator.join(keys)]
    lines += [separator.join(str(row.get(k, "")).replace(".", point) for k in keys) for row in rows]
    return "\n".join(lines) + "\n"


def chart(seed):
    """Return W&B's export of a chart: value, lowest and highest of each key, all quoted."""
    rows = flat(seed)
    keys = [key for key in dict.fromkeys(k for row in rows for k in row) if key != "step"]
    names = [f"chart-s{seed} - {key}{end}" for key in keys for end in ("", "__MIN", "__MAX")]
    lines = [",".join(f'"{name}"' for name in ["Step", *names])]
    for row in rows:
        cells = [str(row.get(key, "")) for key in keys for _ in range(3)]
        lines.append(",".join(f'"{cell}"' for cell in [str(row["step"]), *cells]))
    return "\n".join(lines) + "\n"


def wandb_history(seed):
    """Return the CSV of W&B's `run.history()`."""
    return table(seed).replace("step,", "_step,", 1)


def parquet(seed):
    """Return a Parquet file of rows."""
    rows = flat(seed)
    keys = dict.fromkeys(key for row in rows for key in row)
    sink = io.BytesIO()
    pq.write_table(pa.table({key: [row.get(key) for row in rows] for key in keys}), sink)
    return sink.getvalue()


def tensorboard(seed):
    """Return an event file with the configuration as hyperparameters."""
    settings = {name: str(value) for name, value in dotted(seed).items()}
    out = start(1e9) + record(proto(1, 1e9) + proto(5, proto(1, hparams_value(settings))))
    for row in flat(seed):
        for key, value in row.items():
            if key != "step":
                out += scalar(key.encode(), row["step"], value, 1e9)
    return out


def wandb_run(seed):
    """Return the transaction log of a W&B run."""
    rows = [history({k: v for k, v in row.items() if k != "step"}, row["step"])
            for row in flat(seed)]  # fmt: skip
    head = [run(run_id=f"id{seed}", name=f"wandb-s{seed}"), config(verl_config(seed))]
    return framed([*head, *rows, ended(0)])


def mlflow_files(seed):
    """Return the files of a run in MLflow's file store, which knows no ``@``."""
    place = f"mlruns/1/run{seed}"
    files = {
        "mlruns/1/meta.yaml": "experiment_id: '1'\nname: e\nlifecycle_stage: active\n",
        f"{place}/meta.yaml": f"run_id: run{seed}\nrun_name: mlflow-s{seed}\nstatus: 3\n"
        "lifecycle_stage: active\nstart_time: 1700000000000\n",
    }
    for row in flat(seed):
        for key, value in row.items():
            if key != "step":
                name = f"{place}/metrics/{key.replace('@', '_at_')}"
                files[name] = files.get(name, "") + f"1700000000000 {value} {row['step']}\n"
    files |= {f"{place}/params/{k.replace('.', '/')}": str(v) for k, v in dotted(seed).items()}
    return files


def _database(tables, rows):
    """Return the bytes of an sqlite database."""
    connection = sqlite3.connect(":memory:")
    for name, columns in tables.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
    for name, values in rows:
        connection.execute(f"INSERT INTO {name} VALUES ({','.join('?' * len(values))})", values)
    connection.commit()
    return connection.serialize()


def mlflow_database(seed):
    """Return MLflow's sqlite store."""
    tables = {
        "runs": "run_uuid TEXT, name TEXT, status TEXT, start_time INTEGER, lifecycle_stage TEXT",
        "metrics": "key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, "
        "is_nan INTEGER",
        "params": "key TEXT, value TEXT, run_uuid TEXT",
    }
    mark = f"uuid{seed}"
    rows = [("runs", (mark, f"mlflowdb-s{seed}", "FINISHED", 1700000000000, "active"))]
    rows += [("params", (k, str(v), mark)) for k, v in dotted(seed).items()]
    rows += [
        ("metrics", (key.replace("@", "_at_"), value, 1, mark, row["step"], 0))
        for row in flat(seed) for key, value in row.items() if key != "step"
    ]  # fmt: skip
    return _database(tables, rows)


def trackio(seed):
    """Return a trackio project."""
    tables = {
        "metrics": "id INTEGER, run_id TEXT, timestamp TEXT, run_name TEXT, step INTEGER, "
        "metrics TEXT",
        "configs": "id INTEGER, run_id TEXT, run_name TEXT, config TEXT, created_at TEXT",
    }
    mark, name, time = f"t{seed}", f"trackio-s{seed}", "2026-01-01T00:00:00+00:00"
    rows = [("configs", (1, mark, name, json.dumps(verl_config(seed)), time))]
    for i, row in enumerate(flat(seed)):
        metrics = json.dumps({k: v for k, v in row.items() if k != "step"})
        rows.append(("metrics", (i, mark, time, name, row["step"], metrics)))
    return _database(tables, rows)


def console(seed):
    """Return verl's console behind a Ray prefix, with the printed configuration."""
    lines = [repr(verl_config(seed))]
    for row in flat(seed):
        items = " - ".join(f"{k}:{v}" for k, v in row.items() if k != "step")
        lines.append(f"step:{row['step']} - {items}")
    return "".join(f"\x1b[36m(TaskRunner pid=7)\x1b[0m {line}\n" for line in lines)


def zstd(text):
    """Return a zstd frame."""
    return zstandard.ZstdCompressor().compress(text.encode())


SINKS = {
    "jsonl": lambda s: {"run.jsonl": jsonl(flat(s)), **hydra(s)},
    "jsonl-gz": lambda s: {"run.jsonl.gz": gzip.compress(jsonl(flat(s)).encode()), **hydra(s)},
    "jsonl-zst": lambda s: {"run.jsonl.zst": zstd(jsonl(flat(s))), **hydra(s)},
    "json-array": lambda s: {"run.json": json.dumps(flat(s)), **hydra(s)},
    "verl-file": lambda s: {"exp.jsonl": jsonl(verl_rows(s)), **hydra(s)},
    "csv": lambda s: {"run.csv": table(s), **hydra(s)},
    "csv-european": lambda s: {"run.csv": table(s, ";", ","), **hydra(s)},
    "csv-wandb-chart": lambda s: {"wandb_export.csv": chart(s), **hydra(s)},
    "csv-wandb-history": lambda s: {"history.csv": wandb_history(s), **hydra(s)},
    "parquet": lambda s: {"run.parquet": parquet(s), **hydra(s)},
    "parquet-gz": lambda s: {"run.parquet.gz": gzip.compress(parquet(s)), **hydra(s)},
    "tensorboard": lambda s: {"events.out.tfevents.1700000000.host.1.0": tensorboard(s)},
    "wandb": lambda s: {f"wandb/offline-run-20260101_000000-id{s}/run-id{s}.wandb": wandb_run(s)},
    "mlflow-files": mlflow_files,
    "mlflow-sqlite": lambda s: {"mlflow.db": mlflow_database(s)},
    "trackio": lambda s: {"project.db": trackio(s)},
    "trackio-zst": lambda s: {"project.db.zst": zstandard.ZstdCompressor().compress(trackio(s))},
    "console": lambda s: {"train.log": console(s)},
    "console-gz": lambda s: {"train.log.gz": gzip.compress(console(s).encode())},
}
"""By name: the files of a run with a seed in this sink."""


def every_sink():
    """Return the files of one run in every sink, each in a folder of its own with its own seed."""
    return {
        f"{name}/{file}": content
        for seed, (name, files) in enumerate(SINKS.items(), start=10)
        for file, content in files(seed).items()
    }
