"""Train with TRL's GRPOTrainer, rollout by rollout on request; runs where TRL is installed.

Reads the settings as one JSON object from the command line. Then every line ``N`` on stdin trains N
rollouts and is answered by a line ``@{"wall": s, "cpu": s}``; the end of stdin ends the process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer

SYMBOLS = 12
WORDS = (*(f"s{i}" for i in range(SYMBOLS)), "<pad>", "<eos>")
PAD, EOS = SYMBOLS, SYMBOLS + 1


class OnRequest(TrainerCallback):
    """Wait for a request before each block of rollouts, and tell how long it took.

    Parameters
    ----------
    steps : int
        Optimizer steps per rollout.
    """

    def __init__(self, steps):
        self.steps, self.left, self.start = steps, 0, None

    def on_step_begin(self, args, state, control, **kwargs):
        """Read the next request when the last one is done."""
        if self.left == 0:
            line = sys.stdin.readline()
            if not line:
                os._exit(0)  # nothing to save, and the trainer need not finish
            self.left = int(line) * self.steps
            self.start = time.perf_counter(), time.process_time()

    def on_step_end(self, args, state, control, **kwargs):
        """Answer when the block is done."""
        self.left -= 1
        if self.left == 0:
            wall, cpu = time.perf_counter(), time.process_time()
            spent = {"wall": wall - self.start[0], "cpu": cpu - self.start[1]}
            print("@" + json.dumps(spent), flush=True)


def tokenizer():
    """Return a tokenizer of one token a word."""
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    inner.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )


def model(settings):
    """Return a decoder-only transformer of the given sizes; the bundled trainer's, as GPT-2."""
    config = GPT2Config(
        vocab_size=len(WORDS),
        n_positions=settings["prompt"] + settings["answer"],
        n_embd=settings["width"],
        n_layer=settings["layers"],
        n_head=settings["heads"],
        n_inner=4 * settings["width"],
        activation_function="relu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    torch.manual_seed(0)
    return GPT2LMHeadModel(config)


def problems(n, settings):
    """Return random prompts of the right length, with an answer each."""
    generator = torch.Generator().manual_seed(0)
    size = (n, settings["prompt"])
    digits = torch.randint(10, size, generator=generator)
    rows = []
    for row in digits.tolist():
        words = [f"s{i}" for i in row]
        rows.append({"prompt": " ".join(words), "answer": sorted(row)[: settings["answer"]]})
    return Dataset.from_list(rows)


def exact(completion_ids, answer, **_):
    """Reward 1 for the right tokens."""
    return [float(ids == right) for ids, right in zip(completion_ids, answer, strict=True)]


def main():
    """Train until stdin ends."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    steps, size = settings["minibatches"], settings["batch_size"]
    with tempfile.TemporaryDirectory() as out:
        args = GRPOConfig(
            output_dir=out,
            use_cpu=True,
            bf16=False,
            activation_checkpointing=False,
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            save_strategy="no",
            logging_steps=steps,
            max_steps=10**6,
            per_device_train_batch_size=size // steps,
            steps_per_generation=steps,
            gradient_accumulation_steps=1,
            num_generations=settings["group_size"],
            max_completion_length=settings["answer"],
            generation_kwargs={"suppress_tokens": [PAD, EOS]},  # answers of full length, as ours
            learning_rate=1e-5,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            beta=0.0,
        )
        trainer = GRPOTrainer(
            model=model(settings),
            reward_funcs=exact,
            args=args,
            train_dataset=problems(max(2048, size), settings),
            processing_class=tokenizer(),
            callbacks=[OnRequest(steps)],
        )
        trainer.remove_callback(PrinterCallback)
        print("@" + json.dumps({"n_params": trainer.model.num_parameters()}), flush=True)
        trainer.train()


if __name__ == "__main__":
    main()
