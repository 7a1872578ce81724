from __future__ import annotations

import os
import subprocess
import sys

from tests import requirements
from tests.docs.pages import ROOT

PAGE = """
| id | Requirement | Lives in | Proven by |
|---|---|---|---|
| E1 | One | `events/emit.py` | `events/test_emit.py::test_one`, `events/test_emit.py::test_two` |
| E2 | Two | `events/emit.py` | — |
"""


def test_a_named_test_that_has_not_passed_is_a_problem():
    assert requirements.problems(PAGE, {"events/test_emit.py::test_one"}) == [
        "E1: events/test_emit.py::test_two has not passed",
        "E2: no test is named",
    ]


def test_the_plugin_notes_what_passes_and_not_what_fails(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('number', [1, 2])\ndef test_good(number): assert number\n\n"
        "class TestMore:\n    def test_better(self): pass\n\n"
        "def test_bad(): assert False\n"
    )
    passed = tmp_path / "passed"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        f"--rootdir={tmp_path}",
        "-p",
        "tests.requirements",
    ]
    options = ["-p", "no:django", "-p", "no:pytest_duebox", str(tmp_path)]
    environment = {**os.environ, requirements.VARIABLE: str(passed), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    ran = subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert passed.read_text().split() == ["test_some.py::test_good"] * 2 + ["test_some.py::test_better"]
