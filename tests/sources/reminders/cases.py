from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import redis
from django.conf import settings
from django.core import mail
from django.db import connection
from django.utils import timezone
from play import case, eventually, manage, raised, worker
from reminders.events import ExportDue, NotificationDue, RuleEvaluationDue, WorkflowRunDue
from reminders.models import Appointment, Result, Workflow
from reminders.plans import FollowUps, Reminders
from reminders.vet.models import Appointment as VetAppointment

import duebox
from duebox import deliveries
from duebox.context import bound
from duebox.exceptions import InvalidSchedule
from duebox.models import Attempt, Delivery, Event, Schedule, ScheduleLog
from duebox.redis.schedule_mirror import rebuild, upcoming_from_redis
from duebox.testing import assert_emitted, drain, refute_emitted, travel
from duebox.when import rrule

MONDAY = datetime(2027, 10, 25, 7, tzinfo=UTC)
"""In the week before clocks are set back in Europe."""


def seen(what: str = "") -> list[str]:
    rows = Result.objects.filter(what=what) if what else Result.objects.all()
    return list(rows.order_by("id").values_list("text", flat=True))


@case("S1", "fires at an instant, and at a wall-clock time of a zone", rolled_back=True)
def instants() -> None:
    with travel(MONDAY) as clock:
        duebox.schedule(NotificationDue(text="instant"), at=MONDAY + timedelta(hours=3, minutes=20))
        duebox.schedule(NotificationDue(text="Lima"), at=datetime(2027, 10, 25, 9), zone="America/Lima")
        clock.run(timedelta(hours=3, minutes=20))
        assert seen() == ["instant"]
        clock.run(datetime(2027, 10, 25, 13, 59, tzinfo=UTC))
        assert seen() == ["instant"]
        clock.run(timedelta(minutes=1))
        assert seen() == ["instant", "Lima"]


@case("S1", "refuses a time that is past", rolled_back=True)
def past() -> None:
    with travel(MONDAY):
        due = NotificationDue(text="too late")
        assert "no occurrence after now" in raised(
            InvalidSchedule, lambda: duebox.schedule(due, at=MONDAY - timedelta(minutes=1))
        )


@case("S2", "a weekly RRULE of ten keeps 08:45 in Madrid when clocks change, and ends", rolled_back=True)
def recurrence() -> None:
    with travel(datetime(2027, 9, 20, tzinfo=UTC)) as clock:
        rule = rrule("FREQ=WEEKLY;COUNT=10", start=datetime(2027, 9, 21, 8, 45))
        duebox.schedule(RuleEvaluationDue(rule="weekly"), repeat=rule, zone="Europe/Madrid", key="weekly")
        clock.run(timedelta(days=100))
    fired = Event.objects.filter(type="rule.evaluation_due").order_by("id").values_list("occurred_at", flat=True)
    local = [moment.astimezone(ZoneInfo("Europe/Madrid")) for moment in fired]
    assert len(local) == 10
    assert {moment.strftime("%a %H:%M") for moment in local} == {"Tue 08:45"}
    assert len({moment.utcoffset() for moment in local}) == 2
    assert Schedule.objects.get(key="weekly").status == "completed"


@case("S4", "a day, two hours and a quarter before, and a day after; each once", rolled_back=True)
def reminders() -> None:
    with travel(MONDAY) as clock:
        visit = Appointment.objects.create(title="dentist", starts_at=MONDAY + timedelta(days=3))
        clock.run(timedelta(days=5))
        assert seen("appointment.reminder_due") == [
            "dentist -P1D by email+sms", "dentist -PT2H by email+sms", "dentist -PT15M by email+sms",
        ]  # fmt: skip
        assert seen("appointment.follow_up_due") == ["dentist P1D by email+sms"]
        visit.refresh_from_db()
        assert visit.last_reminded_at == MONDAY + timedelta(days=4)


@case("S4", "leaves out what is past when it is booked", rolled_back=True)
def late_booking() -> None:
    with travel(MONDAY) as clock:
        Appointment.objects.create(title="today", starts_at=MONDAY + timedelta(minutes=50))
        clock.run(timedelta(hours=1))
        assert seen() == ["today -PT15M by email+sms"]


