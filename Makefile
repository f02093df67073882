# The whole interface of the repository; CI calls nothing else. `make` alone prints the list.
# Needs Python 3.11 or newer with venv, and make. Everything else is installed, pinned by hash, into $(VENV).

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 3
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The distribution was called windlass before; an environment must not have both.
RENAMED := @$(PIP) uninstall --quiet --yes windlass 2>/dev/null || true
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url

.DEFAULT_GOAL := help
.PHONY: help demo wheel test check format bench bench-autoscale compare soak lock clean

help: ## Print this list.
	@echo 'make TARGET [ARGS="..."] [PYTHON=python3.12] [VENV=.venv] [WORKERS=3]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.runtime ## Run the demonstration on SQLite; installs the runtime dependencies only.
	$(BIN)/windlass demo $(ARGS)

wheel: $(VENV)/.runtime ## Build the wheel of windlass-tasks in dist/, without fetching anything.
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist $(ARGS) .

test: $(VENV)/.dev ## Run the tests; ARGS go to pytest, as in ARGS="-n0 -k lease".
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(VENV)/.dev ## Lint, formatting, types, direction of imports.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## Format, and repair what lint can repair by itself.
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: $(VENV)/.dev ## Measure CPU time per task of the stores alone; ARGS go to the benchmark.
	$(BIN)/python -m benchmarks $(ARGS)

bench-autoscale: $(VENV)/.dev ## Compare the autoscaler with models of others in simulated time; ARGS="--traces FOLDER".
	$(BIN)/python -m benchmarks.autoscale --deciders all --jobs $(WORKERS) $(ARGS)

compare: $(VENV)/.dev ## Compare Windlass with the peers that are installed (requirements/peers.txt): CPU time per task, rates, times.
	$(BIN)/python -m benchmarks.cpu $(ARGS)

soak: $(VENV)/.dev ## Run the long tests, which `make test` leaves out; the simulation for WINDLASS_SOAK_SECONDS (an hour).
	$(BIN)/python -m pytest -m soak --timeout=0 $(ARGS)

lock: $(VENV)/.dev ## Regenerate requirements/*.txt from pyproject.toml; ARGS="--upgrade" takes newer releases.
	$(COMPILE) $(ARGS) --extra postgres --group dev --output-file requirements/dev.txt pyproject.toml
	$(COMPILE) --group build --constraint requirements/dev.txt --output-file requirements/runtime.txt pyproject.toml
	$(COMPILE) $(ARGS) --group docs --constraint requirements/dev.txt --output-file requirements/docs.txt pyproject.toml
	$(COMPILE) $(ARGS) --group peers --constraint requirements/dev.txt --output-file requirements/peers.txt pyproject.toml

clean: ## Remove the virtual environment and everything that the tools left behind.
	rm -rf $(VENV) build dist .coverage .coverage.* htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Windlass needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# The build backend is in the locks, so the package itself is installed without fetching anything unpinned. The locks are
# complete: without --no-deps, pip refuses them as soon as a locked package that is wanted with an extra has a new release.
$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/runtime.txt
	$(RENAMED)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# The development lock contains the runtime one, version for version.
$(VENV)/.dev: requirements/dev.txt requirements/runtime.txt pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/dev.txt
	$(RENAMED)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $(VENV)/.runtime $@
