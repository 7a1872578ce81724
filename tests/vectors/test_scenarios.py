"""Scenarios in the words of the file of cases, in more combinations than it holds."""

from __future__ import annotations

import pytest

from tests.vectors import dst


def scenario(given, expected, *, zone="Europe/London", steps=(), **policy):
    return {
        "id": given, "type": "scenario", "zone": zone, "given": given, "policy": policy,
        "steps": [{"at": at, "do": do} for at, do in steps], "expected_utc": expected,
    }  # fmt: skip


DOWN = "no worker from 2026-03-27T08:00:00Z to 2026-03-31T12:00:00Z"
NINES = [f"2026-03-{day}T{hour:02}:00:00Z" for day, hour in ((27, 9), (28, 9), (29, 8), (30, 8), (31, 8))]
REMINDERS = "appointment 2026-03-10T10:00:00 local; reminders -P1D (calendar), -PT2H, -PT15M (exact)"
A_DAY, TWO_HOURS, A_QUARTER = "2026-03-09T14:00:00Z", "2026-03-10T12:00:00Z", "2026-03-10T13:45:00Z"
BORN = "birthday 11-20, fire 09:00 local, subject zone"


@pytest.mark.parametrize(
    "case",
    [
        scenario(f"daily 09:00 Europe/London; {DOWN}", NINES, catchup="all"),
        scenario(f"daily 09:00 Europe/London; {DOWN}", [], catchup="none"),
        scenario(f"daily 09:00 Europe/London; {DOWN}", NINES[4:], catchup="latest"),
        scenario(f"daily 09:00 Europe/London; {DOWN}", NINES[3:], catchup="all", catchup_window="PT36H"),
        scenario(f"daily 09:00 Europe/London; {DOWN}", NINES[2:], catchup="all", max=3),
        scenario(f"daily 09:00 Europe/London; {DOWN}", [], catchup="latest", window="PT1H"),
        scenario(f"cron 0 9 * * * Europe/London; {DOWN}", NINES, catchup="all"),
        scenario(f"rrule FREQ=DAILY;BYHOUR=9; {DOWN}", NINES, catchup="all"),
        scenario(f"weekly sun 01:30 Europe/London; {DOWN}", ["2026-03-29T01:30:00Z"], catchup="all"),
        scenario(f"once 2026-03-28T09:00:00 Europe/London; {DOWN}", NINES[1:2]),
        scenario(f"once 2026-03-28T09:00:00 Europe/London; {DOWN}", [], catchup="none"),
        scenario(f"every 24 hours; {DOWN}", [f"2026-03-{day}T00:00:00Z" for day in (28, 29, 30, 31)], catchup="all"),
        scenario(
            "daily 09:00 Europe/London; paused 2026-03-27T08:00:00Z, resumed 2026-03-28T08:59:59Z",
            ["2026-03-28T09:00:00Z"],
            catchup="all",
        ),
        scenario(
            "daily 09:00 Europe/London",
            ["2026-06-10T08:00:00Z", "2026-06-11T00:00:00Z"],
            steps=[("2026-06-10T20:00:00Z", "zone=Asia/Tokyo")],
        ),
        scenario(
            "daily 09:00 Asia/Tokyo",
            ["2026-06-10T00:00:00Z", "2026-06-11T08:00:00Z"],
            zone="Asia/Tokyo",
            steps=[("2026-06-10T02:00:00Z", "zone=Europe/London")],
        ),
        scenario(
            "daily 09:00 Europe/London",
            ["2026-06-10T08:00:00Z"],
            steps=[("2026-06-10T20:00:00Z", "cancel")],
        ),
    ],
    ids=lambda case: case["given"],
)
def test_recurring(case):
    assert dst.failure(case) is None


