"""What logs and configurations of each framework look like, made up for the tests.

A configuration stands beside the facts that it must give: B in responses, group, K, rate, clips.
"""

from math import inf

from twoclock.frameworks.areal import AREAL
from twoclock.frameworks.art import ART
from twoclock.frameworks.nemo_rl import NEMO_RL
from twoclock.frameworks.open_instruct import OPEN_INSTRUCT
from twoclock.frameworks.openrlhf import OPENRLHF
from twoclock.frameworks.prime_rl import PRIME_RL
from twoclock.frameworks.roll import ROLL
from twoclock.frameworks.skyrl import SKYRL
from twoclock.frameworks.slime import SLIME
from twoclock.frameworks.tinker import TINKER
from twoclock.frameworks.torchtune import TORCHTUNE
from twoclock.frameworks.trl import TRL
from twoclock.frameworks.verl import VERL

HERE = (
    OPENRLHF, NEMO_RL, PRIME_RL, OPEN_INSTRUCT, SKYRL, AREAL, SLIME, ROLL, TINKER, TORCHTUNE, ART,
)  # fmt: skip
ALL = (*HERE, VERL, TRL)

OPENRLHF_OLD = {
    "rollout_batch_size": 128, "n_samples_per_prompt": 8, "train_batch_size": 256, "max_epochs": 2,
    "micro_rollout_batch_size": 4, "actor_learning_rate": 5e-7, "lr_warmup_ratio": 0.03,
    "lr_scheduler": "cosine_with_min_lr", "eps_clip": 0.2, "eps_clip_low_high": [0.2, 0.27],
    "dual_clip": None, "init_kl_coef": 0.001, "advantage_estimator": "group_norm", "seed": 7,
    "pretrain": "org/model", "prompt_data": "org/data", "temperature": 1.0, "max_norm": 1.0,
    "adam_betas": [0.9, 0.95], "l2": 0.0,
}  # fmt: skip

OPENRLHF_NEW = {
    "rollout": {"batch_size": 64, "n_samples_per_prompt": 4, "temperature": 0.8},
    "train": {"batch_size": 256, "max_epochs": 1, "seed": 3, "async_enable": True},
    "actor": {
        "adam": {"lr": 1e-6, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1},
        "eps_clip": 0.3, "dual_clip": 3.0, "lr_scheduler": "constant", "model_name_or_path": "m",
    },
    "algo": {"kl": {"init_coef": 0.0}, "advantage": {"estimator": "dr_grpo",
             "is_correction_enable": True}},
    "data": {"prompt_dataset": "d"},
}  # fmt: skip

NEMO = {
    "grpo": {
        "num_prompts_per_step": 32, "num_generations_per_prompt": 16, "seed": 42,
        "max_num_steps": 1000, "normalize_rewards": True, "use_leave_one_out_baseline": False,
        "async_grpo": {"enabled": False},
    },
    "loss_fn": {"ratio_clip_min": 0.2, "ratio_clip_max": 0.28, "ratio_clip_c": None,
                "reference_policy_kl_penalty": 0.01, "token_level_loss": True},
    "policy": {
        "model_name": "org/model", "train_global_batch_size": 128, "max_grad_norm": 1.0,
        "optimizer": {"name": "torch.optim.AdamW", "kwargs": {"lr": 5e-6, "weight_decay": 0.01,
                      "betas": [0.9, 0.999], "eps": 1e-8}},
        "scheduler": [
            {"name": "torch.optim.lr_scheduler.LinearLR", "kwargs": {"total_iters": 50}},
            {"name": "torch.optim.lr_scheduler.ConstantLR"},
            {"milestones": [50]},
        ],
        "megatron_cfg": {"enabled": False, "optimizer": {"lr": 9.0}},
        "generation": {"temperature": 1.0},
    },
    "data": {"dataset_name": "OpenMathInstruct-2"},
}  # fmt: skip

