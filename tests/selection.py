"""A pytest plugin that leaves kinds of tests out, and says how many of each.

    pytest -p tests.selection --without processes,commits,commands,properties,large

This is `make quick`: the tests that need one process, one connection and no command line. `.ci/run` uses the plugin for
further versions of Python and Django, on which a process that is killed tells nothing new.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent
FOLDERS = {"crash", "deploy", "docs", "examples", "redis", "sources"}
"""All of `processes`: not even imported, which takes as long as running some hundred tests."""
STAGES = (
    "subprocess",
    "multiprocessing",
    "selenium",
    "tests.celery_stage",
    "tests.destinations.stages",
    "tests.servers",
)
SERVERS = {"receiver", "scripted"}
"""Fixtures that are HTTP servers."""
KINDS = {
    "processes": "start processes, servers or brokers, or take long",
    "commits": "commit: workers, threads, several connections",
    "commands": "call commands as a person does (tests/cli); each call makes a parser of 60 commands",
    "properties": "try properties with many examples",
    "large": "fill tables with thousands of rows, or compute for a second",
}
_left_out: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without", default="", help=f"kinds of tests to leave out: {', '.join(KINDS)}")


def without(config: pytest.Config) -> set[str]:
    kinds = set(filter(None, config.getoption("--without").split(",")))
    if unknown := kinds - set(KINDS):
        raise pytest.UsageError(f"--without {', '.join(sorted(unknown))}: give some of {', '.join(KINDS)}")
    return kinds


def kind_of(item: Any) -> str:
    """The kind that a test belongs to; empty if it needs one process and one connection only."""
    named = vars(item.module)
    origins = [
        each.__name__ if isinstance(each, ModuleType) else getattr(each, "__module__", "") for each in named.values()
    ]
    if any(item.iter_markers("crash")) or any(item.iter_markers("soak")):
        return "processes"
    if any(isinstance(each, str) and each.startswith(STAGES) for each in origins):
        return "processes"
    if SERVERS & set(item.fixturenames):
        return "processes"
    marker = item.get_closest_marker("django_db")
    if {"transactional_db", "hire"} & set(item.fixturenames) or (marker and marker.kwargs.get("transaction")):
        return "commits"
    if item.path.is_relative_to(ROOT / "cli"):
        return "commands"
    if getattr(item.obj, "is_hypothesis_test", False) or "run_state_machine_as_test" in named:
        return "properties"
    return "large" if any(item.iter_markers("large")) else ""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    in_folder = collection_path.parent == ROOT and collection_path.name in FOLDERS
    return True if in_folder and "processes" in without(config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unwanted = without(config)
    kinds = [kind_of(item) for item in items]
    _left_out.update(kind for kind in kinds if kind in unwanted)
    config.hook.pytest_deselected(items=[item for item, kind in zip(items, kinds, strict=True) if kind in unwanted])
    items[:] = [item for item, kind in zip(items, kinds, strict=True) if kind not in unwanted]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:  # in a process of pytest-xdist
        output["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _left_out.clear()  # each process has counted all tests
    _left_out.update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if unwanted := without(config):
        terminalreporter.section("left out; `make test` runs them")
        for kind in KINDS:
            if kind in unwanted:
                terminalreporter.write_line(f"{_left_out[kind]:6,} that {KINDS[kind]}")
        if "processes" in unwanted:
            terminalreporter.write_line(f"   and all in {', '.join(sorted(FOLDERS))}")
