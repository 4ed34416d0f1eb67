"""The house: imports flow one way, start-up is light, only the command line prints or exits."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "twoclock"

LAYERS = (
    "errors", "schema", "log_schema", "clipping", "notes", "progress", "runlog", "runfacts",
    "runlogger", "reading", "frameworks", "sources", "runs",
    "overview", "select", "lr_rule", "strata", "events", "simulate", "laws", "results", "words",
    "fit", "compare", "published", "settings", "clocks", "observe", "contrasts", "analysis", "job",
    "plots", "report", "trainer", "cli", "integrations", "__main__",
)  # fmt: skip
"""Later layers may import earlier ones, never the reverse."""

TRAINER_MAY_IMPORT = {"clipping", "errors", "schema", "runlog", "trainer"}


def modules():
    """List the package's source files."""
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(path):
    """Return the name of the module or package directly below `twoclock`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_layers(path):
    """Return the layers that a file imports when it is loaded, lazily imported ones included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "twoclock":
                names = [f"twoclock.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {n.split(".")[1] for n in names if n.startswith("twoclock.")}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_flow_one_way(path):
    """A module imports only its own layer and earlier ones; every module has a layer."""
    layer = layer_of(path)
    if layer == "__init__":
        return
    assert layer in LAYERS, f"{layer} has no place in LAYERS"
    upward = {name for name in imported_layers(path) if LAYERS.index(name) > LAYERS.index(layer)}
    assert not upward


def test_nothing_imports_the_integrations():
    """Callbacks for other trainers need their packages, so nobody else may load them."""
    others = [p for p in modules() if layer_of(p) != "integrations"]
    assert not [p.name for p in others if "integrations" in imported_layers(p)]


def test_the_trainer_shares_only_the_log_format():
    """The trainer imports nothing of the analysis."""
    used = set().union(*(imported_layers(p) for p in (PACKAGE / "trainer").rglob("*.py")))
    assert used <= TRAINER_MAY_IMPORT


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_torch_is_imported_in_the_trainer_only(path):
    """No other module names torch in an import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert "torch" not in names or layer_of(path) == "trainer"
    assert "pickle" not in names


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parent.rglob("test_*.py")), ids=lambda p: p.name
)
def test_every_test_says_what_must_hold(path):
    """Each test function has a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tests = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name[:5] == "test_"]
    assert [t.name for t in tests if not ast.get_docstring(t)] == []


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import twoclock", ["torch", "matplotlib", "pandas", "scipy"]),
        ("import twoclock.cli", ["torch", "matplotlib", "pandas", "scipy", "numpy"]),
        ("import twoclock.analysis, twoclock.report.text", ["torch", "matplotlib"]),
    ],
)
def test_start_up_is_light(statement, forbidden):
    """A fresh interpreter that imports the package loads nothing heavy."""
    code = f"import sys; {statement}; print([m for m in {forbidden} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_there():
    """Every name of twoclock.__all__ loads, and an unknown one is an AttributeError."""
    import twoclock

    for name in twoclock.__all__:
        assert getattr(twoclock, name) is not None
    assert set(twoclock.__all__) <= set(dir(twoclock))
    with pytest.raises(AttributeError, match="nope"):
        _ = twoclock.nope


@pytest.mark.parametrize("name", [".pre-commit-config.yaml", "CITATION.cff"])
def test_configuration_files_are_yaml(name):
    """Files that other programs read parse."""
    import yaml

    assert yaml.safe_load((PACKAGE.parent / name).read_text(encoding="utf-8"))