PRIME = {
    "orchestrator": {"batch_size": 512, "group_size": 16, "seed": 1,
                     "sampling": {"temperature": 1.0}, "max_off_policy_steps": 8},
    "trainer": {
        "optim": {"type": "adamw", "lr": 3e-6, "betas1": 0.9, "betas2": 0.95, "max_norm": None},
        "scheduler": {"type": "linear", "warmup_steps": 10}, "model": {"name": "org/model"},
        "loss": {"type": "default", "kl_tau": 1e-3, "dppo_mask_low": 0.2},
    },
    "max_steps": 100,
}  # fmt: skip

OPEN = {
    "num_unique_prompts_rollout": 48, "num_samples_per_prompt_rollout": 16, "num_mini_batches": 2,
    "num_epochs": 1, "learning_rate": "1e-6", "lr_scheduler_type": "constant", "seed": 3,
    "clip_lower": 0.2, "clip_higher": 0.272, "beta": 0.0, "loss_denominator": "token",
    "advantage_normalization_type": "centered", "temperature": 1.0, "max_grad_norm": 1.0,
    "model_name_or_path": "org/model", "dataset_mixer_list": ["org/data", "1.0"],
    "verification_reward": 10.0, "loss_fn": "dapo", "warm_up_steps": 0, "warmup_ratio": 0.1,
}  # fmt: skip

SKY = {
    "trainer": {
        "train_batch_size": 256, "policy_mini_batch_size": 64, "update_epochs_per_batch": 2,
        "seed": 42,
        "policy": {"model": {"path": "org/model"}, "optimizer_config": {
            "lr": "1.0e-6", "num_warmup_steps": 5, "scheduler": "constant_with_warmup",
            "max_grad_norm": 1.0, "adam_betas": [0.9, 0.999], "weight_decay": 0.01}},
        "algorithm": {
            "advantage_estimator": "grpo", "grpo_norm_by_std": False, "eps_clip_low": 0.2,
            "eps_clip_high": 0.28, "clip_ratio_c": 3.0, "policy_loss_type": "regular",
            "use_kl_loss": False, "use_kl_in_reward": False, "kl_loss_coef": 0.001,
            "loss_reduction": "seq_mean_token_sum_norm", "use_entropy_loss": False,
            "entropy_loss_coef": 0.01},
    },
    "generator": {"n_samples_per_prompt": 5, "sampling_params": {"temperature": 1.0}},
    "data": {"train_data": ["/home/data/gsm8k/train.parquet"]},
}  # fmt: skip

AREAL_CONFIG = {
    "experiment_name": "e", "seed": 1, "total_train_steps": 200,
    "gconfig": {"n_samples": 4, "temperature": 1.0}, "train_dataset": {"batch_size": 128,
    "path": "openai/gsm8k"},
    "actor": {
        "path": "org/model", "ppo_n_minibatches": 4, "eps_clip": 0.2, "eps_clip_higher": None,
        "c_clip": None, "kl_ctl": 0.0,
        "reward_norm": {"mean_level": "group", "std_level": "group"}, "adv_norm": None,
        "optimizer": {"type": "adam", "lr": 1.7e-5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
                      "weight_decay": 0.017, "lr_scheduler_type": "constant",
                      "gradient_clipping": 1.0, "warmup_steps_proportion": 0.001},
    },
    "rollout": {"max_head_offpolicyness": 2},
}  # fmt: skip

SLIME_CONFIG = {
    "rollout_batch_size": 32, "n_samples_per_prompt": 8, "global_batch_size": 128, "lr": 1e-6,
    "lr_decay_style": "constant", "lr_warmup_iters": 0, "eps_clip": 0.2, "eps_clip_high": 0.28,
    "eps_clip_c": None, "kl_loss_coef": 0.0, "kl_coef": 0.0, "use_kl_loss": False,
    "advantage_estimator": "grpo", "grpo_std_normalization": True, "entropy_coef": 0.0,
    "calculate_per_token_loss": False, "seed": 1234, "rollout_seed": 42, "optimizer": "adam",
    "adam_beta1": 0.9, "adam_beta2": 0.98, "weight_decay": 0.1, "clip_grad": 1.0,
    "hf_checkpoint": "/models/m", "eval_interval": 20, "rollout_temperature": 0.8,
}  # fmt: skip

