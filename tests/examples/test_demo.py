"""The demo, run for real: its own PostgreSQL, web servers, workers and HTTP traffic."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CATALOGUE = (
    "organization.created", "organization.billing_updated", "member.invited", "member.joined", "member.removed",
    "member.role_changed", "subscription.activated", "subscription.updated", "subscription.canceled",
    "user.phone_changed",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@contextmanager
def demo(folder: Path, seconds: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = ["examples.clinic.demo", "--terminal", "--seconds", str(seconds), "--folder", str(folder), *options]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", *command],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=120)


def until(process: subprocess.Popen[str], word: str) -> str:
    """Reads the demo's output up to the first line that holds the word."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if word in line:
            return "".join(seen)
    raise AssertionError(f"{word!r} was not shown:\n{''.join(seen)}")


def child(process: subprocess.Popen[str], command: str) -> psutil.Process:
    return next(each for each in psutil.Process(process.pid).children() if command in each.cmdline())


def forget_the_first_delivery(folder: Path) -> None:
    socket_folder = (folder / "postgres" / "postmaster.pid").read_text().splitlines()[4]
    with psycopg.connect(host=socket_folder, user="postgres", dbname="demo") as connection:
        connection.execute("DELETE FROM duebox_attempt WHERE id = (SELECT min(id) FROM duebox_attempt)")


def came(output: str, what: str) -> list[tuple[str, str, str]]:
    """Zone, UTC and text of each line of the time lapse that tells of such a moment."""
    moments, _ = output.split("\nto come for")
    time = r"\d\d \w{3} \d\d:\d\d"
    return re.findall(rf"^\w{{3}} {time}  (\S+) +({time}) +[\d.,]+ ms  {what} +(.+)$", moments, re.MULTILINE)


def counted(output: str, name: str) -> int:
    return int(re.search(rf"^  {name} +([\d,]+)", output, re.MULTILINE)[1].replace(",", ""))


@pytest.mark.soak
def test_a_short_demo_shows_both_acts_and_loses_nothing(folder):
    with demo(folder, 15) as process:
        output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    the_time_lapse_brings_every_moment_once(output)
    the_time_lapse_passes_clock_changes(output)
    a_moved_appointment_is_reminded_of_at_its_new_time_only(output)
    a_cancelled_appointment_is_not_reminded_of(output)
    a_birthday_follows_whoever_moves_to_another_zone(output)
    the_present_shows_everything_and_loses_nothing(output)


def the_present_shows_everything_and_loses_nothing(output):
    for shown in (
        "failed, again in",
        "delivered, attempt 2",
        "snoozed until",
        "delivered, after its snooze",
        "DEAD LETTER: Permanent: no contract with KPT-1",
        "retried by",
        "delivered, after its redrive",
        "↳ invoice.issued",
        *(f"  {name} " for name in CATALOGUE),
        "↳ public.member.invited",
        "handlers see v2",
        "partners",
        "double click on 'book'",
        "its 3 events rolled back",
        "follow_up",
        "workflow.intake",
        "rule.visit_fee",
        "mail.welcome",
        "sms.reminder",
        "Nothing lost, nothing twice, nothing from a rolled-back request",
    ):
        assert shown in output, output
    assert counted(output, "lost") == 0
    assert counted(output, "events") > 10
    assert counted(output, "public") > 10
    assert "\033[" not in output


def the_time_lapse_brings_every_moment_once(output):
    assert "Every moment came once, on the clock of whoever it was for; nothing due is left." in output
    assert counted(output, "still due") == 0
    assert counted(output, "sent") >= counted(output, "agreed") > 15
    assert len({zone for zone, _, _ in came(output, "reminder")}) >= 3
    assert len({zone for zone, _, _ in came(output, "birthday")}) >= 3
    for what in ("review", "due soon", "follow up"):
        assert came(output, what), output


def the_time_lapse_passes_clock_changes(output):
    assert "clocks go from 02:00 to 03:00" in output
    assert "clocks go from 03:00 to 02:00" in output
    marked = [moment for moment in came(output, "reminder") if "←" in moment[2]]
    assert [(zone, utc) for zone, utc, _ in marked] == [
        ("Europe/Berlin", "29 Mar 01:30"),
        ("Australia/Sydney", "04 Apr 15:30"),
    ]
    assert "02:30 does not exist that day" in marked[0][2]
    assert "02:30 comes twice that day" in marked[1][2]
    assert "29 Feb does not exist that year" in output


def a_moved_appointment_is_reminded_of_at_its_new_time_only(output):
    assert "Grace moves the appointment: Dr. Okafor, Thu 02 Apr 15:00 Africa/Lagos" in output
    reminders = [utc for _, utc, text in came(output, "reminder") if text.startswith("Grace")]
    assert sorted(reminders) == ["01 Apr 14:00", "02 Apr 12:00", "02 Apr 13:45"]


def a_cancelled_appointment_is_not_reminded_of(output):
    assert "Farid cancels Dr. Lindqvist" in output
    assert [text for _, _, text in came(output, "reminder") if text.startswith("Farid")] == []


def a_birthday_follows_whoever_moves_to_another_zone(output):
    assert "Luís moves from America/Sao_Paulo to Europe/Lisbon" in output
    birthdays = [(zone, utc) for zone, utc, text in came(output, "birthday") if text.startswith("Luís")]
    assert birthdays == [("Europe/Lisbon", "03 Apr 08:00")]


@pytest.mark.soak
def test_a_signal_ends_the_time_lapse_in_order(folder):
    with demo(folder, 0) as process:
        until(process, "reminder   Ada")
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "nothing due is left" in output
    assert "From here on" not in output
    assert [each for each in children if each.is_running()] == []


def test_a_delivery_that_never_happened_fails_the_demo_which_ends_in_order(folder):
    with demo(folder, 0, "--lapse", "0") as process:
        until(process, "mail.invitation")
        children = psutil.Process(process.pid).children(recursive=True)
        forget_the_first_delivery(folder)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert counted(output, "lost") == 1
    assert "WRONG: 1 deliveries never reached their handler" in output
    assert [each for each in children if each.is_running()] == []
    assert not (folder / "postgres" / "postmaster.pid").exists()


def test_a_worker_that_crashes_fails_the_demo_and_is_named(folder):
    with demo(folder, 0, "--lapse", "0") as process:
        until(process, "mail.invitation")
        child(process, "duebox").kill()
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "The worker ended with code -9" in output
    assert not (folder / "postgres" / "postmaster.pid").exists()
