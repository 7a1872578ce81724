"""The mail about dead letters: one an hour for each cause."""

from __future__ import annotations

from datetime import timedelta

import django
import pytest
from django.core.checks import run_checks
from django.utils import timezone

import duebox
from duebox.dead_letters.mail import NAME
from duebox.models import Attempt, DeadMail, Delivery, Event
from duebox.store import operations
from duebox.testing import drain
from duebox.worker.drain import drain as work
from tests.app import tasks as ours

pytestmark = [
    pytest.mark.django_db,
    # pytest-django keeps the mails of a test by a setting that newer Djangos have another one for.
    pytest.mark.filterwarnings("ignore:The EMAIL_BACKEND setting is deprecated"),
    pytest.mark.filterwarnings("ignore:Django 2028 will not have a default mailer"),
]


@pytest.fixture
def mortal(on):
    @on("life.began", name="mortal")
    def mortal(event):
        if event.data["number"] < 100:
            raise duebox.Permanent(f"number {event.data['number']} is mortal")
        raise KeyError("of another cause")

    return mortal


@pytest.fixture
def switched_on(settings):
    settings.ADMINS = ["ann@example.com"] if django.VERSION >= (6, 0) else [("Ann", "ann@example.com")]
    settings.DUEBOX = {"UNDECLARED": "allow", "DEAD_LETTER_MAIL": True}


def die(*numbers):
    for number in numbers:
        duebox.emit("life.began", {"number": number})
    drain(raises=False)


def test_by_default_no_mail_is_sent_and_no_event_stored(mortal, mailoutbox):
    die(1)
    assert mailoutbox == []
    assert not Event.objects.filter(type="duebox.delivery.dead").exists()


def test_the_administrators_are_told_what_died_and_what_to_do(mortal, switched_on, mailoutbox):
    die(1)
    row = Delivery.objects.dead().get()
    (mail,) = mailoutbox
    assert mail.to == ["ann@example.com"]
    assert mail.subject == "[Django] Dead letter: life.began to mortal"
    assert "duebox.exceptions.Permanent: number 1 is mortal" in mail.body
    assert f"manage.py duebox deliveries show {row.id}\n" in mail.body
    assert f"manage.py duebox deliveries retry --group {operations.groups('default')[0].id}\n" in mail.body


def test_what_somebody_answered_cannot_steer_a_terminal_that_shows_the_mail(on, switched_on, mailoutbox):
    @on("life.began", name="rude")
    def rude(event):
        raise duebox.Permanent("\x1b[31mred")

    die(1)
    assert "\\x1b[31mred" in mailoutbox[0].body
    assert "\x1b" not in mailoutbox[0].body


def test_a_storm_of_one_cause_is_one_mail_an_hour(mortal, switched_on, mailoutbox):
    die(*range(30))
    assert len(mailoutbox) == 1
    assert Attempt.objects.filter(subscriber=NAME, outcome="discarded").count() == 29
    DeadMail.objects.update(mailed_at=DeadMail.objects.get().mailed_at - timedelta(minutes=59))
    die(31)
    assert len(mailoutbox) == 1
    DeadMail.objects.update(mailed_at=DeadMail.objects.get().mailed_at - timedelta(minutes=1))
    die(32, 33)
    assert len(mailoutbox) == 2
    assert "Dead letters of this cause to mortal now: 33." in mailoutbox[1].body


def test_another_cause_is_another_mail(on, switched_on, mailoutbox):
    @on("life.began", name="two-fold")
    def two_fold(event):
        raise duebox.Permanent("by fire" if event.data["number"] else "by water")

    die(0, 1, 0, 1)
    assert len(mailoutbox) == 2


def test_the_same_cause_elsewhere_is_another_mail(on, switched_on, mailoutbox):
    def broken(event):
        raise duebox.Permanent("no luck")

    for name in ("one", "two"):
        on("life.began", name=name)(broken)
    die(1, 2)
    assert sorted(each.subject.rpartition(" ")[2] for each in mailoutbox) == ["one", "two"]
    assert "Dead letters of this cause to one now: 2." in "".join(each.body for each in mailoutbox)


def test_mails_of_days_ago_are_forgotten(mortal, switched_on, mailoutbox):
    long_ago = timezone.now() - timedelta(days=2)
    DeadMail.objects.create(fingerprint="old", subscriber="gone", mailed_at=long_ago)
    die(1)
    assert [each.subscriber for each in DeadMail.objects.all()] == ["mortal"]


def test_addresses_can_be_named_instead(mortal, settings, mailoutbox):
    settings.DUEBOX = {"UNDECLARED": "allow", "DEAD_LETTER_MAIL": ["ops@example.com"]}
    die(1)
    (mail,) = mailoutbox
    assert (mail.to, mail.subject) == (["ops@example.com"], "[Django] Dead letter: life.began to mortal")


def test_a_mail_that_could_not_be_sent_is_tried_again_and_counts_as_none(mortal, switched_on, settings, mailoutbox):
    settings.EMAIL_BACKEND = "tests.dead_letters.broken_mail.EmailBackend"
    die(1)
    assert not DeadMail.objects.exists()
    assert Attempt.objects.get(subscriber=NAME).outcome == "retried"


def test_what_was_stored_before_it_was_switched_off_is_discarded(mortal, switched_on, settings, mailoutbox):
    duebox.emit("life.began", {"number": 1})
    work(only=("mortal",))
    settings.DUEBOX = {"UNDECLARED": "allow"}
    drain()
    assert mailoutbox == []
    assert Attempt.objects.get(subscriber=NAME).note == "DEAD_LETTER_MAIL is off"


@pytest.mark.django_db(transaction=True)
def test_a_task_that_failed_is_mailed_too(switched_on, settings, mailoutbox):
    settings.TASKS = {"default": {"BACKEND": "duebox.tasks.backend.DueboxBackend"}}
    ours.fail.enqueue("bad")
    drain(raises=False)
    (mail,) = (each for each in mailoutbox if "Dead letter" in each.subject)  # Django 6 mails its own log line besides
    assert mail.subject == "[Django] Dead letter: duebox.task to duebox.tasks"
    assert "tests.app.tasks.fail failed: ValueError: It was 'bad'" in mail.body


@pytest.mark.django_db(databases=["default", "other"])  # the checks look at each
@pytest.mark.parametrize("wrong", ["yes", 1, None])
def test_what_is_neither_true_nor_a_list_is_a_mistake(settings, wrong):
    settings.DUEBOX = {"DEAD_LETTER_MAIL": wrong}
    assert "duebox.E001" in {each.id for each in run_checks(tags=["duebox"], databases=[])}


@pytest.mark.django_db(databases=["default", "other"])  # the checks look at each
def test_mail_to_nobody_is_a_mistake(settings):
    settings.ADMINS = []
    settings.DUEBOX = {"DEAD_LETTER_MAIL": True}
    assert any("ADMINS is empty" in each.msg for each in run_checks(tags=["duebox"], databases=[]))