ROLL_CONFIG = {
    "rollout_batch_size": 64, "num_return_sequences_in_group": 8, "ppo_epochs": 1, "pg_clip": 0.2,
    "use_pg_clip_range": True, "pg_clip_low": 0.2, "pg_clip_high": 0.27, "dual_clip_loss": True,
    "adv_estimator": "reinforce", "norm_mean_type": "group", "norm_std_type": "group",
    "whiten_advantages": True, "use_kl_loss": False, "add_token_level_kl": False, "seed": 42,
    "pretrain": "org/model", "loss_agg_mode": "seq-mean-token-mean", "async_generation_ratio": 0,
    "actor_train": {
        "training_args": {"learning_rate": 1e-6, "per_device_train_batch_size": 1,
                          "gradient_accumulation_steps": 32, "warmup_steps": 20,
                          "lr_scheduler_type": "constant_with_warmup"},
        "device_mapping": "list(range(0,16))",
        "strategy_args": {"strategy_config": {"tensor_model_parallel_size": 2}},
    },
    "actor_infer": {"generating_args": {"temperature": 0.99, "num_return_sequences": 8}},
}  # fmt: skip

TINKER_CONFIG = {
    "learning_rate": 4e-5, "model_name": "org/model", "num_substeps": 2, "lora_rank": 32,
    "loss_fn": "importance_sampling", "kl_penalty_coef": 0.0, "temperature": 1.0,
    "dataset_builder": {"groups_per_batch": 16, "group_size": 8, "seed": 5},
}  # fmt: skip

TUNE_CONFIG = {
    "batch_size": 2, "grpo_samples": 16, "ppo_epochs": 2, "seed": 9, "temperature": 1.0,
    "world_size": 8,
    "optimizer": {"_component_": "torch.optim.AdamW", "lr": 1e-5},
    "loss": {"_component_": "torchtune.dev.rl.loss.GRPOLoss", "epsilon": 0.15, "kl_coeff": 0.01},
    "lr_scheduler": {
        "_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",
        "num_warmup_steps": 50},
    "model": {"_component_": "torchtune.models.llama3_2.llama3_2_3b"},
}  # fmt: skip

