"""Real TRL training of a random model of a few thousand parameters, offline and on the CPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

WORDS = ("<pad>", "<eos>", "<unk>", "+", "=", *map(str, range(10)))


@dataclass
class Exact:
    """A reward function (1 for the right digit) that keeps what it was asked.

    Parameters
    ----------
    sampled : int
        Training responses so far.
    evaluated : list of float
        Rewards of evaluation responses since it was emptied.
    """

    sampled: int = 0
    evaluated: list = field(default_factory=list)
    rewards: list = field(default_factory=list)
    lengths: list = field(default_factory=list)
    __name__ = "exact"

    def __call__(self, completions, answer, split, completion_ids, **_):
        """Score a batch of completions."""
        rewards = [float(c.split()[:1] == [a]) for c, a in zip(completions, answer, strict=True)]
        if split[0] == "train":
            self.sampled += len(completions)
            self.rewards.append(rewards)
            self.lengths.append([len(ids) for ids in completion_ids])
        else:
            self.evaluated += rewards
        return rewards


def save_model(folder, *, width=16, layers=1):
    """Save a random Llama and its word tokenizer; return the folder as TRL's model name."""
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    set_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        dtype="float32",
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return str(folder)


def sums(n, split):
    """Return n problems whose answer is one digit."""
    pairs = [(i % 4, (i // 4) % 4) for i in range(n)]
    rows = [{"prompt": f"{a} + {b} =", "answer": str(a + b), "split": split} for a, b in pairs]
    return Dataset.from_list(rows)


def make_trainer(model, out, callbacks, *, reward=None, **settings):
    """Return a trainer of 32 responses a rollout and K = 8 unless `settings` say otherwise."""
    config = {
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 4,
        "num_iterations": 2,
        "num_generations": 8,
        "per_device_eval_batch_size": 16,
        "max_completion_length": 2,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 4,
        "max_steps": 24,
        "logging_steps": 1,
        "eval_strategy": "steps",
        "eval_steps": 8,
        "save_strategy": "no",
        "report_to": "none",
        "seed": 5,
        **settings,
    }
    args = GRPOConfig(
        output_dir=str(out),
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **config,
    )
    return GRPOTrainer(
        model=model,
        reward_funcs=reward or Exact(),
        args=args,
        train_dataset=sums(16, "train"),
        eval_dataset=sums(16, "eval"),
        callbacks=callbacks,
    )
