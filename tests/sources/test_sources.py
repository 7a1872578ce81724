"""All of it as a test: the wheel does what the documents ask for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sources.stage import PROJECTS
from tests.wheel import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.crash]


def test_the_use_cases_of_every_source_can_be_played_against_the_installed_wheel():
    done = subprocess.run(
        [sys.executable, "-m", "tests.sources"], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    for project in PROJECTS:
        assert f"PASS  {project}" in done.stdout, f"no case of {project} was played"
