PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint snapshots bench clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY)  ## convert the example suites and show the prompts
	$(BIN)/multiturn convert examples --format text

test: $(READY)  ## run every test
	$(BIN)/pytest

lint: $(READY)  ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

snapshots: $(READY)  ## write the prompt snapshots anew, and say what changed
	$(BIN)/pytest -q tests/test_scenarios.py --snapshot-update
	git diff --stat snapshots

bench: $(READY)  ## measure against libyaml's bare event scan
	$(BIN)/python tests/bench.py

clean:  ## remove everything that was made
	rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "multiturn needs Python 3.11 or newer, and $(PYTHON) is older; try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,azure,anthropic,gemini]'
	@touch $@
