"""Consoles whose rows are dictionaries behind a step: OpenRLHF, slime, ROLL, SkyRL."""

from __future__ import annotations

import re

from twoclock.sources.console.base import Console, Dialect, Parser
from twoclock.sources.console.lines import Line, without_stamp

_OPENRLHF = re.compile(r"Global step (\d+): (?=\{)")
_OPENRLHF_EVAL = re.compile(
    r"Evaluation completed in .{0,60}?global_step:? (\d+), eval_metrics: (?=\{)"
)


class _OpenRLHF(Parser):
    """Rows and evaluations; the short names on progress bars are those of single batches."""

    def see(self, line: Line) -> bool:
        found = _OPENRLHF.search(line.text) or _OPENRLHF_EVAL.search(line.text)
        if found is None:
            return False
        step = int(found[1][:18])
        self.console.add_dict({"global_step": step}, line, found.end())
        return True


OPENRLHF = Dialect(
    "openrlhf",
    (b"Global step ", b"eval_metrics: "),
    lambda text, _: bool(_OPENRLHF.search(text) or _OPENRLHF_EVAL.search(text)),
    _OpenRLHF,
    signs=(b"openrlhf.cli.", b"openrlhf/cli/", b"openrlhf/trainer/"),
    row="Global step N: {...}",
)

_SLIME = re.compile(r"(?:^|[\s\]-])(rollout|perf|eval|step|passrate) (\d+): (?=\{')")
_SLIME_CLOCKS = {
    "rollout": ("rollout/step", "rollout/"), "perf": ("rollout/step", "perf/"),
    "eval": ("eval/step", "eval/"), "step": ("train/step", "train/"),
    "passrate": ("rollout/step", "passrate/"),
}  # fmt: skip

_SLIME_GROUPS = ("rollout/", "perf/", "eval/", "train/", "passrate/", "multi_turn/")


class _Slime(Parser):
    """Rows of several clocks: rollouts, evaluations and optimizer steps, each under its own key."""

    def see(self, line: Line) -> bool:
        found = _SLIME.search(line.text)
        if found is None:
            return False
        clock, prefix = _SLIME_CLOCKS[found[1]]

        def spelt(key: str) -> str:
            return key if key.startswith(_SLIME_GROUPS) else prefix + key

        self.console.add_dict({clock: int(found[2][:18])}, line, found.end(), spelt)
        return True


SLIME = Dialect(
    "slime",
    (b"rollout ", b"perf ", b"eval ", b"step ", b"passrate "),
    lambda text, _: (found := _SLIME.search(text)) is not None and found[1] != "perf",
    _Slime,
    signs=(b"slime/ray/", b"slime/utils/", b"slime.utils."),
    row="rollout N: {...}",
)

_ROLL = re.compile(r"metrics_tag: \{\"step\": (\d+), \"metrics\": (?=\{)")


class _Roll(Parser):
    """JSON behind the prefix of a logger."""

    def see(self, line: Line) -> bool:
        found = _ROLL.search(line.text)
        if found is None:
            return False
        self.console.add_dict({"step": int(found[1][:18])}, line, found.end())
        return True


ROLL = Dialect(
    "roll",
    (b"metrics_tag: ",),
    lambda text, _: _ROLL.search(text) is not None,
    _Roll,
    signs=(b"roll.pipeline.", b"roll/pipeline/"),
    row='metrics_tag: {"step": N, "metrics": {...}}',
    columns={"step": ("step",)},
)

_SKYRL = re.compile(r"Step (\d+): *$")
_SKYRL_LINE = re.compile(r"\s*[{}\[\]()'\"\d\-]")
_MAX_LINES = 5000


class _SkyRL(Parser):
    """A line ``Step N:`` and the pretty-printed dictionary below it, of the same worker."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.head: Line | None = None
        self.step = 0
        self.lines: list[str] = []
        self.depth = 0

    def see(self, line: Line) -> bool:
        found = _SKYRL.search(line.text)
        if found:
            self.close()
            self.head, self.step, self.lines, self.depth = line, int(found[1][:18]), [], 0
            self.console.watch.everything = max(self.console.watch.everything, 1)
            return True
        if self.head is None:
            return False
        self.console.watch.everything = max(self.console.watch.everything, 1)
        text = line.text
        if line.worker != self.head.worker or not (
            _SKYRL_LINE.match(text) and (self.lines or text.lstrip().startswith("{"))
        ):
            if line.number - self.head.number > _MAX_LINES:
                self.close()
            return False
        self.lines.append(text.strip())
        self.depth += text.count("{") - text.count("}")
        if self.depth <= 0:
            self.close()
        return True

    def close(self) -> None:
        head, self.head = self.head, None
        if head is None or not self.lines:
            return
        whole = head._replace(text=" ".join(self.lines))
        self.console.add_dict({"trainer/global_step": self.step}, whole, 0)


def _tells_skyrl(text: str, before: str) -> bool:
    """Tell whether a dictionary opens below a line that is ``Step N:`` alone."""
    return text.lstrip().startswith("{'") and bool(_SKYRL.fullmatch(without_stamp(before)))


SKYRL = Dialect(
    "skyrl",
    (b"Step ", b"{'"),
    _tells_skyrl,
    _SkyRL,
    signs=(b"skyrl_train.", b"skyrl_train/", b"skyrl/"),
    row="Step N: {...}",
    columns={"step": ("trainer/global_step",)},
)
