import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twoclock
from twoclock.errors import LogFormatError
from twoclock.log_schema import json_schema
from twoclock.runfacts import RunFacts, complete_facts
from twoclock.runlog import read_header
from twoclock.runlogger import MEASURED, RunLogger
from twoclock.schema import RUNS

FACTS = {
    "framework": "own",
    "model": "tiny",
    "task": "sums",
    "seed": 3,
    "batch_size": 64,
    "group_size": 8,
    "minibatches": 4,
    "epochs": 2,
    "lr": 1e-6,
    "base_lr": 1e-6,
    "lr_schedule": "constant",
    "warmup_responses": 128.0,
    "clip_low": 0.2,
    "clip_high": 0.28,
    "clip_dual": None,
    "kl_coef": 0.0,
    "grad_clip": 1.0,
    "optimizer": "adam",
    "n_params": 1000,
    "eval_size": 500,
}


class Clock:
    """Seconds that grow by one at each look."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        """Return the next second."""
        self.now += 1
        return self.now


def rows(folder):
    """Return the lines of a metrics file."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def train(folder, until, *, resume=None, kill=None):
    """Log rollouts up to `until`, each with a validation; stop unfinished after rollout `kill`."""
    logger = RunLogger(folder, resume=resume, clock=Clock(), **FACTS)
    for i in range(logger.counts.rollout + 1, until + 1):
        logger.rollout(reward=i / 10, loss=1 / i, response_tokens=5.0)
        logger.validation(accuracy=i / 10, n=500)
        if i == kill:
            return logger
    logger.finish()
    return logger


def test_every_fact_comes_back_from_the_reader(tmp_path):
    """What was given, and what follows from it, is what `read_runs` returns."""
    train(tmp_path / "a", 2)
    row = twoclock.read_runs(tmp_path).runs.iloc[0]
    expected = {
        **FACTS,
        "prompts_per_rollout": 8,
        "optimizer_steps_per_rollout": 8,
        "clip_active": "yes",
        "clip_dual": math.inf,
        "ended": "completed",
    }
    assert {name: row[name] for name in expected} == expected
    assert row.batch_size_from == "config"


def test_counts_add_up_and_come_back(tmp_path):
    """Rollouts, responses, steps and tokens are cumulative, generated apart from trained."""
    with RunLogger(tmp_path / "a", clock=Clock(), **FACTS) as logger:
        logger.validation(accuracy=0.1, n=500)
        logger.rollout(reward=0.1, tokens=640, flops=10)
        logger.rollout(responses=128, trained=64, optimizer_steps=4, tokens=960, flops=20)
        logger.validation(accuracy=0.2, n=500)
    first, second = (r for r in rows(tmp_path / "a") if r["kind"] == "train")
    assert (first["responses"], first["optimizer_step"], first["tokens"]) == (64, 8, 640)
    assert first["response_tokens"] == 10
    expected = {
        "rollout": 2,
        "optimizer_step": 12,
        "responses": 192,
        "responses_trained": 128,
        "tokens": 1600,
        "flops": 30,
        "seconds": 2.0,
        "response_tokens": 7.5,
    }
    assert {name: second[name] for name in expected} == expected
    runs = twoclock.read_runs(tmp_path)
    assert runs.steps.responses.tolist() == [64, 192]
    assert runs.steps.responses_trained.tolist() == [64, 128]
    assert runs.evals.responses.tolist() == [0, 192]
    assert runs.evals.n.tolist() == [500, 500]


def test_a_count_that_was_once_unknown_stays_unknown(tmp_path):
    """A sum with a missing part is left out, not understated."""
    with RunLogger(tmp_path / "a", batch_size=8) as logger:
        logger.rollout(tokens=10)
        logger.rollout()
        logger.rollout(tokens=10)
    assert [r.get("tokens") for r in rows(tmp_path / "a")] == [10, None, None]
    assert "optimizer_step" not in rows(tmp_path / "a")[0]


def test_a_validation_within_a_rollout_counts_its_responses(tmp_path):
    """Responses that are sampled but not yet trained on stand in the validation."""
    with RunLogger(tmp_path / "a", batch_size=64) as logger:
        logger.validation(accuracy=0.2, unfinished=64)
        logger.rollout(reward=0.5)
        logger.validation(accuracy=0.3)
    seen = [(r["rollout"], r["responses"]) for r in rows(tmp_path / "a") if r["kind"] == "eval"]
    assert seen == [(1, 64), (1, 64)]


