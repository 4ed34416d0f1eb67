"""Which framework a log is of: each description knows its own logs, and no other's."""

import json

import pytest

from tests.frameworks.examples import ALL, CONFIGS, HERE, LOGS
from tests.reading import SHARED
from twoclock.frameworks import FRAMEWORKS
from twoclock.frameworks.config import flat_config
from twoclock.frameworks.roll import ROLL
from twoclock.frameworks.tinker import TINKER
from twoclock.frameworks.verl import VERL


def label(case):
    return f"{case[0].name}-{case[1] if isinstance(case[1], str) else 'config'}"


@pytest.mark.parametrize("case", LOGS, ids=label)
@pytest.mark.parametrize("framework", ALL, ids=lambda f: f.name)
def test_only_its_own_logs_are_recognised_by_keys(framework, case):
    """A description recognises the keys of its own logs, and those of no other framework."""
    own, _, keys = case
    shared = "critic/score/mean" in keys  # ROLL writes keys of verl beside its own
    also = (framework, own) == (VERL, ROLL) and shared
    assert framework.wrote(keys) is (framework is own or also)


@pytest.mark.parametrize("case", LOGS, ids=label)
def test_the_first_that_knows_a_log_is_its_framework(case):
    """Asked in the order of the table, every log finds its own framework."""
    own, _, keys = case
    assert next(framework for framework in FRAMEWORKS if framework.wrote(keys)) is own


@pytest.mark.parametrize(
    ("name", "framework"),
    [("roll-metrics-first80.jsonl", ROLL), ("tinker-metrics.jsonl", TINKER)],
)
def test_real_logs_are_recognised(name, framework):
    """The first line of a real log is enough to tell whose it is."""
    if not (SHARED / name).is_file():
        pytest.skip("no real logs here")
    with (SHARED / name).open(encoding="utf-8") as lines:
        keys = json.loads(next(lines)).keys()
    assert [known for known in ALL if known.wrote(keys)] == [framework]


@pytest.mark.parametrize("case", CONFIGS, ids=label)
@pytest.mark.parametrize("framework", ALL, ids=lambda f: f.name)
def test_only_its_own_configurations_are_recognised(framework, case):
    """A description recognises its own configurations, and those of no other framework."""
    own, config, _ = case
    assert framework.configured(flat_config(config)) is (framework is own)


def test_every_framework_has_its_own_name():
    """Names are distinct, being a column of the tables, and all are asked."""
    assert {framework.name for framework in FRAMEWORKS} == {framework.name for framework in ALL}
    assert len({framework.name for framework in ALL}) == len(ALL)


@pytest.mark.parametrize("framework", HERE, ids=lambda f: f.name)
def test_steps_and_columns_are_told(framework):
    """Each description says what counts steps, from where, and where the reward and loss stand."""
    assert framework.steps
    assert set(framework.steps.values()) <= {0, 1}
    assert {"reward", "loss", "lr"} <= {*framework.columns} | (
        {"loss"} if framework.name == "tinker-cookbook" else set()
    )


@pytest.mark.parametrize("framework", HERE, ids=lambda f: f.name)
def test_a_plain_key_is_plain(framework):
    """Taking a sink's prefix or ending off twice gives the same key as taking it off once."""
    keys = [key for own, _, keys in LOGS if own is framework for key in keys]
    for key in keys:
        once = framework.plain(key)
        assert framework.plain(once) == once
