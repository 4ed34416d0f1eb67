"""Train with two processes and the callback; started by torchrun with a folder and a model."""

import json
import os
import sys
from pathlib import Path

from tests.trl.tiny import Exact, make_trainer
from twoclock.integrations.trl import TwoClockCallback

if __name__ == "__main__":
    folder, model = Path(sys.argv[1]), sys.argv[2]
    reward = Exact()
    trainer = make_trainer(
        model, folder / "out", [TwoClockCallback(folder / "run")], reward=reward,
        steps_per_generation=2, max_steps=8, eval_steps=4, logging_steps=3,
    )  # fmt: skip
    trainer.train()
    seen = {"sampled": reward.sampled, "right": sum(reward.evaluated)}
    (folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(seen))
