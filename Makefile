# Commands of the project. Each sets up what it needs: an environment in .venv, and Delta's jars in it.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
export DAGSTER_HOME := $(CURDIR)
.DEFAULT_GOAL := help
.PHONY: help setup demo dev test lint bench chaos clean-data

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## the environment alone

$(VENV)/.ready: requirements.lock pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh $(VENV)
	@touch $@

demo: setup ## the main job on real weather data, from source to gold, healing itself
	@$(PY) scripts/demo.py

dev: setup ## Dagster's UI on port 3000 of this machine, with the daemon, everything on
	@$(PY) scripts/dev.py

test: setup ## lint, types, import rules, tests
	@$(MAKE) --no-print-directory lint
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=20

lint: setup
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/pyright
	@$(VENV)/bin/lint-imports --no-cache

bench: setup ## the benchmarks, as a table: ratios of paired runs
	@$(PY) -m benchmarks

chaos: setup ## processes killed at every step, many writers, many histories: hours
	@$(PY) -m lakehouse_assets_tests.chaos --json chaos.json

clean-data: ## forget data/lake, Dagster's history and the landed example; other landed files stay
	rm -rf data/lake data/dagster $(patsubst data/examples/%/,data/landing/%,$(wildcard data/examples/*/))
	@rmdir --ignore-fail-on-non-empty data/landing 2>/dev/null || true
