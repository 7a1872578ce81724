"""The fixtures that pytest finds where Duebox is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import transaction
from django.utils import timezone

import duebox
from duebox.exceptions import InvalidSubscriber
from duebox.models import Delivery
from duebox.when import every

ROOT = Path(__file__).parent.parent
MORNING = datetime(2027, 1, 1, 9, tzinfo=UTC)


@pytest.mark.django_db
def test_the_clock_stands_still_and_is_moved_by_the_test(duebox_clock):
    assert timezone.now() == duebox_clock.now
    assert abs(duebox_clock.now - datetime.now(UTC)) < timedelta(minutes=1)
    duebox_clock.to(MORNING)
    duebox.schedule("bell.rung", after=timedelta(hours=1))
    duebox_clock.run(timedelta(hours=2))
    assert timezone.now() == MORNING + timedelta(hours=2)


def test_after_a_test_with_the_clock_it_is_now_again():
    assert abs(timezone.now() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.django_db
def test_the_outbox_has_the_events_of_the_test_in_order_also_those_rolled_back(duebox_outbox):
    assert duebox_outbox == []
    fact = duebox.emit("bell.rung", {"number": 1})
    with transaction.atomic():
        duebox.emit("bell.broken")
        transaction.set_rollback(True)
    assert duebox_outbox.types == ["bell.rung", "bell.broken"]
    assert duebox_outbox[0] == fact


@pytest.mark.django_db
def test_the_outbox_asserts_what_was_stored_and_delivers_it(duebox_outbox, on):
    heard = []
    on("bell.rung", name="it")(lambda event: heard.append(event.data))
    duebox.emit("bell.rung", {"number": 1, "loud": True})
    assert duebox_outbox.assert_emitted("bell.rung", {"number": 1}, count=1).data["loud"]
    duebox_outbox.refute_emitted("bell.broken")
    with pytest.raises(AssertionError, match=r"no event 'bell.rung' with data=\{'number': 2\}"):
        duebox_outbox.assert_emitted("bell.rung", {"number": 2})
    assert duebox_outbox.drain().delivered == 1
    assert heard == [{"number": 1, "loud": True}]


@pytest.mark.django_db
def test_a_run_delivers_only_to_the_handlers_that_are_named(duebox_clock, duebox_outbox, on):
    heard = []
    for name in ("shop.greet", "shop.bill", "stock.count"):
        on("bell.rung", name=name)(lambda event, name=name: heard.append(name))
    duebox_clock.to(MORNING)
    duebox.schedule("bell.rung", repeat=every(hours=1), key="it")
    duebox_clock.run(timedelta(hours=1), only="shop.greet")
    assert (heard, duebox_outbox.types) == (["shop.greet"], ["bell.rung"])
    duebox_clock.run(timedelta(hours=1), only=["shop.b*"])
    assert heard == ["shop.greet", "shop.bill", "shop.bill"]
    assert Delivery.objects.filter(subscriber="stock.count").count() == 2
    duebox_outbox.drain(only="stock.*")
    assert heard[3:] == ["stock.count", "stock.count"]


@pytest.mark.django_db
def test_a_handler_that_does_not_exist_cannot_be_asked_for(duebox_clock, duebox_outbox, on):
    on("bell.rung", name="shop.greet")(lambda event: None)
    for ask in (
        lambda: duebox_clock.run(timedelta(hours=1), only="shop.great"),
        lambda: duebox_outbox.drain(only="x*"),
    ):
        with pytest.raises(InvalidSubscriber, match=r"No handler is named .*; there are: .*shop\.greet"):
            ask()


# Where it is installed


def run_pytest(folder, *options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO"))}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "pytest_duebox",
        *options,
        str(folder),
    ]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_project_that_has_nothing_to_do_with_django_does_not_notice_it(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it():\n    assert not {'duebox', 'django.db', 'duebox.models'} & set(sys.modules)\n"
    )
    ended = run_pytest(tmp_path, "-p", "no:django")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_its_fixtures_are_listed_with_what_they_are_for(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    listed = run_pytest(tmp_path, "--fixtures", "-p", "no:django").stdout
    assert "duebox_clock" in listed
    assert "duebox_outbox" in listed


def test_the_entry_point_and_the_wheel_name_the_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"pytest_duebox": "pytest_duebox"}
    assert "src/pytest_duebox.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
