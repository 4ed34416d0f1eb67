"""What a console says about its run: its configuration, and how it ended."""

import pytest

from tests.reading import write
from twoclock.frameworks.base import Fact
from twoclock.reading import ReadOptions
from twoclock.sources.console import read

ROW = "Global step 1: {'reward': 0.5}\n"
VERL = "(TaskRunner pid=7) Total training steps: 2\n(TaskRunner pid=7) step:1 - actor/lr:1e-06\n"
CRASH = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "    main()\n"
)  # fmt: skip


def log_of(folder, text):
    """Write a console and return the one log in it."""
    (log,) = read(write(folder, {"train.log": text}) / "train.log", ReadOptions())
    return log


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        (ROW, None),
        (ROW + CRASH + "ValueError: loss is nan\n", "crashed"),
        (ROW + CRASH + "ray.exceptions.RayTaskError(ValueError): ray::x\n", "crashed"),
        (ROW + CRASH + "torch.OutOfMemoryError: CUDA out of memory. Tried\n", "stopped"),
        (ROW + CRASH + "KeyboardInterrupt\n", "stopped"),
        (ROW + CRASH + "ray.exceptions.ActorDiedError: The actor died\n", "stopped"),
        (ROW + CRASH, None),
        (CRASH + "ValueError: retried\n" + ROW, None),
        (ROW + CRASH + "ValueError: caught\n" + ROW.replace("1", "2"), None),
        (ROW + CRASH + "ValueError: caught\n" + "waiting\n" * 3000, None),
        (ROW + "(Worker pid=3) " + CRASH.replace("\n", "\n(Worker pid=3) ") + "ValueError: x\n",
         None),
        (ROW + "(Worker pid=3) ERROR:2026-01-02:Traceback (most recent call last):\n"
         "(Worker pid=3) ValueError: step 0 - extract failed\n", None),
        (ROW + "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME "
         "LIMIT ***\n", "stopped"),
        (ROW + "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***\n"
         + CRASH + "ConnectionError: lost\n", "stopped"),
        (ROW + "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0\n", "stopped"),
        (ROW + "/bin/sh: line 3\nKilled\n", "stopped"),
        (VERL, None),
        (VERL + "(TaskRunner pid=7) step:2 - actor/lr:1e-06\n", "completed"),
        (VERL + "(TaskRunner pid=7) Final validation metrics: None\n", "completed"),
    ],
)  # fmt: skip
def test_how_it_ended(tmp_path, text, ended):
    """A crash is one only at the end of the process; lack of memory or time is none."""
    assert log_of(tmp_path, text).facts.get("ended", Fact(None, "log")).value == ended


def test_a_failed_training_of_skyrl(tmp_path):
    """The message of SkyRL about its own failure is a crash wherever it stands."""
    text = (
        "12:00:01 | INFO | a:b:1 - Step 1: \n{'reward/avg_raw_reward': '0.5'}\n"
        "12:00:02 | ERROR | a:b:1 - Training failed at step 2 with ValueError\n"
    )
    assert log_of(tmp_path, text + "closing\n" * 2000).facts["ended"].value == "crashed"
    text = text.replace("with ValueError", "with OutOfMemoryError")
    assert log_of(tmp_path, text).facts["ended"].value == "stopped"


COMMAND = (
    "+ ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray \\\n"
    "   --rollout_batch_size 128 \\\n"
    "   --actor.adam.lr 1e-6 --init_kl_coef -0.5 \\\n"
    "   --colocate_all_models\n"
    "some text about --seed 99\n"
)


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (COMMAND, {"rollout_batch_size": 128, "actor.adam.lr": 1e-6, "init_kl_coef": -0.5,
                   "colocate_all_models": True}),
        ("Namespace(pretrain='org/model', rollout_batch_size=128, eps_clip_low_high=[0.2, 0.3], "
         "prompt_data=None, use_kl_loss=False, gamma=1.0)\n",
         {"pretrain": "org/model", "rollout_batch_size": 128, "eps_clip_low_high": "[0.2, 0.3]",
          "prompt_data": None, "use_kl_loss": False, "gamma": 1.0}),
        ("GRPOConfig(\nbeta=0.0,\noutput_dir=out,\noptim=OptimizerNames.ADAMW_TORCH,\n"
         "num_generations=8,\n)\n",
         {"beta": 0.0, "output_dir": "out", "optim": "OptimizerNames.ADAMW_TORCH",
          "num_generations": 8}),
        ("------------------------ arguments ------------------------\n"
         "  global_batch_size ............................... 256\n"
         "  hf_checkpoint ................................... /models/a b\n"
         "  rollout_seed .................................... None\n"
         "-------------------- end of arguments ---------------------\n"
         "Downloading shards ... 3\n",
         {"global_batch_size": 256, "hf_checkpoint": "/models/a b", "rollout_seed": None}),
    ],
    ids=["command", "namespace", "arguments", "table"],
)  # fmt: skip
def test_what_is_printed_above_the_first_row(tmp_path, text, config):
    """Flags, argument objects and tables become names as the framework has them."""
    found = log_of(tmp_path, text + ROW).config
    assert {name: found.get(name, "absent") for name in config} == config
    assert "seed" not in found


def test_a_table_of_arguments_in_slime(tmp_path):
    """The arguments that Megatron prints are slime's configuration."""
    text = (
        "(MegatronTrainRayActor pid=9)   rollout_batch_size .............. 32\n"
        "(MegatronTrainRayActor pid=9)   eps_clip ........................ 0.2\n"
        "(RolloutManager pid=3) rollout 0: {'rollout/raw_reward': 0.25}\n"
        "(MegatronTrainRayActor pid=9)   eps_clip_high ................... 0.3\n"
    )
    assert log_of(tmp_path, text).config == {"rollout_batch_size": 32, "eps_clip": 0.2}


def test_a_printed_dictionary_of_nemo(tmp_path):
    """A pretty-printed configuration is flat and dotted."""
    text = (
        "{'grpo': {'num_prompts_per_step': 32,\n          'seed': 42},\n"
        " 'policy': {'model_name': 'org/model'}}\n"
        "========================= Step 1/10 =========================\n  • Avg Reward: 0.5000\n"
    )
    config = log_of(tmp_path, text).config
    assert config["policy.model_name"] == "org/model"
    assert float(config["grpo.num_prompts_per_step"]) == 32
    assert float(config["grpo.seed"]) == 42


def test_the_overrides_of_verl(tmp_path):
    """Continued lines of a launch command are read up to the last."""
    text = (
        "+ python3 -m verl.trainer.main_ppo data.train_batch_size=64 \\\n"
        "    actor_rollout_ref.rollout.n=8 \\\n    trainer.project_name=p\n" + VERL
    )
    config = log_of(tmp_path, text).config
    assert config["actor_rollout_ref.rollout.n"] == "8"
    assert config["trainer.project_name"] == "p"


def test_objects_within_objects_are_kept_apart(tmp_path):
    """Names within a value are none of the object's own, and what follows it is still read."""
    text = (
        "GRPOConfig(\naccelerator_config={'a': {'seed': 1}, 'b': (1, 2)},\n"
        "peft=LoraConfig(r=8, learning_rate=1.0),\nlogging_dir='a, b=3',\nlearning_rate=1e-06,\n)\n"
        "Other(beta=0.5)\n"
    )
    config = log_of(tmp_path, text + ROW).config
    assert config["learning_rate"] == 1e-6
    assert config["logging_dir"] == "a, b=3"
    assert not {"seed", "r", "b", "beta"} & set(config)
