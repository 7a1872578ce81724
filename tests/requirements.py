"""Whether the tests that `docs/requirements.md` names have passed.

As a pytest plugin it notes each test that passes, in a file named by DUEBOX_TEST_PASSED:

    DUEBOX_TEST_PASSED=.duebox/passed pytest -p tests.requirements

As a command it compares that file with the page. `.ci/run` does so after all tests have run:

    DUEBOX_TEST_PASSED=.duebox/passed python -m tests.requirements
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "requirements.md"
VARIABLE = "DUEBOX_TEST_PASSED"


class Row(NamedTuple):
    id: str
    tests: list[str]
    """As `events/test_emit.py::test_one_event`."""


def rows(page: str) -> list[Row]:
    found = re.findall(r"^\| ([A-Z]\d+) \|(.*)$", page, flags=re.MULTILINE)
    return [Row(id, ["::".join(each) for each in re.findall(r"`([\w/]+\.py)::(\w+)`", rest)]) for id, rest in found]


def problems(page: str, passed: set[str]) -> list[str]:
    """A line for each row without a test and for each test that has not passed."""
    found = []
    for row in rows(page):
        if not row.tests:
            found.append(f"{row.id}: no test is named")
        found += [f"{row.id}: {test} has not passed" for test in row.tests if test not in passed]
    return found


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = os.environ.get(VARIABLE)
    if path and report.when == "call" and report.passed and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(path, "a") as file:
            file.write(_name(report.nodeid) + "\n")


def _name(nodeid: str) -> str:
    """As the page names it: without the parameters, and without the class that the test stands in."""
    path, *_, name = nodeid.removeprefix("tests/").partition("[")[0].split("::")
    return f"{path}::{name}"


def main() -> int:
    path = Path(os.environ.get(VARIABLE, ""))
    if not path.is_file():
        print(f"{VARIABLE} names no file with the tests that have passed; run pytest -p tests.requirements with it.")
        return 2
    page = PAGE.read_text()
    found = problems(page, set(path.read_text().splitlines()))
    for line in found:
        print(line)
    tests = {test for row in rows(page) for test in row.tests}
    print(f"{len(rows(page))} requirements name {len(tests)} tests; {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