CONFIGS = [
    (OPENRLHF, OPENRLHF_OLD, {
        "batch_size": 1024, "group_size": 8, "optimizer_steps_per_rollout": 8, "lr": 5e-7,
        "lr_schedule": "cosine_with_min_lr", "clip_low": 0.2, "clip_high": 0.27, "clip_dual": inf,
        "kl_coef": 0.001, "advantage": "centred/std", "loss_mean": "token", "seed": 7,
        "model": "org/model", "task": "org/data", "optimizer": "adam(0.9,0.95)", "grad_clip": 1.0,
    }),
    (OPENRLHF, OPENRLHF_NEW, {
        "batch_size": 256, "group_size": 4, "optimizer_steps_per_rollout": 1, "lr": 1e-6,
        "lr_schedule": "constant", "clip_low": 0.3, "clip_high": 0.3, "clip_dual": 3.0,
        "kl_coef": 0.0, "advantage": "centred", "seed": 3, "model": "m", "synchronous": "no",
        "clip_active": "yes", "temperature": 0.8,
        "optimizer": "adam(0.9,0.95,eps=1e-08,weight_decay=0.1)",
    }),
    (NEMO_RL, NEMO, {
        "batch_size": 512, "group_size": 16, "optimizer_steps_per_rollout": 4, "lr": 5e-6,
        "lr_schedule": "constant", "warmup_responses": 50 * 512.0, "clip_low": 0.2,
        "clip_high": 0.28, "clip_dual": inf, "kl_coef": 0.01, "advantage": "centred/std",
        "loss_mean": "token", "seed": 42, "model": "org/model", "task": "OpenMathInstruct-2",
        "optimizer": "adamw(0.9,0.999,eps=1e-08,weight_decay=0.01)", "synchronous": "yes",
    }),
    (PRIME_RL, PRIME, {
        "batch_size": 512, "group_size": 16, "optimizer_steps_per_rollout": 1, "lr": 3e-6,
        "lr_schedule": "linear", "warmup_responses": 5120.0, "clip_active": "yes", "seed": 1,
        "model": "org/model", "grad_clip": inf, "optimizer": "adamw(0.9,0.95)",
        "loss_mean": "token", "clip_low": None,
    }),
    (OPEN_INSTRUCT, OPEN, {
        "batch_size": 768, "group_size": 16, "optimizer_steps_per_rollout": 2, "lr": 1e-6,
        "lr_schedule": "constant", "clip_low": 0.2, "clip_high": 0.272, "clip_dual": inf,
        "kl_coef": 0.0, "advantage": "centred", "loss_mean": "token", "seed": 3,
        "model": "org/model", "task": "org/data", "score_scale": 10.0, "clip_active": None,
    }),
    (SKYRL, SKY, {
        "batch_size": 1280, "group_size": 5, "optimizer_steps_per_rollout": 8, "lr": 1e-6,
        "lr_schedule": "constant", "warmup_responses": 800.0, "clip_low": 0.2, "clip_high": 0.28,
        "clip_dual": inf, "kl_coef": 0.0, "entropy_coef": 0.0, "advantage": "centred",
        "loss_mean": "constant", "seed": 42, "model": "org/model", "task": "gsm8k/train",
    }),
    (AREAL, AREAL_CONFIG, {
        "batch_size": 512, "group_size": 4, "optimizer_steps_per_rollout": 4, "lr": 1.7e-5,
        "lr_schedule": "constant", "clip_low": 0.2, "clip_high": 0.2, "clip_dual": inf,
        "kl_coef": 0.0, "advantage": "centred/std", "seed": 1, "model": "org/model",
        "task": "openai/gsm8k", "synchronous": "no", "grad_clip": 1.0,
        "optimizer": "adam(0.9,0.999,eps=1e-08,weight_decay=0.017)",
    }),
    (SLIME, SLIME_CONFIG, {
        "batch_size": 256, "group_size": 8, "optimizer_steps_per_rollout": 2, "lr": 1e-6,
        "lr_schedule": "constant", "warmup_responses": 0.0, "clip_low": 0.2, "clip_high": 0.28,
        "clip_dual": inf, "kl_coef": 0.0, "advantage": "centred/std", "loss_mean": "sequence",
        "seed": 42, "model": "/models/m", "optimizer": "adam(0.9,0.98,weight_decay=0.1)",
        "temperature": 0.8,
    }),
    (ROLL, ROLL_CONFIG, {
        "batch_size": 512, "group_size": 8, "optimizer_steps_per_rollout": 2, "lr": 1e-6,
        "lr_schedule": "constant", "warmup_responses": 5120.0, "clip_low": 0.2, "clip_high": 0.27,
        "clip_dual": 1.4, "kl_coef": 0.0, "advantage": "centred/std, whitened",
        "loss_mean": "sequence", "seed": 42, "model": "org/model", "synchronous": "yes",
        "temperature": 0.99,
    }),
    (TINKER, TINKER_CONFIG, {
        "batch_size": 128, "group_size": 8, "optimizer_steps_per_rollout": 2, "lr": 4e-5,
        "lr_schedule": "constant", "clip_low": inf, "clip_high": inf, "clip_dual": inf,
        "kl_coef": 0.0, "advantage": "centred", "seed": 5, "model": "org/model",
        "synchronous": "yes",
    }),
    (TORCHTUNE, TUNE_CONFIG, {
        "batch_size": 256, "group_size": 16, "optimizer_steps_per_rollout": 2, "lr": 1e-5,
        "lr_schedule": "cosine", "warmup_responses": 50 * 256 / 2, "clip_low": 0.15,
        "clip_high": 0.15, "clip_dual": inf, "kl_coef": 0.01, "seed": 9, "model": "llama3_2_3b",
        "optimizer": "adamw",
    }),
]  # fmt: skip
"""(framework, nested configuration, facts; None: the fact must be absent)."""