@case("S4", "a day before is the same time on the clock, also when the day has 25 hours", rolled_back=True)
def calendar_day() -> None:
    with travel(MONDAY):
        starts = datetime(2027, 10, 31, 10, tzinfo=ZoneInfo("Europe/Lisbon"))
        visit = Appointment.objects.create(title="Sunday", starts_at=starts)
        first, *_ = duebox.upcoming(visit)
        assert first.local == "2027-10-30T10:00"
        assert starts.astimezone(UTC) - first.at == timedelta(hours=25)


@case("S5", "moves its reminders with the appointment and with its zone, and drops them with it", rolled_back=True)
def moved() -> None:
    with travel(MONDAY) as clock:
        visit = Appointment.objects.create(title="moving", starts_at=MONDAY + timedelta(days=3))
        visit.starts_at += timedelta(hours=4)
        visit.save()
        assert [one.at for one in duebox.upcoming(visit)][1] == MONDAY + timedelta(days=3, hours=2)
        visit.zone = "Asia/Seoul"
        visit.save()
        assert {one.zone for one in duebox.upcoming(visit)} == {"Asia/Seoul"}
        visit.delete()
        clock.run(timedelta(days=5))
        assert seen() == []


@case("S6", "lists what comes by entity, by type of entity, by key and for everything", rolled_back=True)
def listing() -> None:
    with travel(MONDAY):
        near, far = (
            Appointment.objects.create(title=title, starts_at=MONDAY + timedelta(days=days))
            for title, days in (("near", 3), ("far", 120))
        )
        flow = Workflow.objects.create(name="onboarding")
        duebox.schedule(WorkflowRunDue(), about=flow, after=timedelta(days=2), key="flow")
        assert len(duebox.upcoming(near)) == 4
        assert len(duebox.upcoming(far)) == 4, "an entity has no horizon"
        assert len(duebox.upcoming(Appointment, days=7)) == 4
        assert [one.key for one in duebox.upcoming(Workflow)] == ["flow"]
        assert len(duebox.upcoming()) == 5, "everything: seven days ahead"
        assert len(duebox.upcoming(days=200)) == 9
        assert [len(each) for each in duebox.upcoming_of([near, far]).values()] == [4, 4]


@case("S6", "what somebody cancelled stays cancelled after a save, a sync and the nightly comparison", rolled_back=True)
def opted_out() -> None:
    with travel(MONDAY) as clock:
        visit = Appointment.objects.create(title="opted out", starts_at=MONDAY + timedelta(days=3))
        other = Appointment.objects.create(title="another", starts_at=MONDAY + timedelta(days=3))
        assert duebox.cancel(about=visit) == 4
        assert duebox.cancel(about=visit) == 0
        visit.title = "still out"
        visit.save()
        Reminders.sync([visit.pk])
        Reminders.reconcile()
        FollowUps.reconcile()
        visit.starts_at += timedelta(days=1)
        visit.save()
        assert duebox.upcoming(visit) == []
        clock.run(timedelta(days=6))
        assert_emitted("appointment.reminder_due", about=other, count=3)
        refute_emitted("appointment.reminder_due", about=visit)


@case("S6", "restores what was cancelled, and reschedules, pauses and resumes by entity", rolled_back=True)
def back_again() -> None:
    with travel(MONDAY):
        visit = Appointment.objects.create(title="back", starts_at=MONDAY + timedelta(days=3))
        duebox.cancel(about=visit)
        assert duebox.restore(about=visit) == 4
        flow = Workflow.objects.create(name="payroll")
        schedule = duebox.schedule(WorkflowRunDue(), about=flow, after=timedelta(days=1))
        assert duebox.reschedule(about=flow, at=MONDAY + timedelta(days=2)) == 1
        assert [one.at for one in duebox.upcoming(flow)] == [MONDAY + timedelta(days=2)]
        assert duebox.pause(about=flow) == 1
        assert duebox.upcoming(flow) == []
        assert duebox.resume(about=Workflow) == 1
        assert duebox.cancel(schedule) == 1


@case("S6", "two apps with a model of one name do not share their schedules", rolled_back=True)
def namesakes() -> None:
    with travel(MONDAY):
        starts = MONDAY + timedelta(days=3)
        human = Appointment.objects.create(pk=9001, title="human", starts_at=starts)
        dog = VetAppointment.objects.create(pk=9001, starts_at=starts)
        assert (len(duebox.upcoming(human)), len(duebox.upcoming(dog))) == (4, 1)
        assert duebox.cancel(about=human) == 4
        assert len(duebox.upcoming(dog)) == 1