def test_rows_follow_the_json_schema(tmp_path):
    """What is written validates against the schema of the format."""
    jsonschema = pytest.importorskip("jsonschema")
    train(tmp_path / "a", 2)
    for content in [read_header(tmp_path / "a"), *rows(tmp_path / "a")]:
        jsonschema.validate(content, json_schema())


def test_rows_can_be_seen_while_the_run_goes_on(tmp_path):
    """Each rollout and each validation reaches the file at once."""
    logger = RunLogger(tmp_path / "a", batch_size=64)
    logger.rollout(reward=0.5)
    assert len(rows(tmp_path / "a")) == 1
    logger.validation(accuracy=0.5)
    assert len(rows(tmp_path / "a")) == 2
    logger.close()


@pytest.mark.parametrize(
    ("error", "ended"),
    [(ValueError, "crashed"), (KeyboardInterrupt, "stopped"), (None, "completed")],
)
def test_the_end_of_the_block_is_recorded(tmp_path, error, ended):
    """An exception makes the run crashed (an interrupt: stopped) and goes on to the caller."""

    def loop():
        with RunLogger(tmp_path / "a", **FACTS) as logger:
            logger.rollout(reward=0.5)
            if error:
                raise error

    if error:
        with pytest.raises(error):
            loop()
    else:
        loop()
    assert read_header(tmp_path / "a")["ended"] == ended
    assert twoclock.read_runs(tmp_path).runs.ended[0] == ended


def test_an_end_that_was_recorded_stays(tmp_path):
    """Leaving the block does not overwrite `finish`, and nothing is logged after it."""
    with RunLogger(tmp_path / "a", **FACTS) as logger:
        logger.rollout(reward=0.5)
        logger.finish("stopped", compress=True)
        with pytest.raises(LogFormatError, match="closed"):
            logger.rollout(reward=0.5)
        with pytest.raises(LogFormatError, match="closed"):
            logger.validation(accuracy=0.5)
    assert read_header(tmp_path / "a")["ended"] == "stopped"


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    """Killed after rollout 4 and resumed from rollout 2, a run has the same rows and facts."""
    train(tmp_path / "a", 6)
    train(tmp_path / "b", 6, kill=4).close()
    with (tmp_path / "b" / "metrics.jsonl").open("a") as file:
        file.write('{"kind":"train","roll')
    assert read_header(tmp_path / "b")["ended"] == "unknown"
    resumed = train(tmp_path / "b", 6, resume=2)
    assert resumed.counts.rollout == 6
    whole, joined = ([{**r, "seconds": 0} for r in rows(tmp_path / name)] for name in "ab")
    assert joined == whole
    assert {**read_header(tmp_path / "b"), "run_id": "a"} == read_header(tmp_path / "a")


def test_seconds_leave_an_interruption_out(tmp_path):
    """The clock goes on where the resumed rollout had left it."""
    train(tmp_path / "a", 4, kill=2).close()
    train(tmp_path / "a", 4, resume=2)
    assert [r["seconds"] for r in rows(tmp_path / "a") if r["kind"] == "train"] == [1, 2, 3, 4]


def test_resume_at_0_starts_a_run_and_starts_it_again(tmp_path):
    """A trainer without a checkpoint yet passes 0, whether the folder exists or not."""
    train(tmp_path / "a", 3, resume=0, kill=2).close()
    train(tmp_path / "a", 3, resume=0)
    assert [r["rollout"] for r in rows(tmp_path / "a")] == [1, 1, 2, 2, 3, 3]


def test_a_completed_run_is_extended_but_never_begun_again(tmp_path):
    """Resuming at its last rollout adds to it; resuming at 0 would throw it away and is refused."""
    train(tmp_path / "a", 3)
    train(tmp_path / "a", 4, resume=3)
    assert [r["rollout"] for r in rows(tmp_path / "a")] == [1, 1, 2, 2, 3, 3, 4, 4]
    with pytest.raises(LogFormatError, match="holds a completed run; choose another folder"):
        train(tmp_path / "a", 3, resume=0)
    assert len(rows(tmp_path / "a")) == 8


def test_a_compressed_run_is_extended_too(tmp_path):
    """Its rows are unpacked, and go on."""
    train(tmp_path / "a", 3, kill=3).finish("crashed", compress=True)
    train(tmp_path / "a", 4, resume=3)
    assert [r["rollout"] for r in rows(tmp_path / "a")] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert not (tmp_path / "a" / "metrics.jsonl.gz").exists()