@pytest.mark.parametrize(
    "case",
    [
        scenario(REMINDERS, [A_DAY, TWO_HOURS, A_QUARTER], zone="America/New_York"),
        scenario(
            REMINDERS.replace("local;", "local created at 2026-03-10T12:30:00Z;"),
            ["2026-03-10T12:30:00Z", "2026-03-10T12:30:00Z", A_QUARTER],
            zone="America/New_York",
            late_at_creation="fire_now",
        ),
        scenario(
            REMINDERS,
            [A_DAY, TWO_HOURS, A_QUARTER],
            zone="America/New_York",
            steps=[
                ("2026-03-08T00:00:00Z", "move to 2026-03-20T10:00:00 local"),
                ("2026-03-08T01:00:00Z", "move to 2026-03-10T10:00:00 local"),
            ],
        ),
        scenario(
            REMINDERS,
            ["2026-03-09T10:00:00Z", "2026-03-10T08:00:00Z", "2026-03-10T09:45:00Z"],
            zone="America/New_York",
            steps=[("2026-03-09T08:00:00Z", "zone=Europe/London")],
        ),
        scenario(f"{REMINDERS}; no worker from 2026-03-09T13:00:00Z to 2026-03-10T12:30:00Z",
                 [A_DAY, TWO_HOURS, A_QUARTER], zone="America/New_York"),
        scenario(f"{REMINDERS}; no worker from 2026-03-10T11:00:00Z to 2026-03-10T14:30:00Z",
                 [A_DAY], zone="America/New_York"),
        scenario(
            "appointment 2026-03-10T10:00:00 local; offsets -P1D (exact), P1W",
            [A_DAY, "2026-03-17T14:00:00Z"],
            zone="America/New_York",
        ),
    ],
    ids=lambda case: case["given"] + str(case["steps"]),
)  # fmt: skip
def test_appointments(case):
    assert dst.failure(case) is None


@pytest.mark.parametrize(
    "case",
    [
        scenario(f"{BORN} Asia/Tokyo", ["2026-11-20T00:00:00Z"], zone="Asia/Tokyo"),
        scenario(
            "birthday 02-29, fire 09:00 local, subject zone Asia/Tokyo",
            ["2026-03-01T00:00:00Z"],
            steps=[("2026-02-27T00:00:00Z", "fires")],
            leap="forward",
        ),
        scenario(
            f"{BORN} America/Los_Angeles",
            ["2026-11-25T17:00:00Z"],
            steps=[("2026-11-19T20:00:00Z", "birthday=11-25")],
        ),
        scenario(
            f"{BORN} America/Los_Angeles",
            [],
            steps=[("2026-11-19T20:00:00Z", "birthday=11-18")],
        ),
        scenario(
            f"{BORN} America/Los_Angeles",
            [],
            steps=[("2026-11-20T05:00:00Z", "zone=Asia/Tokyo")],
            replan_late="fire_now",
            grace="PT4H",
        ),
        scenario(
            f"{BORN} America/Los_Angeles",
            ["2026-11-20T05:00:00Z"],
            steps=[("2026-11-20T05:00:00Z", "zone=Asia/Tokyo"), ("2026-11-20T06:00:00Z", "zone=America/Los_Angeles")],
        ),
        scenario(
            f"{BORN} Asia/Tokyo; no worker from 2026-11-18T00:00:00Z to 2026-11-22T00:00:00Z",
            ["2026-11-20T00:00:00Z"],
        ),
        scenario(
            f"{BORN} Asia/Tokyo; no worker from 2026-11-18T00:00:00Z to 2026-11-22T00:00:00Z",
            [],
            window="PT24H",
        ),
        scenario(f"{BORN} Asia/Tokyo; paused 2026-11-18T00:00:00Z, resumed 2026-11-22T00:00:00Z", [], catchup="all"),
    ],
    ids=lambda case: case["given"] + str(case["steps"]),
)
def test_birthdays(case):
    assert dst.failure(case) is None


@pytest.mark.parametrize(
    "given",
    ["daily 09:00 Europe/London; the worker dreams", "appointment tomorrow", "birthday soon", "every blue moon"],
)
def test_what_cannot_be_read_is_a_failure_that_says_so(given):
    assert dst.failure(scenario(given, [])) is not None


def test_a_wrong_expectation_is_a_failure():
    assert "found ['2026-11-20T00:00:00Z']" in dst.failure(scenario(f"{BORN} Asia/Tokyo", []))
