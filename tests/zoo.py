"""One small run of every framework as its own logger writes it, and what is true of each.

Every run has 8 rollouts of 32 responses (8 prompts, 4 responses each) and two optimizer steps a
rollout where the framework has minibatches; it validates after 0, 4 and 8 rollouts where it can.
"""

import json

ROLLOUTS = 8


def reward(rollout, seed=0):
    """Return the mean reward of a rollout (from 1)."""
    return round(0.1 * rollout + 0.001 * seed, 4)


def accuracy(rollout):
    """Return the validation accuracy after so many rollouts."""
    return round(0.05 + 0.1 * rollout, 4)


def jsonl(rows):
    """Return JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def trl(seed=0):
    """TRL: a checkpoint's state, and the arguments that the user saved beside it."""
    history = []
    for step in range(1, 17):
        row = {"step": step, "loss": 0.01, "grad_norm": 0.5, "learning_rate": 1e-6, "entropy": 1.0,
               "clip_ratio/region_mean": 0.001, "epoch": step / 100}  # fmt: skip
        if step % 2 == 1:
            row |= {"reward": reward((step + 1) // 2, seed), "reward_std": 0.3,
                    "completions/mean_length": 90.0, "frac_reward_zero_std": 0.1}  # fmt: skip
        history.append(row)
        if step in (8, 16):
            history.append({"step": step, "eval_reward": accuracy(step // 2), "eval_loss": 0.0,
                            "eval_runtime": 2.0})  # fmt: skip
    state = {"global_step": 16, "max_steps": 16, "logging_steps": 1, "train_batch_size": 8,
             "log_history": history}  # fmt: skip
    args = {"num_generations": 4, "per_device_train_batch_size": 8, "generation_batch_size": 32,
            "gradient_accumulation_steps": 2, "steps_per_generation": 4, "num_iterations": 1,
            "learning_rate": 1e-6, "epsilon": 0.2, "epsilon_high": 0.28, "delta": None,
            "beta": 0.0, "loss_type": "dapo", "scale_rewards": "group", "seed": seed,
            "lr_scheduler_type": "constant", "optim": "adamw_torch",
            "temperature": 1.0}  # fmt: skip
    return {"checkpoint-16/trainer_state.json": json.dumps(state), "args.json": json.dumps(args)}


VERL_CONFIG = {
    "data": {"train_batch_size": 8, "train_files": "data/gsm8k/train.parquet"},
    "actor_rollout_ref": {
        "actor": {"ppo_mini_batch_size": 4, "ppo_epochs": 1, "clip_ratio": 0.2,
                  "clip_ratio_c": 3.0, "use_kl_loss": False, "optim": {"lr": 1e-6}},
        "rollout": {"n": 4}, "model": {"path": "org/tiny"},
    },
    "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False},
}  # fmt: skip


def verl_rows(seed=0):
    """Return the rows of verl's loggers."""
    rows = [{"step": 0, "data": {"val-core/gsm8k/acc/mean@1": accuracy(0)}}]
    for step in range(1, ROLLOUTS + 1):
        data = {"critic/score/mean": reward(step, seed), "actor/pg_loss": 0.01, "actor/lr": 1e-6,
                "actor/pg_clipfrac": 0.001, "training/global_step": step,
                "actor/grad_norm": 0.4, "actor/entropy": 0.9}  # fmt: skip
        if step % 4 == 0:
            data["val-core/gsm8k/acc/mean@1"] = accuracy(step)
        rows.append({"step": step, "data": data})
    return rows


def verl_config(seed=0):
    """Return verl's configuration with a seed."""
    return {**VERL_CONFIG, "data": {**VERL_CONFIG["data"], "seed": seed}}


def verl(seed=0):
    """verl: the file logger and the Hydra configuration beside it."""
    config = verl_config(seed)
    return {"verl.jsonl": jsonl(verl_rows(seed)), ".hydra/config.yaml": json.dumps(config)}


def openrlhf(seed=0):
    """OpenRLHF: the console of a launch script that echoes its command."""
    lines = [
        "+ python3 -m openrlhf.cli.train_ppo_ray --rollout.batch_size 8 "
        "--rollout.n_samples_per_prompt 4 --train.batch_size 16 --train.max_epochs 1 "
        "--actor.adam.lr 1e-6 --actor.eps_clip 0.2 --algo.advantage.estimator group_norm "
        f"--train.seed {seed} --actor.model_name_or_path org/tiny"
    ]
    for step in range(1, ROLLOUTS + 1):
        row = {"policy_loss": 0.01, "reward": reward(step, seed), "kl": 0.0, "actor_lr": 1e-6,
               "ppo_clip_ratio": 0.002, "response_length": 90.0}  # fmt: skip
        lines.append(f"\x1b[36m(PPOTrainer pid=9)\x1b[0m 2026-01-01 10:00:{step:02d} INFO "
                     f"ppo_trainer.py:100 ✨ Global step {step}: {row}")  # fmt: skip
        if step % 4 == 0:
            found = {"eval_math_pass1": accuracy(step)}
            lines.append("(PPOTrainer pid=9) ✨ Evaluation completed in 0:01:12, global_step "
                         f"{step}, eval_metrics: {found}")  # fmt: skip
    return {"openrlhf.log": "\n".join(lines) + "\n"}


def nemo_rl(seed=0):
    """NeMo-RL: the history of its W&B run, and the configuration it saves."""
    lines = ["_step,train/reward,train/loss,train/grad_norm,train/probs_ratio,train/lr,"
             "train/mean_gen_tokens_per_sample,validation/accuracy",
             f"0,,,,,,,{accuracy(0)}"]  # fmt: skip
    for step in range(1, ROLLOUTS + 1):
        value = accuracy(step) if step % 4 == 0 else ""
        lines.append(f"{step},{reward(step, seed)},0.01,0.5,1.0,1e-6,90.0,{value}")
    config = {
        "grpo": {"num_prompts_per_step": 8, "num_generations_per_prompt": 4, "seed": seed,
                 "val_period": 4, "val_at_start": True, "normalize_rewards": True},
        "policy": {"train_global_batch_size": 16, "model_name": "org/tiny",
                   "optimizer": {"name": "torch.optim.AdamW", "kwargs": {"lr": 1e-6}}},
        "loss_fn": {"ratio_clip_min": 0.2, "ratio_clip_max": 0.28, "ratio_clip_c": None,
                    "reference_policy_kl_penalty": 0.0},
        "data": {"train": {"dataset_name": "gsm8k"}},
    }  # fmt: skip
    return {"history.csv": "\n".join(lines) + "\n", "config.yaml": json.dumps(config)}


def prime_rl(seed=0):
    """prime-rl: a trainer and an orchestrator that log for themselves, counting from 0."""
    trainer, orchestrator = [], []
    for step in range(ROLLOUTS):
        trainer += [{"step": step, "loss/mean": 0.01, "loss/nan_count": 0, "entropy/mean": 0.9},
                    {"step": step, "optim/lr": 1e-6, "optim/grad_norm": 0.4}]  # fmt: skip
        row = {"step": step, "reward/mean": reward(step + 1, seed), "progress/samples": 32,
               "progress/total_samples": 32 * (step + 1), "progress/problems": 8}  # fmt: skip
        if step % 4 == 0:
            row["eval/math/avg@1"] = accuracy(step)
        orchestrator.append(row)
    config = {
        "trainer": {"optim": {"lr": 1e-6}, "loss": {"kl_tau": 0.0}, "model": {"name": "org/tiny"}},
        "orchestrator": {"batch_size": 32, "rollouts_per_example": 4, "seed": seed},
    }
    return {"trainer/metrics.jsonl": jsonl(trainer),
            "orchestrator/metrics.jsonl": jsonl(orchestrator),
            "configs/rl.json": json.dumps(config)}  # fmt: skip


def open_instruct(seed=0):
    """open-instruct: rows of its W&B run; `val/` is about training data, `eval/` validates."""
    rows = []
    for step in range(1, ROLLOUTS + 1):
        row = {"training_step": step, "episode": 32 * step, "global_step": 32 * step,
               "scores": 10 * reward(step, seed), "objective/verifiable_correct_rate": 0.5,
               "val/sequence_lengths": 90.0, "val/ratio": 1.0, "policy/clipfrac_avg": 0.001,
               "policy/entropy_avg": 0.9, "lr": 1e-6}  # fmt: skip
        if step % 4 == 0:
            row |= {"eval/scores": 10 * accuracy(step), "eval/pass_at_1": accuracy(step),
                    "eval/sequence_lengths": 90.0}  # fmt: skip
        rows.append(row)
    config = {"num_unique_prompts_rollout": 8, "num_samples_per_prompt_rollout": 4,
              "num_mini_batches": 2, "num_epochs": 1, "learning_rate": 1e-6, "clip_lower": 0.2,
              "clip_higher": 0.272, "beta": 0.0, "seed": seed, "model_name_or_path": "org/tiny",
              "verification_reward": 10.0}  # fmt: skip
    return {"history.jsonl": jsonl(rows), "config.json": json.dumps(config)}


def skyrl(seed=0):
    """SkyRL: its console tracker prints a dictionary of texts over several lines."""

    def printed(row):
        items = [f"'{key}': '{value:.4f}'" for key, value in row.items()]
        return "{" + ",\n ".join(items) + "}"

    blocks = [f"2026-01-01 10:00:00.000 | INFO     | skyrl_train.utils.tracking:log:1 - Step 0:\n"
              f"{printed({'eval/all/avg_score': accuracy(0)})}\n"]  # fmt: skip
    for step in range(1, ROLLOUTS + 1):
        row = {"trainer/global_step": step, "reward/avg_raw_reward": reward(step, seed),
               "policy/policy_loss": 0.01, "policy/ppo_clip_ratio": 0.002,
               "policy/policy_entropy": 0.9, "generate/avg_num_tokens": 90.0}  # fmt: skip
        if step % 4 == 0:
            row["eval/all/avg_score"] = accuracy(step)
        blocks.append(f"2026-01-01 10:00:00.000 | INFO     | skyrl_train.utils.tracking:log:1 - "
                      f"Step {step}:\n{printed(row)}\n")  # fmt: skip
    config = {
        "trainer": {"train_batch_size": 8, "policy_mini_batch_size": 4,
                    "update_epochs_per_batch": 1, "seed": seed,
                    "algorithm": {"eps_clip_low": 0.2, "eps_clip_high": 0.28,
                                  "use_kl_loss": False, "policy_loss_type": "regular",
                                  "advantage_estimator": "grpo"},
                    "policy": {"optimizer_config": {"lr": 1e-6}, "model": {"path": "org/tiny"}}},
        "generator": {"n_samples_per_prompt": 4},
    }  # fmt: skip
    return {"skyrl.log": "".join(blocks), "config.yaml": json.dumps(config)}


def areal(seed=0):
    """AReaL: rows exported from its logger, and the configuration beside them; counts from 0."""
    rows = []
    for step in range(ROLLOUTS):
        row = {"step": step, "ppo_actor/task_reward/avg": reward(step + 1, seed),
               "ppo_actor/n_seqs": 32, "ppo_actor/update/clip_ratio/avg": 0.001,
               "ppo_actor/update/lr": 1e-6, "ppo_actor/update/grad_norm": 0.4,
               "ppo_actor/update/actor_loss/avg": 0.01}  # fmt: skip
        if step in (3, 7):
            row["eval-rollout/reward"] = accuracy(step + 1)
        rows.append(row)
    config = {
        "gconfig": {"n_samples": 4}, "train_dataset": {"batch_size": 8, "path": "gsm8k"},
        "actor": {"ppo_n_minibatches": 2, "eps_clip": 0.2, "c_clip": None, "kl_ctl": 0.0,
                  "path": "org/tiny", "optimizer": {"type": "adam", "lr": 1e-6}},
        "rollout": {"max_head_offpolicyness": 0}, "seed": seed, "experiment_name": "areal",
        "trial_name": "t0",
    }  # fmt: skip
    return {"metrics.jsonl": jsonl(rows), "config.yaml": json.dumps(config)}


def slime(seed=0):
    """slime: a console with three clocks, all from 0, after the command that started it."""
    lines = [
        "+ python3 train.py --hf-checkpoint org/tiny --rollout-batch-size 8 "
        "--n-samples-per-prompt 4 --global-batch-size 16 --lr 1e-6 --eps-clip 0.2 "
        f"--eps-clip-high 0.28 --advantage-estimator grpo --seed {seed} --eval-interval 4 "
        "--num-rollout 8",
        f"(RolloutManager pid=5) eval 0: {{'eval/aime': {accuracy(0)}}}",
    ]
    for step in range(ROLLOUTS):
        lines.append(f"(RolloutManager pid=5) rollout {step}: {{'rollout/raw_reward': "
                     f"{reward(step + 1, seed)}, 'rollout/response_lengths': 90.0}}")  # fmt: skip
        for inner in range(2):
            row = {"train/loss": 0.01, "train/pg_clipfrac": 0.001, "train/ppo_kl": 0.0,
                   "train/grad_norm": 0.4, "train/lr-pg_0": 1e-6}  # fmt: skip
            lines.append(f"(MegatronTrainRayActor pid=6) step {2 * step + inner}: {row}")
        if step % 4 == 3:
            lines.append(f"(RolloutManager pid=5) eval {step}: {{'eval/aime': "
                         f"{accuracy(step + 1)}}}")  # fmt: skip
    return {"slime.log": "\n".join(lines) + "\n"}


def roll(seed=0):
    """ROLL: the stdout tracker, JSON behind a log prefix; counts from 0, validates before."""
    lines = []
    for step in range(ROLLOUTS):
        row = {"critic/score/mean": reward(step + 1, seed), "actor/pg_loss": 0.01,
               "actor/ppo_ratio_clipfrac": 0.001, "actor/approxkl": 0.0, "actor/lr": 1e-6,
               "actor_train/grad_norm": 0.4, "token/response_length/mean": 90.0}  # fmt: skip
        if step % 4 == 0:
            row["val_correct/all/mean"] = accuracy(step)
        text = json.dumps({"step": step, "metrics": row})
        lines.append(f"[2026-01-01 10:00:00] [tracking.py (99)] [INFO] metrics_tag: {text}")
    config = {
        "rollout_batch_size": 8, "num_return_sequences_in_group": 4, "ppo_epochs": 1,
        "pg_clip": 0.2, "seed": seed, "pretrain": "org/tiny", "adv_estimator": "grpo",
        "actor_train": {"training_args": {"learning_rate": 1e-6, "per_device_train_batch_size": 4,
                                          "gradient_accumulation_steps": 4},
                        "device_mapping": "list(range(0,1))"},
    }  # fmt: skip
    return {"roll.log": "\n".join(lines) + "\n", "config.yaml": json.dumps(config)}


def tinker(seed=0):
    """tinker-cookbook: metrics and configuration; counts from 0, validates before the update."""
    rows = []
    for step in range(ROLLOUTS):
        row = {"step": step, "progress/batch": step, "optim/lr": 1e-6, "optim/entropy": 0.9,
               "env/all/reward/total": reward(step + 1, seed),
               "env/all/total_episodes": 32}  # fmt: skip
        if step % 4 == 0:
            row["test/env/all/correct"] = accuracy(step)
        rows.append(row)
    config = {"learning_rate": 1e-6, "model_name": "org/tiny", "loss_fn": "importance_sampling",
              "num_substeps": 2, "max_tokens": 256, "lora_rank": 32, "log_path": "x",
              "dataset_builder": {"groups_per_batch": 8, "group_size": 4,
                                  "seed": seed}}  # fmt: skip
    return {"metrics.jsonl": jsonl(rows), "config.json": json.dumps(config)}


def torchtune(seed=0):
    """torchtune: its disk logger; no validation, a step an optimizer step."""
    lines = [
        f"Step {step} | rewards:{reward(step, seed)} successes:0.4 loss:0.01 clipfrac:0.0 "
        f"ratios:1.0 lr:1e-06 response_lengths:90.0 "
        for step in range(1, ROLLOUTS + 1)
    ]
    config = {"batch_size": 8, "grpo_samples": 4, "ppo_epochs": 1, "seed": seed,
              "optimizer": {"_component_": "torch.optim.AdamW", "lr": 1e-6},
              "loss": {"_component_": "torchtune.dev.rl.loss.GRPOLoss", "epsilon": 0.2,
                       "kl_coeff": 0.0}}  # fmt: skip
    return {"log_1700000000.txt": "\n".join(lines) + "\n",
            "torchtune_config.yaml": json.dumps(config)}  # fmt: skip


AFTER = [(0, accuracy(0)), (128, accuracy(4)), (256, accuracy(8))]
"""Validations after 0, 4 and 8 rollouts: (responses, accuracy)."""

FRAMEWORKS = {
    "trl": (trl, AFTER[1:]),
    "verl": (verl, AFTER),
    "openrlhf": (openrlhf, AFTER[1:]),
    "nemo-rl": (nemo_rl, AFTER),
    "prime-rl": (prime_rl, AFTER[:2]),
    "open-instruct": (open_instruct, AFTER[1:]),
    "skyrl": (skyrl, AFTER),
    "areal": (areal, AFTER[1:]),
    "slime": (slime, AFTER),
    "roll": (roll, AFTER[:2]),
    "tinker-cookbook": (tinker, AFTER[:2]),
    "torchtune": (torchtune, []),
}
"""By name: the files of a run of this framework, and its validations."""


def every_framework():
    """Return the files of one run of every framework, each in a folder of its own."""
    return {
        f"{name}/{file}": text
        for name, (files, _) in FRAMEWORKS.items()
        for file, text in files(seed=3).items()
    }