@case("S9", "says scheduled, processing, failed, completed and cancelled", rolled_back=True)
def states() -> None:
    def state(key: str) -> str:
        return Schedule.objects.with_state().get(key=key).state

    with travel(MONDAY) as clock:
        for key, failures in (("fine", 0), ("hard", 1), ("hopeless", 9)):
            duebox.schedule(WorkflowRunDue(failures=failures), about=("flow", 1), after=timedelta(hours=1), key=key)
        assert [state(key) for key in ("fine", "hard", "hopeless")] == ["scheduled"] * 3
        clock.run(timedelta(hours=1), raises=False)
        assert [state(key) for key in ("fine", "hard", "hopeless")] == ["completed", "processing", "processing"]
        clock.run(timedelta(minutes=10), raises=False)
        assert [state(key) for key in ("fine", "hard", "hopeless")] == ["completed", "completed", "failed"]
        assert [row.key for row in Schedule.objects.failed()] == ["hopeless"]
        duebox.schedule(WorkflowRunDue(), after=timedelta(hours=1), key="dropped")
        duebox.cancel("dropped")
        assert state("dropped") == "cancelled"


@case("D2", "five kinds of events reach their handlers, one handler serves two kinds", rolled_back=True)
def kinds() -> None:
    with travel(MONDAY) as clock:
        Appointment.objects.create(title="kinds", starts_at=MONDAY + timedelta(minutes=20))
        for event in (WorkflowRunDue(), RuleEvaluationDue(rule="discount"), NotificationDue(text="hello")):
            duebox.schedule(event, about=("thing", 7), after=timedelta(hours=1))
        clock.run(timedelta(days=2))
    found = sorted(Result.objects.values_list("what", flat=True))
    assert found == [
        "appointment.follow_up_due", "appointment.reminder_due", "notification", "rule", "workflow",
    ]  # fmt: skip


@case("D3", "retries after 1, 2 and 4 minutes, then gives up", rolled_back=True)
def backoff() -> None:
    with travel(MONDAY) as clock:
        event = duebox.emit(WorkflowRunDue(failures=9), about=("flow", 1))
        done = clock.run(timedelta(minutes=30), raises=False)
        assert (done.retried, done.dead) == (3, 1)
    due = list(Attempt.objects.filter(event_id=event.id).order_by("number").values_list("due_at", flat=True))
    assert [late - early for early, late in pairwise(due)] == [timedelta(minutes=minutes) for minutes in (1, 2, 4)]


@case("D3", "succeeds at the third attempt, and gives up at once where no retry helps", rolled_back=True)
def third_time() -> None:
    with travel(MONDAY) as clock:
        duebox.emit(WorkflowRunDue(failures=2), about=("flow", 3))
        duebox.emit(RuleEvaluationDue(rule="unknown"))
        done = clock.run(timedelta(minutes=3), raises=False)
        assert (done.retried, done.dead) == (2, 1)
        assert seen("workflow") == ["3 at attempt 3"]


@case("D4", "tells the administrators once for a cause, and a dead letter can be retried and parked", rolled_back=True)
def dead_letters() -> None:
    mail.outbox = []
    with travel(MONDAY):
        for _ in range(3):
            duebox.emit(RuleEvaluationDue(rule="unknown"))
        drain(raises=False)
        drain(raises=False)  # the notices are events, too
        assert len(mail.outbox) == 1, [one.subject for one in mail.outbox]
        assert "rule.evaluation_due" in mail.outbox[0].subject + mail.outbox[0].body
        [group] = deliveries.groups(state="dead")
        assert group.count == 3
        assert len(deliveries.retry(handler="evaluate", limit=1).ids) == 1
        assert len(deliveries.park(handler="evaluate", note="ask the rules team").ids) == 2
        assert drain(raises=False).dead == 1


@case("O2", "the history has when it was due, when it ran, how often, and the error", rolled_back=True)
def history() -> None:
    with travel(MONDAY) as clock:
        event = duebox.emit(WorkflowRunDue(failures=1), about=("flow", 4))
        clock.run(timedelta(minutes=2), raises=False)
    first, second = Attempt.objects.filter(event_id=event.id).order_by("number")
    assert (first.number, first.outcome, second.number, second.outcome) == (1, "retried", 2, "delivered")
    assert "ConnectionError: the workflow engine does not answer" in first.note
    assert "Traceback" in first.note
    assert all((first.due_at, first.started_at, second.settled_at))


