# Commands of the project. Each sets up what it needs: an environment in .venv, and Delta's jars in it.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
export DAGSTER_HOME := $(CURDIR)
# Where this is set, each process compiles all modules anew: 5 s of processor at every start.
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help
PYTEST := $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# What needs no Spark, and one story on Dagster, Spark and Delta; without a simulation that takes a sixth of their time.
QUICK := $(addprefix lakehouse_assets_tests/,checks contracts decisions reports e2e/test_run_checks.py)
QUICK += --ignore=lakehouse_assets_tests/decisions/drift/test_method.py
SEED ?= $(shell git rev-parse HEAD)
STORIES ?= 10
.PHONY: wheel help setup demo demo-stream dev check quick test test-slice test-all lint ruff types imports bench chaos clean-data

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## create the environment only

$(VENV)/.ready: requirements.lock pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh $(VENV)

demo: setup ## the example on real weather data, from files to gold, in the terminal
	@$(PY) scripts/demo.py

demo-stream: setup ## a stream of readings through Kafka, with the faulty barometer, in the terminal: seven minutes
	@$(PY) scripts/demo_stream.py

dev: setup ## Dagster's UI on port 3000 of this machine, with the daemon, everything on
	@$(PY) scripts/dev.py

check: setup ## lint, types, import rules, the tests without Spark and one story: three minutes
	@$(MAKE) --no-print-directory -j 4 ruff types imports quick

quick: setup
	@$(PYTEST) $(QUICK)

test: lint ## lint, types, import rules, the tests: 15 to 25 minutes
	@$(PYTEST) --durations=20

test-slice: setup ## about ten minutes of the exhaustive tests, drawn by SEED (default: the commit)
	@$(PY) -m pytest -n 2 --dist loadfile -v -m exhaustive --slice=$(SEED) lakehouse_assets_tests

test-all: lint ## make test with all exhaustive tests: hours (STORIES=100: 200 random stories of machines)
	@$(PYTEST) --durations=20 -m "" --stories=$(STORIES)

lint: setup
	@$(MAKE) --no-print-directory -j 3 --output-sync=target ruff types imports

ruff types imports: setup
ruff:
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
types:
	@$(VENV)/bin/pyright
imports:
	@$(VENV)/bin/lint-imports --no-cache

bench: setup ## the benchmarks, as a table: ratios of paired runs
	@$(PY) -m benchmarks

chaos: setup ## processes killed at every step, many writers, many histories: hours
	@$(PY) -m lakehouse_assets_tests.chaos --json chaos.json

wheel: setup ## the package as a wheel in dist/, without the example's tables
	@rm -rf build dist
	@$(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build
	@ls dist/*.whl

clean-data: ## delete data/lake, Dagster's history and the landed example; other landed files stay
	rm -rf data/lake data/stream data/dagster $(patsubst data/examples/%/,data/landing/%,$(wildcard data/examples/*/))
	@rmdir --ignore-fail-on-non-empty data/landing 2>/dev/null || true