def test_a_crashed_run_can_be_resumed(tmp_path):
    """Resuming makes the run unfinished again until it ends."""
    train(tmp_path / "a", 4, kill=2).finish("crashed")
    logger = RunLogger(tmp_path / "a", resume=2, **FACTS)
    assert read_header(tmp_path / "a")["ended"] == "unknown"
    logger.close()


def test_resume_refuses_what_is_another_run(tmp_path):
    """Other facts, a missing rollout, no folder: one line says which, and nothing is lost."""
    train(tmp_path / "a", 3, kill=3).close()
    before = (tmp_path / "a" / "metrics.jsonl").read_bytes()
    with pytest.raises(LogFormatError, match=r"^a: lr is 0\.1, was 1e-06; a run resumes"):
        RunLogger(tmp_path / "a", resume=2, **{**FACTS, "lr": 0.1})
    with pytest.raises(LogFormatError, match="lr is not given, was 1e-06"):
        RunLogger(tmp_path / "a", resume=2, **{k: v for k, v in FACTS.items() if k != "lr"})
    with pytest.raises(
        LogFormatError, match="no rollout 7 to resume after; the log ends at rollout 3"
    ):
        RunLogger(tmp_path / "a", resume=7, **FACTS)
    with pytest.raises(LogFormatError, match=r"none/metrics\.jsonl: cannot be read"):
        RunLogger(tmp_path / "none", resume=2, **FACTS)
    with pytest.raises(LogFormatError, match="exists"):
        RunLogger(tmp_path / "a", **FACTS)
    assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"prompts_per_rollout": 64}, "must be batch_size == 64; count batch_size in responses"),
        ({"group_size": 7}, "group_size == 7, must be a divisor of batch_size == 64"),
        ({"optimizer_steps_per_rollout": 4}, r"must be minibatches \* epochs == 8"),
        ({"batch_size": 0}, "batch_size == 0, must be 1 or more"),
        ({"batch_size": 6.5}, "batch_size == 6.5, must be a whole number"),
        ({"lr": 0.0}, "lr == 0.0, must be above 0"),
        ({"lr": math.nan}, "lr == nan, must be a finite number"),
        ({"seed": True}, "seed == True, must be a finite number"),
        ({"clip_low": 0}, "None says that there is no such clip"),
        ({"kl_coef": -1.0}, "kl_coef == -1.0, must be 0 or more"),
        ({"task": None}, "task == None, must be a text"),
        ({"clip_active": "maybe"}, "must be one of yes, no, unknown"),
        ({"clip_hihg": 0.2}, "unknown column 'clip_hihg'; did you mean 'clip_high'?"),
    ],
)
def test_impossible_facts_are_refused_in_one_line(tmp_path, facts, message):
    """Name, value and rule stand in the error, and no folder is left."""
    with pytest.raises(LogFormatError, match=message) as caught:
        RunLogger(tmp_path / "a", **{**FACTS, **facts})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_batch_size_is_needed(tmp_path):
    """No run without the one number that everything is counted by."""
    with pytest.raises(LogFormatError, match="batch_size is missing"):
        RunLogger(tmp_path / "a", group_size=8)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"responses": 0}, "responses == 0, must be 1 or more of this rollout alone"),
        ({"responses": -64}, "responses == -64, must be 1 or more"),
        ({"responses": 1.5}, "responses == 1.5, must be a whole number"),
        ({"responses": 64, "trained": 128}, "trained == 128, must be at most responses == 64"),
        ({"rewrad": 1.0}, "unknown column 'rewrad'; did you mean 'reward'?"),
        ({"seconds": 1.0}, "unknown column 'seconds'"),
        ({"loss": "low"}, "loss == 'low', must be a number"),
    ],
)
def test_impossible_rollouts_are_refused_and_not_counted(tmp_path, values, message):
    """The error is one line, the log has no such row, and the counts stay."""
    logger = RunLogger(tmp_path / "a", **FACTS)
    with pytest.raises(LogFormatError, match=message) as caught:
        logger.rollout(**values)
    assert "\n" not in str(caught.value)
    assert (logger.counts.rollout, rows(tmp_path / "a")) == (0, [])
    logger.close()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"accuracy": 1.2}, r"accuracy == 1\.2, must be within 0\.\.1 \(or give scale='score'\)"),
        ({"accuracy": 52}, r"within 0\.\.1"),
        ({"accuracy": math.nan}, r"within 0\.\.1"),
        ({"accuracy": math.inf, "scale": "score"}, "a finite number"),
        ({"accuracy": None}, "must be a number"),
        ({"accuracy": 0.5, "n": 0}, "n == 0, must be 1 or more"),
        ({"accuracy": 0.5, "unfinished": -1}, "unfinished == -1, must be 0 or more"),
    ],
)
def test_impossible_validations_are_refused(tmp_path, values, message):
    """An accuracy in per cent, NaN or without problems never reaches the log."""
    with RunLogger(tmp_path / "a", **FACTS) as logger:
        with pytest.raises(LogFormatError, match=message):
            logger.validation(**values)
        logger.validation(accuracy=0.5)
    assert len(rows(tmp_path / "a")) == 1


