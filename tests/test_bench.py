"""The benchmark says what it measured; here it measures next to nothing, so that it is known to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT

SMALL = "--events 500 --repeat 1 --transactions 50 --samples 5 --future 2000 --idle 0.5"


@pytest.mark.soak
def test_the_benchmark_of_the_engine_runs(tmp_path):
    result = tmp_path / "figures.json"
    words = [sys.executable, "-m", "bench", "--only", "engine", *SMALL.split(), "--out", str(result)]
    # The server of the benchmark starts in a folder of its own, and stops when nobody uses it any more.
    environment = {
        **os.environ,
        "DUEBOX_BENCH_FOLDER": str(tmp_path / "server"),
        "DJANGO_SETTINGS_MODULE": "bench.settings",
    }
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "raw SQL, one client" in done.stdout
    assert json.loads(result.read_text())["limit_events_s"] > 0
