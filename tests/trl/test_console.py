"""TRL's console as the real trainer prints it, in one stream with its progress bars."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("trl", reason="TRL is not installed here; `make test-trl` installs it")

from twoclock.reading import ReadOptions
from twoclock.sources.console import read

pytestmark = pytest.mark.trl

SCRIPT = """
import json, sys, torch
from transformers import Trainer, TrainerCallback, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x=None, labels=None):
        out = self.layer(x)
        return {"loss": ((out - labels) ** 2).mean(), "logits": out}

data = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(86)]
args = TrainingArguments(
    sys.argv[1], max_steps=60, logging_steps=int(sys.argv[2]), eval_strategy="steps",
    eval_steps=20, per_device_train_batch_size=4, report_to=[], use_cpu=True, save_strategy="no",
    logging_first_step=sys.argv[3] == "first",
)
trainer = Trainer(Model(), args, train_dataset=data, eval_dataset=data[:20])
trainer.train()
with open(sys.argv[1] + ".json", "w") as file:
    json.dump([[row["step"], row.get("learning_rate")] for row in trainer.state.log_history], file)
"""


@pytest.mark.parametrize(
    ("every", "first", "flags"),
    [(5, "no", []), (7, "no", ["-u"]), (1, "no", []), (5, "first", ["-u"])],
)
def test_every_row_has_the_step_of_the_trainer(tmp_path, every, first, flags):
    """The steps from the bar are those of `log_history`, row by row, evaluations included."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    log = tmp_path / "train.log"
    with log.open("wb") as file:
        subprocess.run(
            [sys.executable, *flags, str(script), str(tmp_path / "out"), str(every), first],
            stdout=file, stderr=subprocess.STDOUT, check=True, timeout=300,
        )  # fmt: skip
    history = json.loads((tmp_path / "out.json").read_text())
    (found,) = read(log, ReadOptions())
    assert found.rows.values["step"].value.tolist() == [step for step, _ in history]
    rates = [rate for _, rate in history if rate is not None]
    assert found.rows.values["learning_rate"].value == pytest.approx(rates, rel=1e-3)
    assert found.facts["ended"].value == "completed"
