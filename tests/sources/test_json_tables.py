"""Home-made JSON documents: columns, rows and rows by step within one object."""

import json

import pytest

from tests.reading import codes, curve, note, read, reasons
from twoclock.errors import NoUsableRuns

COLUMNS = {
    "config": {"learning_rate": 1e-6, "seed": 3, "group_size": 8},
    "steps": [1, 2, 3],
    "reward": [0.1, 0.2, None],
    "eval_steps": [0, 3],
    "eval_acc": [0.2, 0.6],
}
NESTED = {
    "train": {"step": [1, 2, 3], "loss": [1, 2, 3], "reward": [0.1, 0.2, 0.3]},
    "eval": {"step": [0, 3], "accuracy": [0.2, 0.6]},
}
ROWS = {
    "args": {"learning_rate": 1e-6},
    "train_log": [{"step": s, "reward": s / 10} for s in (1, 2, 3)],
    "eval_log": [{"step": 0, "accuracy": 0.2}, {"step": 3, "accuracy": 0.6}],
}
PAIRS = {"reward": [[1, 0.1], [2, 0.2], [3, 0.3]], "val_acc": [[0, 0.2], [3, 0.6]]}
BY_STEP = {
    "0": {"eval_acc": 0.2}, "1": {"reward": 0.1}, "2": {"reward": 0.2},
    "3": {"reward": 0.3, "eval_acc": 0.6},
}  # fmt: skip


@pytest.mark.parametrize("document", [COLUMNS, NESTED, ROWS, PAIRS, BY_STEP])
@pytest.mark.parametrize("indent", [None, 2])
def test_every_shape_gives_the_same_run(tmp_path, document, indent):
    """Validations stand at their own steps, whatever the shape and on however many lines."""
    files = {"run/history.json": json.dumps(document, indent=indent)}
    runs = read(tmp_path, files, batch_size=8)
    assert curve(runs) == [(0, 0.2), (24, 0.6)]
    assert runs.steps["responses"].tolist() == [8, 16, 24]
    assert runs.steps["reward"].tolist()[:2] == [0.1, 0.2]


def test_scalars_of_the_document_are_its_configuration(tmp_path):
    """The rate, seed and group of a document's own settings are facts of the run."""
    runs = read(tmp_path, {"run/history.json": json.dumps(COLUMNS)}, batch_size=8)
    run = runs.runs.iloc[0]
    assert (run["lr"], run["seed"], run["group_size"]) == (1e-6, 3, 8)


def test_objects_side_by_side_are_runs(tmp_path):
    """Two objects with the same keys are two runs, named as they are there."""
    runs = {
        name: {"steps": [0, 5], "reward": [0.1, 0.2], "val_acc": [0.1, last]}
        for name, last in (("small", 0.4), ("large", 0.5))
    }
    found = read(tmp_path, {"all.json": json.dumps(runs)}, batch_size=8)
    assert sorted(found.runs["run_id"]) == ["large", "small"]


def test_lists_without_steps_are_counted_and_said_to_be(tmp_path):
    """Entry i of lists of one length is step i; a list of another length stands nowhere."""
    document = {"rewards_avg": [0.1, 0.2, 0.3], "kl_avg": [0.0, 0.1, 0.2], "val_acc": [0.5, 0.6]}
    runs = read(tmp_path, {"metrics.json": json.dumps(document, indent=1)}, batch_size=8)
    assert runs.steps["responses"].tolist() == [8, 16, 24]
    assert note(runs, "counted_entries").count == 3
    assert "val_acc" in note(runs, "unplaced_lists").message
    assert "no_validation" in codes(runs)


@pytest.mark.parametrize(
    "document",
    [
        {"meta": {"model": "m"}, "phases": [{"name": "a", "final_eval": 1.0}]},
        {"per_problem": [1, 0, 1, 1], "accuracy": 0.75},
        {"rewards": [0.5, 0.7]},
    ],
)
def test_results_of_an_evaluation_are_no_log(tmp_path, document):
    """A summary beside a log has lists, too: it is named as no metrics and asks for nothing."""
    log = '{"step": 1, "val_acc": 0.1}\n{"step": 2, "val_acc": 0.2}\n'
    files = {"r/log.jsonl": log, "r/result.json": json.dumps(document, indent=2)}
    runs = read(tmp_path, files, batch_size=8)
    assert reasons(runs)["result.json"].startswith("no metrics")
    assert not any(refusal.facts for refusal in runs.refused)


def test_a_cut_document_is_refused(tmp_path):
    """Half a document tells nothing for sure."""
    text = json.dumps(COLUMNS, indent=2)
    with pytest.raises(NoUsableRuns, match="cut or damaged"):
        read(tmp_path, {"history.json": text[: len(text) // 2]}, batch_size=8)


def test_a_log_without_one_known_key_is_refused_and_its_keys_are_named(tmp_path):
    """A run without any value would be an empty line in every table: the refusal lists the keys."""
    with pytest.raises(NoUsableRuns, match=r"none of its keys is known \(n_good, rho\)"):
        read(tmp_path, {"a.jsonl": '{"step": 1, "n_good": 2, "rho": 1.0}\n'}, batch_size=8)


def test_keys_that_may_count_steps_are_named(tmp_path):
    """Rows without a known step say which of their keys may count it."""
    with pytest.raises(NoUsableRuns) as caught:
        read(tmp_path, {"a.csv": "epoch,current_steps,reward\n1,1,.1\n1,2,.2\n"}, batch_size=8)
    assert caught.value.details[0].candidates["rollout"] == ("current_steps", "epoch")


def test_an_accuracy_on_every_row_may_be_that_of_the_training(tmp_path):
    """Home-made trainers log the accuracy of the batch as `accuracy`: it is taken, and said."""
    text = "".join(f'{{"step": {s}, "loss": 1, "accuracy": 0.{s}}}\n' for s in (1, 2, 3))
    runs = read(tmp_path, {"a.jsonl": text}, batch_size=8)
    assert "every row" in note(runs, "accuracy_key").message