@case("O3", "a schedule and a plan remember who asked for them, and in which request", rolled_back=True)
def asked_by() -> None:
    with travel(MONDAY) as clock:
        with bound(correlation_id="booking-77", actor="42"):
            visit = Appointment.objects.create(title="by whom", starts_at=MONDAY + timedelta(days=2))
            duebox.schedule(NotificationDue(text="hello"), after=timedelta(hours=1))
        clock.run(timedelta(days=4))
        for event in (assert_emitted("notification.due"), assert_emitted("appointment.reminder_due", about=visit)):
            assert event.correlation_id == "booking-77", event.correlation_id
            assert "42" in str(event.actor), event.actor


@case("S1", "a worker fires it within half a second of its time, and a removed one never")
def in_real_time() -> None:
    with worker():
        asked = timezone.now()
        duebox.schedule(NotificationDue(text="soon"), after=timedelta(seconds=2), key="soon")
        duebox.schedule(NotificationDue(text="never"), after=timedelta(seconds=2), key="never")
        duebox.cancel("never")
        row = eventually(lambda: Result.objects.filter(text="soon").first())
        late = row.at - asked - timedelta(seconds=2)
        assert timedelta() <= late < timedelta(seconds=2), late
        event = Event.objects.get(type="notification.due", data__text="soon")
        assert event.occurred_at - asked - timedelta(seconds=2) < timedelta(seconds=1)
        assert not Result.objects.filter(text="never").exists()


@case("D3", "a handler that hangs is cut off by its timeout and rolled back; its error is in the terminal")
def hanging() -> None:
    with worker() as one:
        event = duebox.emit(ExportDue(seconds=30))
        eventually(lambda: Delivery.objects.dead().exists(), 15)
        eventually(lambda: "Timeout" in one.said() and "WARNING" in one.said())
    assert not Result.objects.filter(what="export").exists()
    [dead] = deliveries.find(state="dead")
    assert (str(dead.event_id), dead.subscriber) == (str(event.id), "export"), dead
    deliveries.discard([dead.id], reason="seen")


@case("S2", "a function under @duebox.periodic runs by itself, and is listed")
def periodic() -> None:
    Result.objects.filter(what="pulse").delete()
    with worker():
        eventually(lambda: Result.objects.filter(what="pulse").count() >= 3, 15)
    assert "pulse" in manage("duebox", "schedules", "list")


@case("O10", "Redis mirrors what comes, forgets what is cancelled, and may lose everything")
def redis_tier() -> None:
    client = redis.Redis.from_url(settings.DUEBOX["REDIS_URL"])
    name = connection.settings_dict["NAME"]

    def mirrored() -> list[str]:
        return [one.key for one in upcoming_from_redis(within=timedelta(minutes=5)) if one.key.startswith("in-")]

    with worker():
        duebox.schedule(NotificationDue(text="a"), after=timedelta(minutes=4), key="in-4")
        duebox.schedule(NotificationDue(text="b"), after=timedelta(minutes=3), key="in-3")
        duebox.schedule(NotificationDue(text="c"), after=timedelta(minutes=30), key="in-30")
        eventually(lambda: mirrored() == ["in-3", "in-4"])
        duebox.cancel("in-3")
        eventually(lambda: mirrored() == ["in-4"])
        client.delete(*client.keys(f"duebox:{name}:*"))
        eventually(lambda: mirrored() == ["in-4"])
    assert rebuild() >= 2
    duebox.cancel("in-4")
    duebox.cancel("in-30")
    client.delete(*client.keys(f"duebox:{name}:*"))


@case("S9", "the commands list schedules, preview them, and say what is wrong")
def commands() -> None:
    duebox.schedule(NotificationDue(text="d"), at=timezone.now() + timedelta(days=2), zone="Asia/Seoul", key="listed")
    assert "listed" in manage("duebox", "schedules", "list")
    shown = manage("duebox", "preview")
    assert "notification.due" in shown
    assert "duebox." not in shown, "what Duebox schedules for itself is left out"
    manage("duebox", "schedules", "cancel", "listed")
    assert Schedule.objects.get(key="listed").status == "cancelled"
    assert ScheduleLog.objects.filter(source="listed", what="cancelled").exists()
    assert not Delivery.objects.exclude(subscriber="pulse").exists()
