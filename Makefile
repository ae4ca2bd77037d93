PYTHON ?= python3
FUZZ_SECONDS ?= 20
KILLS ?= 12
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/demo
READY := $(VENV)/ready
TOOLS := .venv-tools
LITELLM := .venv-litellm
OLDEST := .venv-oldest
NEWEST := .venv-newest
DOCS := .venv-docs
ANY_VERSION := tests/tools/test_sdks.py tests/providers/test_headers.py tests/providers/test_vendor_failures.py tests/test_batch.py \
	tests/test_cli.py tests/test_check.py tests/test_defaults.py tests/providers/test_calls.py tests/providers/test_wire.py tests/test_count_tokens.py
PIP := python -m pip install --quiet --disable-pip-version-check
# A lock has all packages; some versions of pip would look for the newest of those that others need.
INSTALL := $(PIP) --no-deps
LOCK := .venv-lock/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--custom-compile-command 'make lock' $(UPGRADE)

# Every process of a test would compile all of multiturn.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test coverage test-tools lint docs snapshots bench fuzz build lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO)  ## convert the example suites, show the prompts, and send them to the echo target
	$(BIN)/multiturn convert examples --format text
	$(BIN)/multiturn run examples --format text

test: $(READY)  ## run every test
	$(BIN)/pytest --numprocesses auto --dist worksteal

coverage: $(READY)  ## run every test, and list the lines and branches that none of them reaches
	$(BIN)/$(INSTALL) --require-hashes --requirement requirements-coverage.lock
	rm -rf .coverage && mkdir .coverage
	-$(BIN)/coverage run -m pytest --numprocesses auto --dist worksteal --quiet --tb=no
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

test-tools: $(READY) $(TOOLS)/ready $(LITELLM)/ready $(OLDEST)/ready newest  ## test with the programs of others, and the oldest and newest SDKs
	$(TOOLS)/bin/pytest tests/tools tests/test_public.py::test_these_names_are_public \
		--ignore-glob 'tests/tools/test_litellm*' --ignore tests/tools/test_tokenizers.py \
		--ignore tests/tools/test_sdks.py --ignore tests/tools/test_killed_batches.py
	KILLS=$(KILLS) $(BIN)/pytest tests/tools/test_killed_batches.py
	LITELLM=$(LITELLM)/bin/litellm $(BIN)/pytest tests/tools/test_litellm*.py tests/tools/test_tokenizers.py
	HISTORIES=3000 $(BIN)/pytest tests/providers/test_calls.py tests/providers/test_media.py \
		tests/providers/test_pairs.py
	BODIES=3000 $(BIN)/pytest tests/test_import.py
	EXPORTED_ITEMS=20000 EXPORT_KILLS=40 $(BIN)/pytest tests/test_export_openai_evals.py
	$(OLDEST)/bin/pytest $(ANY_VERSION)
	$(NEWEST)/bin/pytest $(ANY_VERSION)
	$(NEWEST)/bin/pytest tests/test_export_openai_evals.py -k sdk

lint: $(READY)  ## check format, line ends, style, spelling, types and workflows
	! git ls-files --eol | grep -E '(i|w)/(crlf|mixed)'
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/python tests/page_types.py
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet --no-progress .github action.yml pipeline/multiturn/cli/first

docs: $(READY) $(DOCS)/ready  ## make the site of docs in the folder site, and look at it in a browser
	rm -rf site
	$(DOCS)/bin/sphinx-build --quiet --fail-on-warning --keep-going -c docs . site
	$(BIN)/pytest --numprocesses 2 tests/site

snapshots: $(READY)  ## update the prompt snapshots, and list the expectations to change by hand
	$(BIN)/multiturn snapshot examples
	@$(BIN)/pytest --no-header -q --tb=no -rN tests/test_scenarios.py --snapshot-update || true
	git diff --stat snapshots
	@COLUMNS=150 $(BIN)/pytest --no-header -q --tb=no -rf tests/test_scenarios.py tests/stages tests/test_readme.py tests/test_docs.py || \
		echo "Change these expectations by hand: those of stages in tests/stages, those of scenarios in tests/scenarios, those of pages in the README and docs."

bench: $(READY)  ## measure times and memory against floors
	for question in conversion calls startup workers run media batch report images tokens; do \
		PYTHONPATH=tests $(BIN)/python benchmarks/$$question.py || exit 1; done

fuzz: $(READY)  ## look for input that breaks something, FUZZ_SECONDS=20 for each kind
	$(BIN)/$(INSTALL) --require-hashes --requirement requirements-fuzz.lock
	for kind in suites dialects tables settings pipelines targets patterns defaults states results locks reports traces; do \
		$(BIN)/python tests/fuzz.py $$kind -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit 1; done

build: $(READY)  ## build the sdist and the wheel into dist, and check them
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

lock:  ## choose and lock the packages for pyproject.toml; UPGRADE=--upgrade takes the newest
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/$(PIP) uv
	$(LOCK) pyproject.toml --extra dask --extra pytest --extra tokens --extra watch --group dev \
		--output-file requirements.lock
	$(LOCK) pyproject.toml --group install --constraint requirements.lock --output-file requirements-demo.lock
	$(LOCK) pyproject.toml --extra inspect --group tools --output-file requirements-tools.lock
	$(LOCK) pyproject.toml --resolution lowest-direct --extra tokens --group sdks --output-file requirements-oldest.lock
	$(LOCK) --group litellm --output-file requirements-litellm.lock
	$(LOCK) --group fuzz --output-file requirements-fuzz.lock
	$(LOCK) --group coverage --output-file requirements-coverage.lock
	$(LOCK) --group docs --output-file requirements-docs.lock

clean:  ## remove everything that was made
	rm -rf $(VENV) .venv-lock $(TOOLS) $(LITELLM) $(OLDEST) $(NEWEST) $(DOCS) site .import_linter_cache report.html results.jsonl dist .coverage .fuzz .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEMO): pyproject.toml requirements-demo.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "multiturn needs Python 3.11 or newer, and $(PYTHON) is older; try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(INSTALL) --require-hashes --requirement requirements-demo.lock
	$(BIN)/$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(READY): $(DEMO) requirements.lock
	@echo "Installing what develops and tests multiturn into $(VENV), once; this takes about two minutes."
	$(BIN)/$(INSTALL) --require-hashes --requirement requirements.lock
	@touch $@

$(TOOLS)/ready: pyproject.toml requirements-tools.lock
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/$(INSTALL) --require-hashes --requirement requirements-tools.lock
	$(TOOLS)/bin/$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(LITELLM)/ready: requirements-litellm.lock
	$(PYTHON) -m venv $(LITELLM)
	$(LITELLM)/bin/$(INSTALL) --require-hashes --requirement requirements-litellm.lock
	@touch $@

$(OLDEST)/ready: pyproject.toml requirements-oldest.lock
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/$(INSTALL) --require-hashes --requirement requirements-oldest.lock
	$(OLDEST)/bin/$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(DOCS)/ready: requirements-docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/$(INSTALL) --require-hashes --requirement requirements-docs.lock
	@touch $@

# Not locked: a change of an SDK is to be seen on the day it is published.
.PHONY: newest
newest:
	test -d $(NEWEST) || $(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/$(PIP) --upgrade --upgrade-strategy eager \
		anthropic editables google-genai hatchling hypothesis openai pillow pytest syrupy
	$(NEWEST)/bin/$(PIP) --upgrade --upgrade-strategy eager \
		--no-build-isolation --editable '.[tokens]'
