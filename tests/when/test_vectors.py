"""The cases every build must satisfy, and the runner that plays them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vectors import dst
from tests.vectors.__main__ import main

FILE = Path(dst.__file__).parent / "dst.json"
CASES = json.loads(FILE.read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_case_comes_out_as_expected(case):
    assert dst.failure(case) is None


def _scenario(given, policy, expected, zone="Europe/London", steps=()):
    return {
        "id": "X", "type": "scenario", "zone": zone, "given": given, "policy": policy, "steps": list(steps),
        "expected_utc": expected,
    }  # fmt: skip


DOWN = "daily 09:00 Europe/London; no worker from 2026-03-27T08:00:00Z to 2026-03-31T12:00:00Z"
MISSED = [f"2026-03-{day}T{hour:02}:00:00Z" for day, hour in ((27, 9), (28, 9), (29, 8), (30, 8), (31, 8))]


@pytest.mark.parametrize(
    "case",
    [
        _scenario(DOWN, {"catchup": "all"}, MISSED),
        _scenario(DOWN, {"catchup": "none"}, []),
        _scenario(DOWN, {"catchup": "all", "window": "PT36H"}, MISSED[3:]),
        _scenario(
            "appointment 2026-03-10T10:00:00 local; reminders -P1D (calendar), -PT2H, -PT15M (exact)",
            {},
            ["2026-03-09T14:00:00Z", "2026-03-10T12:00:00Z", "2026-03-10T13:45:00Z"],
            zone="America/New_York",
        ),
        _scenario(
            "birthday 02-29, fire 09:00 local, subject zone Asia/Tokyo",
            {},
            ["2026-02-28T00:00:00Z"],
            steps=[{"at": "2026-02-27T00:00:00Z", "do": "fires"}],
        ),
    ],
)
def test_scenarios_in_the_same_words_can_be_played(case):
    assert dst.failure(case) is None


def test_the_runner_counts_and_names_failures(tmp_path, capsys):
    wrong = {**CASES[0], "id": "WRONG", "expected_utc": ["2000-01-01T00:00:00Z"]}
    unknown = {**CASES[0], "id": "UNKNOWN", "type": "tides"}
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([CASES[0], wrong, unknown]))
    assert main(["dst", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAILED WRONG: expected ['2000-01-01T00:00:00Z'], found ['2025-03-09T07:30:00Z']")
    assert "tides" in lines[1]
    assert lines[-1] == "1 passed, 2 failed"


def test_the_runner_is_content_with_the_file_it_ships_with(capsys):
    assert main(["dst", str(FILE)]) == 0
    assert capsys.readouterr().out == f"{len(CASES)} passed, 0 failed\n"


def test_the_runner_says_how_it_is_used(capsys):
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
