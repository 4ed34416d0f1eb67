"""TRL's own logs of real training, in all its sinks at once, against what the callback counted."""

import shutil

import pytest

trl = pytest.importorskip("trl", reason="TRL is not installed here; `make test-trl` installs it")

from tests.reading import codes  # noqa: E402
from tests.trl.tiny import make_trainer, save_model  # noqa: E402
from twoclock.integrations.trl import TwoClockCallback  # noqa: E402
from twoclock.reading import ReadOptions  # noqa: E402
from twoclock.runs import read_runs  # noqa: E402

pytestmark = [
    pytest.mark.trl,
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb"),
]

KEY = "eval_rewards/exact/mean"
RUN = ("batch_size", "group_size", "optimizer_steps_per_rollout", "lr", "seed", "clip_low",
       "clip_high", "clip_dual", "clip_active", "kl_coef", "loss_mean", "advantage", "optimizer",
       "lr_schedule", "warmup_responses", "grad_clip", "temperature")  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Train once with TensorBoard, W&B offline, checkpoints and the callback; return the folder."""
    root = tmp_path_factory.mktemp("sinks")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(root / "w"),
            "WANDB_CACHE_DIR": str(root / "cache"), "WANDB_CONFIG_DIR": str(root / "cache"),
            "WANDB_DATA_DIR": str(root / "cache"), "TENSORBOARD_LOGGING_DIR": str(root / "tb"),
        }.items():  # fmt: skip
            patch.setenv(name, value)
        (root / "w").mkdir()
        trainer = make_trainer(
            save_model(root / "model"),
            root / "out",
            [TwoClockCallback(root / "native", task="sums", model="tiny")],
            report_to=["tensorboard", "wandb"],
            save_strategy="steps",
            save_steps=8,
            eval_on_start=True,
        )
        trainer.train()
        import wandb

        wandb.finish()
    shutil.rmtree(root / "cache", ignore_errors=True)
    return root


def places(root):
    """Return the folder of each sink."""
    boards = sorted({path.parent for path in root.rglob("events.out.tfevents.*")})
    return {"state": root / "out", "tensorboard": boards[0], "wandb": root / "w" / "wandb"}


def test_every_sink_alone_counts_as_the_callback_does(logs):
    """B, K and all settings, validations and rewards agree in W&B, TensorBoard and the state."""
    truth = read_runs(logs / "native")
    (expected,) = truth.runs.to_dict("records")
    for sink, folder in places(logs).items():
        options = ReadOptions(map={"accuracy": (KEY,)}, batch_size=32 if sink == "state" else None)
        found = read_runs(folder, options)
        (run,) = found.runs.to_dict("records")
        assert run["framework"] == "trl", sink
        if sink != "state":  # the state holds no settings
            assert {n: run[n] for n in RUN} == pytest.approx({n: expected[n] for n in RUN}), sink
        evals = found.evals.set_index("responses")["accuracy"]
        assert evals.to_dict() == pytest.approx(
            truth.evals.set_index("responses")["accuracy"].to_dict(), rel=1e-6
        ), sink
        mine = found.steps.dropna(subset=["reward"]).set_index("responses")["reward"]
        theirs = truth.steps.set_index("responses")["reward"]
        assert mine.to_dict() == pytest.approx(theirs.to_dict(), rel=1e-6), sink


def test_all_sinks_together_are_one_run_with_every_setting(logs):
    """The state, TensorBoard and W&B of one run are one run, which has W&B's configuration."""
    whole = logs.parent / "whole"
    for name in ("out", "tb", "w"):
        if (logs / name).exists():
            shutil.copytree(logs / name, whole / name, symlinks=True)
    found = read_runs(whole, ReadOptions(map={"accuracy": (KEY,)}))
    assert len(found.runs) == 1
    assert found.runs["batch_size"].tolist() == [32]
    assert found.runs["seed"].tolist() == [5]
    assert "same_run_twice" in codes(found)