def test_a_score_needs_no_bounds_and_keeps_its_name(tmp_path):
    """A metric with ``scale="score"`` may be any number."""
    with RunLogger(tmp_path / "a", **FACTS) as logger:
        logger.validation(accuracy=12.5, metric="points", scale="score")
    assert rows(tmp_path / "a")[0]["accuracy"] == 12.5
    evals = twoclock.read_runs(tmp_path).evals
    assert (evals.scale[0], evals.metric[0]) == ("score", "points")


def test_a_loss_that_is_nan_is_named(tmp_path):
    """Non-finite values are the failure clock's evidence; None is just not logged."""
    with RunLogger(tmp_path / "a", **FACTS) as logger:
        logger.rollout(loss=math.nan, reward=None, entropy=np.float32(0.5))
    (row,) = rows(tmp_path / "a")
    assert (row["loss"], row["nonfinite"], row["entropy"]) == (None, "loss", 0.5)
    assert "reward" not in row


def test_clipping_can_act_with_one_step_where_sampling_is_asynchronous(tmp_path):
    """K = 1 rules clipping out in a synchronous trainer only."""
    facts = {**FACTS, "minibatches": 1, "epochs": 1}
    assert complete_facts(facts)["clip_active"] == "no"
    assert complete_facts(facts, synchronous=False)["clip_active"] == "yes"
    assert "clip_active" not in complete_facts({"batch_size": 64})
    assert complete_facts({**FACTS, "clip_active": "no"})["clip_active"] == "no"


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 8), st.integers(1, 8))
def test_derived_facts_agree_with_the_given_ones(prompts, group, minibatches, epochs):
    """B = prompts * group and K = minibatches * epochs, whichever of them are given."""
    size = prompts * group
    facts = complete_facts(
        {"batch_size": size, "group_size": group, "minibatches": minibatches, "epochs": epochs}
    )
    assert facts["prompts_per_rollout"] == prompts
    assert facts["optimizer_steps_per_rollout"] == minibatches * epochs
    assert (
        complete_facts({"batch_size": size, "prompts_per_rollout": prompts})["group_size"] == group
    )
    assert complete_facts(facts) == facts


def test_facts_are_the_columns_of_the_schema():
    """`RunFacts` names every column that a trainer can know, and nothing else."""
    assert set(RunFacts.__annotations__) == set(RUNS.names) - {"run_id", "source", "ended"}
    assert {"reward", "loss", "grad_norm", "lr", "response_tokens"} <= MEASURED


def test_numpy_numbers_are_facts_too(tmp_path):
    """A training loop may hand over numpy scalars and whole floats."""
    facts = complete_facts({"batch_size": np.int64(64), "lr": np.float32(0.5), "seed": 3.0})
    assert facts == {"batch_size": 64, "lr": 0.5, "seed": 3}
    assert type(facts["batch_size"]) is int


def test_extra_facts_are_kept_and_misspelt_ones_are_not(tmp_path):
    """Other texts and numbers go through `extra` alone."""
    RunLogger(tmp_path / "a", batch_size=64, extra={"commit": "abc"}).close()
    assert read_header(tmp_path / "a")["commit"] == "abc"
    assert read_header(tmp_path / "a")["framework"] == "custom"


def test_logging_loads_neither_torch_nor_matplotlib():
    """A fresh interpreter that writes a run stays light."""
    code = (
        "import sys, twoclock; twoclock.RunLogger;"
        "print([m for m in ('torch', 'matplotlib', 'scipy', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
