"""The benchmark says what it measured, and compares its ratios with those of earlier runs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import history
from bench.__main__ import check
from tests.docs.pages import ROOT

SMALL = "--events 500 --repeat 1 --transactions 50 --samples 5 --one-shots 20 --rounds 5 --future 20000 --idle 0.5"
BEFORE = {"drain": 0.8, "two_workers": 1.4, "emit": 0.9}


def not_again(ratio: str) -> dict[str, float]:
    raise AssertionError(f"{ratio} was measured again")


def test_a_ratio_that_has_fallen_by_less_than_a_quarter_is_no_news():
    assert history.compare({**BEFORE, "drain": 0.61}, BEFORE, not_again) == ([], [])


def test_a_ratio_that_has_fallen_by_a_quarter_is_a_warning():
    warned, failed = history.compare({**BEFORE, "drain": 0.59}, BEFORE, not_again)
    assert warned == ["drain was 0.800 and is 0.590"]
    assert failed == []


def test_a_ratio_that_has_risen_is_no_news():
    assert history.compare({**BEFORE, "drain": 2.0}, BEFORE, not_again) == ([], [])


def test_a_ratio_that_only_one_of_the_two_runs_knows_is_not_compared():
    assert history.compare({"drain": 0.8, "new": 0.1}, BEFORE, not_again) == ([], [])


def test_a_ratio_that_has_fallen_by_half_is_measured_three_times_and_the_median_fails():
    asked = []

    def again(ratio: str) -> dict[str, float]:
        asked.append(ratio)
        return {"drain": 0.39 if len(asked) == 1 else 0.9, "two_workers": 1.4}

    warned, failed = history.compare({**BEFORE, "drain": 0.3}, BEFORE, again)
    assert asked == ["drain", "drain"]
    assert failed == ["drain was 0.800 and is 0.390"]
    assert warned == []


def test_one_bad_run_of_three_does_not_fail():
    assert history.compare({**BEFORE, "drain": 0.1}, BEFORE, lambda ratio: {"drain": 0.8}) == ([], [])


def test_without_a_history_there_is_nothing_to_compare_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert check(BEFORE, argparse.Namespace(history=tmp_path / "history.jsonl"))
    assert "no line in the history yet" in capsys.readouterr().out


@pytest.mark.soak
def test_the_hot_paths_are_measured_beside_their_references_and_compared(tmp_path: Path):
    result, earlier = tmp_path / "figures.json", tmp_path / "history.jsonl"
    history.append({"commit": "0123456789ab", "ratios": {"emit": 1e9}}, earlier)
    done = bench(tmp_path, "--check", "--out", str(result), "--history", str(earlier))
    assert done.returncode == 1, done.stderr
    assert "since 0123456789ab, median of three: emit was" in done.stdout
    found = json.loads(result.read_text())
    assert {"commit", "date", "machine", "ratios"} <= set(found)
    assert found["drain_two_workers_events_s"] > 0
    names = {"drain", "drain_two_workers", "two_workers", "emit", "latency", "lateness", "claim", "fire"}
    assert set(found["ratios"]) == names


@pytest.mark.soak
def test_the_rest_of_the_engine_is_measured(tmp_path: Path):
    result = tmp_path / "figures.json"
    done = bench(tmp_path, "--only", "engine", "--out", str(result))
    assert done.returncode == 0, done.stderr
    assert "drain, atomic handler" in done.stdout
    assert json.loads(result.read_text())["drain_atomic_events_s"] > 0


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # The server of the benchmark starts in a folder of its own, and stops when nobody uses it any more.
    environment = {
        **os.environ,
        "DUEBOX_BENCH_FOLDER": str(folder / "server"),
        "DJANGO_SETTINGS_MODULE": "bench.settings",
    }
    command = [sys.executable, "-m", "bench", *SMALL.split(), *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
