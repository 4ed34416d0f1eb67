"""A configuration beside a log is used where it can mean only that log."""

import json

import pytest

from tests.reading import codes, note, read, write
from twoclock.errors import NoUsableRuns
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs

ROWS = "".join(
    json.dumps({"step": s, "completions/mean_length": 9.0, "reward_std": 0.1, "reward": s / 10,
                "eval_acc": s / 20}) + "\n"
    for s in range(1, 6)
)  # fmt: skip
TRL = {
    "num_generations": 4, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 2,
    "generation_batch_size": 16, "num_iterations": 1, "learning_rate": 2e-6, "seed": 7,
    "epsilon": 0.2, "epsilon_high": 0.28, "delta": None, "beta": 0.0, "loss_type": "dapo",
    "model_name_or_path": "org/tiny",
}  # fmt: skip
WANDB = "".join(f"{k}:\n  value: {json.dumps(v)}\n" for k, v in TRL.items()) + "wandb_version: 1\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run/config.json", json.dumps(TRL)),
        ("run/config.yaml", json.dumps(TRL)),
        ("run/args.json", json.dumps({"args": TRL})),
        ("run/config.toml", "".join(f"{k} = {json.dumps(v)}\n" for k, v in TRL.items()
                                    if v is not None)),
        ("run/wandb/run-20260101_000000-abc/files/config.yaml", WANDB),
        ("config.yaml", json.dumps(TRL)),
    ],
)  # fmt: skip
def test_the_facts_of_a_configuration_beside_the_log_are_used(tmp_path, name, text):
    """Batch size, group, K, rate, clip and seed come from JSON, YAML, TOML and W&B's own form."""
    runs = read(tmp_path, {"run/metrics.jsonl": ROWS, name: text})
    run = runs.runs.iloc[0]
    assert (run["framework"], run["batch_size"], run["group_size"]) == ("trl", 16, 4)
    assert run["optimizer_steps_per_rollout"] == 1
    assert (run["lr"], run["seed"], run["clip_high"]) == (2e-6, 7, 0.28)
    assert run["lr_from"] == run["seed_from"] == "config"
    assert name.rpartition("/")[2] in run["source"]


def test_a_configuration_beside_several_runs_is_not_guessed_about(tmp_path):
    """What could mean each of two logs is used for none, and that is said."""
    files = {"a.jsonl": ROWS, "b.jsonl": ROWS.replace("0.1", "0.3"), "config.json": json.dumps(TRL)}
    runs = read(tmp_path, files, batch_size=16)
    assert "beside 2 logs" in note(runs, "shared_config").message
    assert runs.runs["lr"].isna().all()


def test_a_configuration_that_names_a_log_means_that_one(tmp_path):
    """The experiment's name decides among several logs."""
    config = json.dumps({**TRL, "run_name": "b"})
    files = {"a.jsonl": ROWS, "b.jsonl": ROWS.replace("0.1", "0.3"), "config.json": config}
    runs = read(tmp_path, files, batch_size=16)
    assert runs.runs.set_index("run_id")["lr"].to_dict() == {"a": pytest.approx(float("nan"),
                                                             nan_ok=True), "b": 2e-6}  # fmt: skip


def test_the_configuration_of_a_model_is_no_run_configuration(tmp_path):
    """A Hugging Face `config.json` beside a log gives nothing and does no harm."""
    model = {"model_type": "llama", "hidden_size": 64, "vocab_size": 100}
    runs = read(
        tmp_path, {"run/m.jsonl": ROWS, "run/config.json": json.dumps(model)}, batch_size=16
    )
    assert runs.runs["model"].isna().all()
    assert "config.json" not in runs.runs["source"].iloc[0]


def test_odd_values_in_a_configuration_are_named_and_left_out(tmp_path):
    """A list where a rate should be costs that fact, not the run."""
    odd = {**TRL, "learning_rate": [1e-6], "seed": "many"}
    runs = read(tmp_path, {"run/m.jsonl": ROWS, "run/config.json": json.dumps(odd)})
    assert runs.runs["batch_size"].tolist() == [16]
    assert runs.runs["seed"].isna().all()
    assert "odd_setting" in codes(runs)


def test_a_batch_size_of_unknown_meaning_is_not_taken(tmp_path):
    """Prompts or responses? A home-made configuration's batch size is asked for, its rate taken."""
    rows = "".join(json.dumps({"step": s, "val/acc": s / 10}) + "\n" for s in range(5))
    files = {"run/m.jsonl": rows, "run/config.json": '{"batch_size": 64, "lr": 1e-5, "seed": 3}'}
    with pytest.raises(NoUsableRuns, match="batch size"):
        read(tmp_path, files)
    run = read(tmp_path, files, batch_size=256).runs.iloc[0]
    assert (run["lr"], run["seed"], run["batch_size"]) == (1e-5, 3, 256)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch HACKED']",
        "[" * 100_000,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" + "".join(
            f"k{i}: &k{i} [*{p}, *{p}]\n" for i, p in enumerate(
                ["c", *(f"k{j}" for j in range(40))]
            )
        ),
        "\x00\x01",
        "- just\n- a list\n",
    ],
    ids=["tag", "deep", "aliases", "binary", "list"],
)  # fmt: skip
def test_a_hostile_configuration_is_as_good_as_none(tmp_path, monkeypatch, text):
    """No tag is executed, nesting and aliases cost no time; the log is read as without it."""
    monkeypatch.chdir(tmp_path)
    runs = read(tmp_path, {"run/m.jsonl": ROWS, "run/config.yaml": text}, batch_size=16)
    assert len(runs.runs) == 1
    assert not (tmp_path / "HACKED").exists()


def test_a_configuration_above_several_runs_is_none_of_one_given_alone(tmp_path):
    """What a folder says of its runs does not depend on whether one of them is given alone."""
    files = {"config.json": json.dumps(TRL), "a/m.jsonl": ROWS, "b/m.jsonl": ROWS}
    write(tmp_path, files)
    assert read_runs(tmp_path / "b", ReadOptions(batch_size=8)).runs["seed"].isna().all()


def test_a_configuration_for_two_runs_in_two_formats_is_told(tmp_path):
    """One log of each format may be one run; where they are two, the shared settings are named."""
    rows = "step,reward,eval_acc\n" + "".join(f"{s},0.{s}7,0.{s}\n" for s in range(1, 9))
    files = {"config.json": json.dumps(TRL), "a/m.jsonl": ROWS, "b/m.csv": rows}
    runs = read(tmp_path, files)
    assert "speaks for 2 runs" in note(runs, "shared_config").message