LOGS = [
    (OPENRLHF, "console", ("policy_loss", "reward", "kl", "ppo_clip_ratio", "actor_lr",
                           "response_length", "total_length", "return")),
    (OPENRLHF, "W&B, TensorBoard", ("train/policy_loss", "train/reward", "train/actor_lr",
                                    "train/response_length", "train/global_step",
                                    "eval/eval_math_pass1", "eval/global_step")),
    (NEMO_RL, "TensorBoard", ("train/reward", "train/loss", "train/probs_ratio",
                              "train/probs_ratio_clamped", "train/grad_norm", "train/lr",
                              "train/mean_gen_tokens_per_sample", "validation/accuracy")),
    (PRIME_RL, "trainer", ("step", "time", "loss/mean", "loss/nan_count", "optim/lr",
                           "optim/grad_norm", "mismatch_kl/all/mean", "entropy/all/mean")),
    (PRIME_RL, "orchestrator", ("step", "reward/all/mean", "progress/total_samples",
                                "progress/samples", "progress/problems", "eval/aime/avg@16")),
    (PRIME_RL, "newest", ("step", "train/agg/effective/reward/mean", "progress/rollouts",
                          "progress/total_rollouts", "progress/tasks",
                          "eval/aime/effective/agent/avg@4")),
    (OPEN_INSTRUCT, "W&B", ("training_step", "episode", "scores", "val/sequence_lengths",
                            "policy/clipfrac_avg", "objective/kl2_avg", "eval/scores", "lr")),
    (SKYRL, "W&B", ("trainer/global_step", "reward/avg_raw_reward", "policy/policy_loss",
                    "policy/clip_ratio", "policy/policy_entropy", "eval/all/avg_score")),
    (AREAL, "W&B", ("ppo_actor/task_reward/avg", "ppo_actor/update/clip_ratio/avg",
                    "ppo_actor/update/lr", "timeperf/rollout", "eval-rollout/reward")),
    (AREAL, "old", ("grpo_actor/task_reward/avg", "grpo_actor/update/entropy/avg",
                    "timeperf/train_step")),
    (SLIME, "W&B", ("rollout/step", "rollout/raw_reward", "rollout/rewards", "train/step",
                    "train/pg_clipfrac", "train/ppo_kl", "train/lr-pg_0", "eval/aime",
                    "eval/step")),
    (ROLL, "TensorBoard", ("step", "actor/pg_loss", "actor/ppo_ratio_clipfrac",
                           "critic/score/mean", "actor_train/grad_norm", "actor/approxkl",
                           "actor/policykl", "val_correct/all/mean")),
    (ROLL, "raw", ("actor/pg_loss@sum", "actor/ppo_ratio_clipfrac@mean", "critic/kl@mean")),
    (TINKER, "JSON lines", ("step", "progress/batch", "progress/done_frac", "optim/lr",
                            "env/all/reward/total", "env/all/total_episodes",
                            "test/env/all/correct")),
    (TINKER, "recipe", ("step", "reward/mean", "reward/pass@1", "data/num_rollouts",
                        "progress/batch", "time/total")),
    (TORCHTUNE, "file", ("step", "rewards", "successes", "num_stop_tokens", "loss", "clipfrac",
                         "ratios", "approx_policy_kl", "response_lengths", "lr")),
    (ART, "history", ("step", "train/reward", "train/reward_std_dev", "train/exception_rate",
                      "val/reward", "val/reward_std_dev", "val/exception_rate")),
    (ART, "2026", ("training_step", "train/reward", "loss/train", "data/step_num_trajectories",
                   "data/step_num_groups_trainable")),
    (VERL, "file", ("training/global_step", "critic/score/mean", "actor/pg_loss",
                    "actor/pg_clipfrac", "actor/grad_norm", "actor/ppo_kl",
                    "val-core/openai/gsm8k/acc/mean@1")),
    (VERL, "old", ("critic/score/mean", "actor/pg_loss", "actor/entropy_loss", "actor/ppo_kl",
                   "actor/pg_clipfrac", "val/test_score/openai/gsm8k")),
    (TRL, "trainer_state", ("step", "epoch", "loss", "reward", "reward_std", "kl", "grad_norm",
                            "learning_rate", "completions/mean_length",
                            "clip_ratio/region_mean", "eval_reward")),
    (TRL, "W&B", ("train/global_step", "train/reward", "train/reward_std", "train/loss",
                  "train/completions/mean_length", "eval/reward")),
    (TRL, "unsloth", ("step", "completion_length", "reward", "reward_std", "rewards/f", "kl")),
]  # fmt: skip
"""(framework, sink, keys of its rows)."""
