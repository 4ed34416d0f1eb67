"""Training frameworks: one description a module, one line here to add it."""

from __future__ import annotations

from collections.abc import Collection

from twoclock.frameworks.areal import AREAL
from twoclock.frameworks.art import ART
from twoclock.frameworks.base import Framework
from twoclock.frameworks.config import Flat
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

FRAMEWORKS: tuple[Framework, ...] = (
    ROLL, VERL, SKYRL, AREAL, SLIME, PRIME_RL, OPEN_INSTRUCT, TINKER, NEMO_RL, OPENRLHF, TORCHTUNE,
    ART, TRL,
)  # fmt: skip
"""All frameworks, those with the most telling keys first: ROLL has some of verl's beside its
own."""


def recognise(keys: Collection[str], config: Flat, name: str | None = None) -> Framework | None:
    """Return the framework that a log is of: by its name, its configuration, or its keys.

    Parameters
    ----------
    keys : collection of str
        Keys of the log's rows, as in its sink.
    config : mapping
        Its flat configuration.
    name : str, optional
        The framework that the format or the user names.
    """
    if name is not None:
        wanted = ALIASES.get(name.lower(), name.lower())
        return next((f for f in FRAMEWORKS if f.name == wanted), None)
    by_config = next((f for f in FRAMEWORKS if f.configured(config)), None)
    return by_config or next((f for f in FRAMEWORKS if f.wrote(keys)), None)


ALIASES = {"unsloth": "trl", "tinker": "tinker-cookbook", "nemo": "nemo-rl"}
"""Other names of the frameworks."""
