# twoclock: every task of the project is a target here; CI calls only these.
PYTHON ?= python3
VENV := .venv
TRL := .venv-trl
SINKS := .venv-sinks
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo install check format test test-trl test-sinks test-clusters smoke bench figures golden data data-check wheel all clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/base.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	@touch $@ $(VENV)/base.stamp

demo: $(VENV)/base.stamp ## fit both clocks on the shipped studies (installs without torch)
	$(BIN)/twoclock fit data/learning data/failure/main --target sorting-6=0.80 --target chain-8=0.90 \
		--out report

install: $(VENV)/dev.stamp ## virtual environment with everything that tests need

check: install ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install ## format the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

test: install ## all tests and doctests
	$(BIN)/python -m pytest -q -n auto --dist loadgroup

$(TRL)/stamp: pyproject.toml constraints.txt tests/trl/requirements.txt
	$(PYTHON) -m venv $(TRL)
	$(TRL)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e . -r tests/trl/requirements.txt
	@touch $@

test-trl: $(TRL)/stamp ## train with TRL and log it (an environment of its own, .venv-trl)
	$(TRL)/bin/python -m pytest -q -rs tests/trl

$(SINKS)/stamp: pyproject.toml constraints.txt tests/sinks/requirements.txt tests/sinks/verl.txt
	$(PYTHON) -m venv $(SINKS)
	$(SINKS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e ".[remote]" -r tests/sinks/requirements.txt
	$(SINKS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target $(SINKS)/verl -r tests/sinks/verl.txt
	@touch $@

test-sinks: $(SINKS)/stamp ## read what TensorBoard, W&B, MLflow, trackio, verl and S3 really write (.venv-sinks)
	$(SINKS)/bin/python -m pytest -q -rs tests/sinks

$(VENV)/clusters.stamp: $(VENV)/dev.stamp
	$(PIP) -e ".[dask,ray]"
	@touch $@

test-clusters: $(VENV)/clusters.stamp ## sweeps on a real local Dask and a real local Ray cluster
	$(BIN)/python -m pytest -q -rs tests/trainer/test_clusters.py

smoke: install ## train tiny runs, log them, fit them
	$(BIN)/python -m pytest -q tests/test_end_to_end.py

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(PIP) "tensorboard>=2.16"
	@touch $@

bench: $(VENV)/bench.stamp ## speed, as ratios measured in one run (TensorBoard's own reader is a peer)
	$(BIN)/python -m tests.benchmarks

golden: install ## redraw the reference images of tests/golden
	$(BIN)/python -m tests.golden_figures

figures: $(VENV)/base.stamp ## redraw the README's pictures from the shipped studies
	$(BIN)/python -m tests.readme_figure

data: install ## train what the studies below data/ lack (delete their runs for all; hours)
	set -e; find data -name study.toml | sort | while read -r study; do \
		$(BIN)/twoclock sweep "$$study"; done

data-check: install ## train a cell of every study again and compare with the shipped runs
	$(BIN)/python -m tests.data_check data

wheel: $(BIN)/python ## build the wheel into dist/
	$(PIP) build
	$(BIN)/python -m build --wheel --outdir dist .

all: check test smoke ## everything CI runs but the wheel

clean: ## remove what the targets made
	rm -rf $(VENV) $(TRL) $(SINKS) build dist report .pytest_cache .mypy_cache .ruff_cache .hypothesis
