"""What somebody cancelled stays cancelled, whatever is saved or reconciled, until it is asked for again."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

import duebox
from duebox.context import bound
from duebox.exceptions import InvalidEvent, InvalidPlan, InvalidSchedule
from duebox.models import RowChange, Schedule, ScheduleLog
from duebox.schedules import plans
from duebox.testing import drain
from duebox.when import Timetable, daily, days, hours
from tests.app.people import Appointment, Person
from tests.app.planned import SUNDAY, Birthdays, Reminders, declare, fired, live, mark, revisions, statuses, utc
from tests.support import undone

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forget_plans")]

ALL = {"-P1D", "-PT2H", "-PT15M", "PT24H"}
A_WEEK = timedelta(days=7)


def key_of(row, by):
    return next(each.key for each in Schedule.objects.filter(aggregate_id=str(row.pk)) if mark(each.key) == by)


def opt_outs():
    return {mark(each.key): each.opt_out for each in Schedule.objects.all()}


def told(what):
    return sorted(mark(line.source) for line in ScheduleLog.objects.filter(what=what))


# It stays cancelled


@pytest.mark.parametrize(
    "happens",
    [
        lambda row, plan: row.save(),
        lambda row, plan: row.person.save(),
        lambda row, plan: plan.sync(Appointment.objects.all()),
        lambda row, plan: plan.sync([row.pk]),
        lambda row, plan: plan.reconcile(),
    ],
    ids=["a save", "a save of what it follows", "a sync of a queryset", "a sync of keys", "a reconcile"],
)
def test_what_was_cancelled_with_its_entity_stays_cancelled_after(ann, trip, happens):
    plan = declare(Reminders, follows={Person: "person"})
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    assert duebox.cancel(about=booked) == 4
    happens(booked, plan)
    assert live(booked) == {}
    assert set(statuses().values()) == {"cancelled"}
    assert set(opt_outs().values()) == {"entity"}
    trip.run(timedelta(days=60))
    assert fired() == []


def test_of_another_entity_nothing_is_cancelled(booked, ann, reminders):
    other = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    duebox.cancel(about=booked)
    reminders.reconcile()
    assert set(live(other)) == ALL


def test_what_was_cancelled_by_its_key_stays_cancelled_and_the_others_follow_their_row(booked, reminders):
    assert duebox.cancel(key_of(booked, "-PT2H")) == 1
    booked.starts_at += A_WEEK
    booked.save()
    reminders.reconcile()
    assert live(booked) == {
        "-P1D": utc("2026-04-04 09:00"), "-PT15M": utc("2026-04-05 08:45"), "PT24H": utc("2026-04-06 09:00"),
    }  # fmt: skip
    assert opt_outs() == {"-P1D": "", "-PT2H": "key", "-PT15M": "", "PT24H": ""}


def test_a_birthday_that_was_cancelled_stays_so_in_every_year_zone_and_correction(birthdays, trip):
    ann = Person.objects.create()
    assert duebox.cancel(about=ann) == 1
    ann.zone, ann.born_on = "Asia/Tokyo", date(1990, 7, 1)
    ann.save()
    trip.run(timedelta(days=800))
    birthdays.reconcile()
    assert (fired(), live(ann)) == ([], {})


def test_what_the_plan_itself_takes_back_comes_back_with_its_condition(booked, reminders):
    booked.status = "cancelled"
    booked.save()
    assert set(statuses().values()) == {"cancelled"}
    assert set(opt_outs().values()) == {""}
    booked.status = "booked"
    booked.save()
    assert set(live(booked)) == ALL


def test_what_somebody_cancelled_does_not_come_back_with_the_condition_of_the_plan(booked, reminders):
    duebox.cancel(about=booked)
    for booked.status in ("cancelled", "booked"):
        booked.save()
    assert live(booked) == {}


def test_what_the_plan_took_back_can_be_cancelled_for_good_with_its_entity(booked, reminders):
    booked.status = "cancelled"
    booked.save()
    assert duebox.cancel(about=booked) == 0  # nothing was live
    booked.status = "booked"
    booked.save()
    assert live(booked) == {}


def test_a_rolled_back_cancellation_is_none(booked):
    with undone():
        duebox.cancel(about=booked)
    booked.save()
    assert set(live(booked)) == ALL


# Moves


def test_a_moved_anchor_brings_nothing_back(booked, reminders, trip):
    duebox.cancel(about=booked)
    booked.starts_at += A_WEEK
    booked.save()
    reminders.reconcile()
    assert live(booked) == {}


def test_a_moved_anchor_brings_nothing_back_of_what_had_fired_before_all_was_cancelled(booked, reminders, trip):
    trip.run(utc("2026-03-28 12:00"))
    assert [by for by, _ in fired()] == ["-P1D"]
    assert duebox.cancel(about=booked) == 3
    booked.starts_at += A_WEEK
    booked.save()
    trip.run(timedelta(days=60))
    assert [by for by, _ in fired()] == ["-P1D"]
    assert statuses()["-P1D"] == "completed"


def test_a_moved_anchor_brings_nothing_of_what_was_not_planned_when_all_was_cancelled(reminders, ann, trip):
    trip.to(SUNDAY - timedelta(hours=1))
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    assert set(live(booked)) == {"-PT15M", "PT24H"}
    assert duebox.cancel(about=booked) == 2
    booked.starts_at += A_WEEK
    booked.save()
    assert live(booked) == {}
    assert duebox.restore(about=booked) == 2
    assert set(live(booked)) == ALL


def test_a_moved_anchor_plans_what_was_not_planned_when_another_was_cancelled_by_its_key(reminders, ann, trip):
    trip.to(SUNDAY - timedelta(hours=1))
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    duebox.cancel(key_of(booked, "PT24H"))
    booked.starts_at += A_WEEK
    booked.save()
    assert set(live(booked)) == ALL - {"PT24H"}


def test_a_plan_may_take_a_moved_anchor_for_another_occurrence(ann, trip):
    plan = declare(Reminders, restore_on_move=True)
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    duebox.cancel(about=booked)
    booked.save()
    plan.reconcile()
    assert live(booked) == {}
    booked.starts_at += A_WEEK
    booked.save()
    assert live(booked)["-P1D"] == utc("2026-04-04 09:00")
    assert set(live(booked)) == ALL
    assert set(opt_outs().values()) == {""}
    assert sorted(told("restored")) == sorted(ALL)
    assert {line.note for line in ScheduleLog.objects.filter(what="restored")} == {"its anchor moved"}


def test_a_plan_that_restores_on_a_move_brings_also_back_what_had_fired_or_was_not_planned(ann, trip):
    declare(Reminders, restore_on_move=True)
    trip.to(SUNDAY - timedelta(hours=3))
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    trip.run(SUNDAY - timedelta(hours=1))
    assert [by for by, _ in fired()] == ["-PT2H"]
    duebox.cancel(about=booked)
    booked.starts_at += A_WEEK
    booked.save()
    assert set(live(booked)) == ALL


def test_a_plan_that_restores_on_a_move_does_so_for_what_was_cancelled_by_its_key(ann, trip):
    declare(Reminders, restore_on_move=True)
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    duebox.cancel(key_of(booked, "-PT2H"))
    booked.save()
    assert set(live(booked)) == ALL - {"-PT2H"}
    booked.starts_at += A_WEEK
    booked.save()
    assert set(live(booked)) == ALL


def test_another_zone_alone_moves_no_anchor(ann, trip):
    declare(Reminders, restore_on_move=True, follows={Person: "person"})
    booked = Appointment.objects.create(person=ann, local_start="2026-03-29T10:00")
    duebox.cancel(about=booked)
    ann.zone = "Asia/Tokyo"
    ann.save()
    assert live(booked) == {}


def test_a_move_into_the_past_there_and_back_is_the_occurrence_that_was_not_cancelled_any_more(ann, trip):
    declare(Reminders, restore_on_move=True)
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    duebox.cancel(about=booked)
    for booked.starts_at in (SUNDAY - timedelta(days=300), SUNDAY):
        booked.save()
    assert set(live(booked)) == ALL


def test_a_plan_with_a_rule_has_no_anchor_that_moves():
    with pytest.raises(InvalidPlan, match=r"Birthdays has a rule, which has no anchor that moves; take restore_on"):
        declare(Birthdays, restore_on_move=True)


# Asked for again


def test_restored_schedules_are_planned_from_now_and_say_so(booked, trip):
    duebox.cancel(about=booked)
    trip.run(SUNDAY - timedelta(hours=1))
    assert duebox.restore(about=booked) == 2  # what was due meanwhile does not fire any more
    assert live(booked) == {"-PT15M": utc("2026-03-29 08:45"), "PT24H": utc("2026-03-30 09:00")}
    lines = {mark(line.source): line for line in ScheduleLog.objects.filter(what="restored")}
    assert lines["-PT15M"].due_after == utc("2026-03-29 08:45")
    assert (lines["-P1D"].due_after, lines["-PT15M"].aggregate_id) == (None, str(booked.pk))
    trip.run(timedelta(days=60))
    assert fired() == [("-PT15M", utc("2026-03-29 08:45")), ("PT24H", utc("2026-03-30 09:00"))]


def test_what_was_not_cancelled_is_not_restored(booked):
    before = revisions()
    assert duebox.restore(about=booked) == 0
    assert duebox.restore(key_of(booked, "-P1D")) == 0
    assert duebox.restore("unknown") == 0
    assert (revisions(), told("restored")) == (before, [])
    duebox.cancel(about=booked)
    assert (duebox.restore(about=booked), duebox.restore(about=booked)) == (4, 0)


def test_one_of_those_that_were_cancelled_is_restored_by_its_key_and_from_then_on_follows_its_row(booked, trip):
    duebox.cancel(about=booked)
    assert duebox.restore(key_of(booked, "-PT2H")) == 1
    booked.starts_at += A_WEEK
    booked.save()
    assert live(booked) == {"-PT2H": utc("2026-04-05 07:00")}
    trip.run(utc("2026-04-05 08:00"))
    booked.starts_at += A_WEEK
    booked.save()
    assert live(booked) == {"-PT2H": utc("2026-04-12 07:00")}


def test_what_is_restored_follows_the_row_as_it_is_now(booked, ann, trip):
    duebox.cancel(about=booked)
    booked.starts_at = utc("2026-05-01 12:00")
    booked.save()
    assert duebox.restore(about=booked) == 4
    assert live(booked)["-PT2H"] == utc("2026-05-01 10:00")


def test_what_is_restored_is_planned_when_the_plan_wants_it(booked, trip):
    duebox.cancel(about=booked)
    booked.status = "cancelled"
    booked.save()
    assert duebox.restore(about=booked) == 0
    booked.status = "booked"
    booked.save()
    assert set(live(booked)) == ALL


def test_nothing_is_restored_for_a_row_that_is_gone(booked, trip):
    duebox.cancel(about=booked)
    pk = booked.pk
    booked.delete()
    booked.pk = pk
    assert duebox.restore(about=booked) == 0
    assert live() == {}


def test_what_fired_is_not_fired_again_by_a_restoration(booked, trip):
    trip.run(utc("2026-03-28 12:00"))
    duebox.cancel(about=booked)
    assert duebox.restore(about=booked) == 3
    trip.run(timedelta(days=60))
    assert sorted(by for by, _ in fired()) == sorted(ALL)


def test_a_rolled_back_restoration_is_none(booked):
    duebox.cancel(about=booked)
    with undone():
        assert duebox.restore(about=booked) == 4
    assert live(booked) == {}
    assert told("restored") == []


def test_one_restoration_covers_the_schedules_of_several_plans_and_of_none(ann, trip):
    declare(Reminders, offsets=(hours(-2),))
    declare(Reminders, name="more", offsets=(days(-3),))
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    duebox.schedule("room.aired", repeat=daily("09:00"), about=booked, key="airing")
    assert duebox.cancel(about=booked) == 3
    assert duebox.restore(about=booked) == 3
    assert Schedule.objects.scheduled().count() == 3


def test_a_plan_that_is_not_declared_any_more_is_restored_by_what_is_stored(booked, trip):
    duebox.cancel(about=booked)
    plans.remove("app.Reminders")
    assert duebox.restore(about=booked) == 4
    assert live(booked)["-P1D"] == utc("2026-03-28 10:00")


def test_a_schedule_of_its_own_is_restored_by_its_rule(trip):
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("09:00"), zone="UTC", remaining=3), key="it")
    trip.run(utc("2026-03-01 12:00"))
    duebox.cancel("it")
    trip.run(utc("2026-03-04 12:00"))
    assert duebox.restore("it") == 1
    row = Schedule.objects.get()
    assert (row.status, row.due_at, row.remaining) == ("scheduled", utc("2026-03-05 09:00"), 2)
    assert (row.opt_out, told("restored")) == ("", [""])


def test_a_single_time_that_is_past_is_not_restored(trip):
    duebox.schedule("bell.rung", at=utc("2026-03-01 09:00"), key="it")
    duebox.cancel("it")
    trip.run(timedelta(days=1))
    assert duebox.restore("it") == 0
    assert (Schedule.objects.get().status, told("restored")) == ("cancelled", [])


def test_scheduling_again_under_the_same_key_is_asking_again(trip):
    duebox.schedule("bell.rung", at=utc("2026-03-02 09:00"), key="it")
    duebox.cancel("it")
    assert duebox.schedule("bell.rung", at=utc("2026-03-02 09:00"), key="it").opt_out == ""
    assert duebox.restore("it") == 0


# A row that is gone


def _deleted(row, plan):
    row.delete()


def _deleted_by_queryset(row, plan):
    Appointment.objects.filter(pk=row.pk).delete()


def _deleted_behind_signals(row, plan):
    Appointment.objects.filter(pk=row.pk)._raw_delete("default")
    plan.sync([row.pk])


def _found_gone_by_reconcile(row, plan):
    Appointment.objects.filter(pk=row.pk)._raw_delete("default")
    RowChange.objects.all().delete()
    plan.reconcile()


@pytest.mark.parametrize("ends", [_deleted, _deleted_by_queryset, _deleted_behind_signals, _found_gone_by_reconcile])
@pytest.mark.parametrize("by", ["entity", "key"])
def test_a_new_row_with_the_key_of_a_deleted_one_gets_its_reminders(reminders, booked, ann, ends, by):
    if by == "entity":
        assert duebox.cancel(about=booked) == 4
    else:
        assert duebox.cancel(key_of(booked, "-P1D")) == 1
    pk = booked.pk
    ends(booked, reminders)
    assert set(opt_outs().values()) == {""}
    again = Appointment.objects.create(pk=pk, person=ann, starts_at=SUNDAY)
    assert set(live(again)) == ALL


def test_a_row_that_its_plan_does_not_see_any_more_is_not_gone(ann, trip):
    plan = declare(
        Reminders, queryset=lambda self: Appointment.objects.filter(status="booked").select_related("person")
    )
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    duebox.cancel(about=booked)
    booked.status = "cancelled"
    booked.save()
    plan.reconcile()
    assert set(opt_outs().values()) == {"entity"}
    booked.status = "booked"
    booked.save()
    assert live(booked) == {}


def test_a_dry_run_of_reconcile_keeps_what_was_cancelled_of_a_row_that_is_gone(reminders, booked):
    duebox.cancel(about=booked)
    Appointment.objects.filter(pk=booked.pk)._raw_delete("default")
    assert reminders.reconcile(dry_run=True).cancelled == 0
    assert set(opt_outs().values()) == {"entity"}


# Who it was


def test_the_log_says_who_cancelled_and_who_asked_again(booked):
    with bound(actor="3"):
        duebox.cancel(about=booked)
    with bound(actor="4"):
        duebox.restore(about=booked)
    duebox.cancel(about=booked)
    notes = ScheduleLog.objects.filter(source__endswith=":-P1D").order_by("id").values_list("what", "note")
    assert list(notes) == [("cancelled", "by user:3"), ("restored", "by user:4"), ("cancelled", "")]


def test_a_handler_that_cancels_does_so_for_the_actor_of_its_event(booked, on):
    on("patient.opted_out", name="it")(lambda event: duebox.cancel(about=booked) and None)
    duebox.emit("patient.opted_out", actor="5")
    drain()
    assert {line.note for line in ScheduleLog.objects.filter(what="cancelled")} == {"by user:5"}


# All of a type, and the schedule itself


def test_everything_about_a_type_of_entities_is_meant_by_its_model(reminders, birthdays, ann):
    first, second = (Appointment.objects.create(person=ann, starts_at=SUNDAY) for _ in range(2))
    ann.save()
    assert len(duebox.upcoming(about=Appointment)) == 8
    assert duebox.pause(about=Appointment) == 8
    assert duebox.resume(about=Appointment) == 8
    assert duebox.cancel(about=Appointment) == 8
    reminders.reconcile()
    assert (live(first), live(second)) == ({}, {})
    assert set(live(ann)) == {""}
    assert duebox.restore(about=Appointment) == 8
    assert set(live(second)) == ALL
    third = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    duebox.cancel(about=Appointment)
    assert live(third) == {}


def test_everything_about_a_type_of_entities_is_meant_by_a_pair_without_an_id(trip):
    for number in range(3):
        at = utc("2026-03-02 09:00") + timedelta(hours=number)
        duebox.schedule("step.due", at=at, about=("workflow", number), key=f"step:{number}")
    duebox.schedule("bell.rung", at=utc("2026-03-02 09:00"), about=("bell", 1), key="bell")
    about = ("workflow", None)
    assert [one.key for one in duebox.upcoming(about)] == ["step:0", "step:1", "step:2"]
    assert duebox.reschedule(about=about, zone="Asia/Tokyo") == 3
    assert duebox.pause(about=about) == 3
    assert duebox.resume(about=about) == 3
    assert duebox.cancel(about=about) == 3
    assert duebox.restore(about=about) == 3
    assert Schedule.objects.scheduled().count() == 4


@pytest.mark.parametrize("about", [(None, None), ("", None), (7, None), int, object()])
def test_what_is_no_type_of_entities_is_refused(about, trip):
    with pytest.raises(InvalidEvent, match="about is a"):
        duebox.cancel(about=about)


def test_the_schedule_that_was_returned_stands_for_its_key(trip):
    row = duebox.schedule("bell.rung", repeat=daily("09:00"), zone="UTC", key="it")
    assert duebox.reschedule(row, repeat=daily("10:00")) == 1
    assert duebox.pause(row) == 1
    assert duebox.resume(row) == 1
    assert duebox.upcoming(key=row)[0].local == "2026-03-01T10:00"
    assert duebox.cancel(row) == 1
    assert duebox.restore(row) == 1
    with pytest.raises(InvalidSchedule, match="is a schedule, not an entity; pass it as the key"):
        duebox.cancel(about=row)


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_is_restored_by_its_alias(trip):
    duebox.schedule("bell.rung", at=utc("2026-03-02 09:00"), key="it", using="other")
    duebox.cancel("it", using="other")
    assert duebox.restore("it") == 0
    assert duebox.restore("it", using="other") == 1
    assert ScheduleLog.objects.using("other").filter(what="restored").count() == 1
