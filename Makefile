# The whole interface of the repository; CI calls nothing else. `make` alone prints the list.
# Needs Python 3.11 or newer with venv, and make. Everything else is installed, pinned by hash, into $(VENV).

PYTHON ?= python3
VENV ?= .venv
# Tests that run nodes mostly wait, so two cores keep more than two of them busy.
WORKERS ?= 5
ARGS ?=
# The tests start thousands of processes. Where this is set, each would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The distribution was called windlass before; an environment must not have both.
RENAMED := @$(PIP) uninstall --quiet --yes windlass 2>/dev/null || true
# The compiler that checks the types of the dashboard's scripts; its version is in $(TYPES)/package-lock.json.
TYPES := tests/browser/types
TYPESCRIPT := build/typescript
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url

.DEFAULT_GOAL := help
.PHONY: help demo wheel docs test check check-js format audit sbom bench bench-autoscale bench-recovery bench-scale compare soak chaos model postgres-versions lock clean

help: ## Print this list.
	@echo 'make TARGET [ARGS="..."] [PYTHON=python3.12] [VENV=.venv] [WORKERS=5]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.runtime ## Run the demonstration on SQLite; installs the runtime dependencies only.
	$(BIN)/windlass demo $(ARGS)

wheel: $(VENV)/.runtime ## Build the wheel of windlass-tasks in dist/, without fetching anything.
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist $(ARGS) .

docs: $(VENV)/.docs ## Build the documentation site in build/docs; a broken link fails.
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs $(ARGS)
	@echo "open build/docs/index.html"

test: $(VENV)/.dev ## Run the tests; ARGS go to pytest, as in ARGS="-n0 -k lease".
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(VENV)/.dev ## Lint, formatting, types, direction of imports.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo
	$(MAKE) --no-print-directory check-js

# A machine without npm or without a network can still check everything else.
check-js: ## Check the types of the dashboard's scripts with TypeScript, which npm installs into build/.
	@mkdir -p $(TYPESCRIPT); \
	if ! command -v npm >/dev/null; then \
		echo "note: npm is not installed: skipped the types of the dashboard's scripts"; \
	elif ! $(MAKE) $(TYPESCRIPT)/.installed >$(TYPESCRIPT)/install.log 2>&1; then \
		echo "note: npm cannot install TypeScript (see $(TYPESCRIPT)/install.log): skipped the types of the dashboard's scripts"; \
	else \
		echo "tsc --project $(TYPES)" && $(TYPESCRIPT)/node_modules/.bin/tsc --project $(TYPES); \
	fi

format: $(VENV)/.dev ## Format, and repair what lint can repair by itself.
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

audit: $(VENV)/.dev ## Check locks, installed files, licenses and known faults; without a network, pip-audit is left out.
	$(BIN)/python -m tools.audit

sbom: $(VENV)/.dev ## Write a bill of materials (CycloneDX) of the package and its extras to build/sbom.json.
	$(BIN)/python -m tools.sbom build/sbom.json

bench: $(VENV)/.dev ## Measure CPU time per task of the stores alone; ARGS go to the benchmark.
	$(BIN)/python -m benchmarks $(ARGS)

bench-autoscale: $(VENV)/.dev ## Compare the autoscaler with models of others in simulated time; ARGS="--traces FOLDER".
	$(BIN)/python -m benchmarks.autoscale --deciders all --jobs $(WORKERS) $(ARGS)

bench-recovery: $(VENV)/.dev ## Measure how long tasks wait after a worker, a node, PostgreSQL or the server dies; ARGS="--trials 50".
	$(BIN)/python -m benchmarks.recovery $(ARGS)

bench-scale: $(VENV)/.dev ## Measure graphs of ten thousand to a million tasks; ARGS="--node", ARGS="--only cascades", ARGS="--dags FOLDER".
	$(BIN)/python -m benchmarks.scale $(ARGS)

compare: $(VENV)/.dev ## Compare Windlass with the peers that are installed (requirements/peers.txt): CPU time per task, rates, times.
	$(BIN)/python -m benchmarks.cpu $(ARGS)

soak: $(VENV)/.dev ## Run the long tests, which `make test` leaves out; the simulation for WINDLASS_SOAK_SECONDS (an hour).
	$(BIN)/python -m pytest -m soak --timeout=0 $(ARGS)

chaos: $(VENV)/.dev ## Break a real cluster on a seeded schedule and judge it; ARGS="--seconds 120 --seed 7 --store sqlite".
	$(BIN)/python -m tests.chaos $(ARGS)

model: $(VENV)/.dev ## Explore the model of leases, fences and fan-in with Spin, which must be installed.
	$(BIN)/python -m tests.formal

postgres-versions: $(VENV)/.dev ## Run the suites of the stores on PostgreSQL 14 to 18; needs npm.
	$(BIN)/python -m tests.support.postgres_versions --keep build/postgres $(ARGS)

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

# Compiled against the development lock, so one environment can hold both.
$(VENV)/.docs: requirements/docs.txt $(VENV)/.dev
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/docs.txt
	@touch $@

# The development lock contains the runtime one, version for version.
$(VENV)/.dev: requirements/dev.txt requirements/runtime.txt pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/dev.txt
	$(RENAMED)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $(VENV)/.runtime $@

# From the lock and nothing else; the lock names hashes but no hosts, so that any registry will do.
$(TYPESCRIPT)/.installed: $(TYPES)/package.json $(TYPES)/package-lock.json
	cp $^ $(TYPESCRIPT)
	npm ci --prefix $(TYPESCRIPT) --no-audit --no-fund --fetch-retries=1 --fetch-timeout=30000
	@touch $@
