"""Plans: the moments of a row follow the row, in the same transaction."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

import duebox
from duebox.models import Schedule, ScheduleLog
from duebox.testing import assert_emitted
from duebox.when import UnknownZone, UnresolvedTime, days, hours, minutes, zones
from tests.app.people import Appointment, Device, Emergency, Person, Room, Surgery
from tests.app.planned import (
    SUNDAY,
    Birthdays,
    Reminders,
    declare,
    fired,
    live,
    reminding,
    revisions,
    schedule_log,
    statuses,
    utc,
)
from tests.support import queries, undone

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forget_plans")]


# What is planned


def test_reminders_hang_on_an_instant(booked):
    assert live(booked) == {
        "-P1D": utc("2026-03-28 10:00"),
        "-PT2H": utc("2026-03-29 07:00"),
        "-PT15M": utc("2026-03-29 08:45"),
        "PT24H": utc("2026-03-30 09:00"),
    }


def test_reminders_hang_on_a_local_time(reminders, ann):
    booked = Appointment.objects.create(person=ann, local_start="2026-03-29T10:00")
    assert live(booked) == {
        "-P1D": utc("2026-03-28 10:00"),
        "-PT2H": utc("2026-03-29 07:00"),
        "-PT15M": utc("2026-03-29 08:45"),
        "PT24H": utc("2026-03-30 09:00"),
    }


def test_a_calendar_day_over_a_clock_change_is_not_24_hours(ann):
    reminding(days(-1), hours(-24), days(1), hours(24))
    booked = Appointment.objects.create(person=ann, local_start="2026-03-29T00:30")
    assert live(booked) == {
        "-P1D": utc("2026-03-28 00:30"),
        "-PT24H": utc("2026-03-28 00:30"),
        "P1D": utc("2026-03-29 23:30"),
        "PT24H": utc("2026-03-30 00:30"),
    }


@pytest.mark.parametrize("anchor", [{"starts_at": SUNDAY}, {"local_start": "2026-03-29T10:00"}])
def test_every_reminder_fires_once_at_its_moment_and_is_about_its_row(reminders, ann, trip, anchor):
    booked = Appointment.objects.create(person=ann, **anchor)
    trip.run(utc("2026-04-30 00:00"))
    assert fired() == [
        ("-P1D", utc("2026-03-28 10:00")),
        ("-PT2H", utc("2026-03-29 07:00")),
        ("-PT15M", utc("2026-03-29 08:45")),
        ("PT24H", utc("2026-03-30 09:00")),
    ]
    assert_emitted("appointment.reminder", about=booked, count=4)
    assert set(statuses().values()) == {"completed"}
    assert schedule_log() == []


def test_an_event_carries_what_the_plan_says_and_when_it_was_meant(trip, ann):
    declare(Birthdays, organization=lambda self, row: f"org-{row.zone}")
    ann.save()
    trip.run(timedelta(days=200))
    event = assert_emitted("person.birthday", {"name": "Ann"}, about=ann, organization="org-Europe/London", count=1)
    assert event.metadata["schedule"]["local"] == "2026-06-15T09:00"
    assert event.metadata["schedule"]["zone"] == "Europe/London"


def test_a_row_without_an_anchor_has_no_reminders(reminders, ann):
    booked = Appointment.objects.create(person=ann)
    assert Schedule.objects.count() == 0
    booked.starts_at = SUNDAY
    booked.save()
    assert len(live(booked)) == 4
    booked.starts_at = None
    booked.save()
    assert live(booked) == {}


def test_the_plan_reads_what_the_database_holds_and_not_what_the_object_says(booked):
    booked.starts_at = F("starts_at") + timedelta(days=10)
    booked.save()
    assert live(booked)["-PT2H"] == utc("2026-04-08 07:00")


def test_a_row_without_a_rule_has_no_moments(trip, ann):
    declare(Birthdays, rule=lambda self, row: None)
    ann.save()
    assert Schedule.objects.count() == 0


def test_two_plans_for_one_model_do_not_touch_each_other(reminders, ann):
    reminding(days(-7), name="invitations", when=lambda self, row: row.status != "declined")
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    assert set(live(booked)) == {"-P1D", "-PT2H", "-PT15M", "PT24H", "-P7D"}
    booked.status = "tentative"
    booked.save()
    assert set(live(booked)) == {"-P7D"}


def test_rows_with_a_uuid_have_plans_too(trip):
    plan = declare(
        Reminders,
        Device,
        offsets=(days(-1),),
        anchor=lambda self, row: row.serviced_at,
        zone=lambda self, row: "UTC",
        when=lambda self, row: True,
        queryset=lambda self: Device.objects.all(),
    )
    device = Device.objects.create(serviced_at=SUNDAY)
    assert list(live(device).values()) == [utc("2026-03-28 09:00")]
    assert plan.reconcile().unchanged == 1
    device.delete()
    assert live() == {}


# Whose clock


def test_the_clock_of_the_subject_counts(reminders, trip):
    bob = Person.objects.create(zone="America/New_York")
    booked = Appointment.objects.create(person=bob, local_start="2026-03-20T10:00")
    assert live(booked)["-P1D"] == utc("2026-03-19 14:00")


def test_the_clock_of_the_resource_counts(ann):
    reminding(days(-1), zone=lambda self, row: row.room.zone)
    booked = Appointment.objects.create(person=ann, room=Room.objects.create(), local_start="2026-03-20T10:00")
    assert live(booked)["-P1D"] == utc("2026-03-19 01:00")


def test_the_clock_of_the_project_counts_where_no_other_is_named(reminders, settings):
    settings.TIME_ZONE = "Australia/Lord_Howe"
    booked = Appointment.objects.create(local_start="2026-03-20T10:00")
    assert live(booked)["-P1D"] == utc("2026-03-18 23:00")
    assert {row.zone for row in Schedule.objects.all()} == {"Australia/Lord_Howe"}


def test_a_local_time_that_clocks_skip_follows_the_policy_of_the_plan(ann):
    reminding(minutes(0), name="shifted")
    reminding(minutes(0), name="skipped", gap="skip")
    Appointment.objects.create(person=ann, local_start="2026-03-29T01:30")
    [shifted] = Schedule.objects.all()
    assert (shifted.plan, shifted.due_at, shifted.marks) == ("shifted", utc("2026-03-29 01:30"), "gap_shifted_forward")


def test_a_flex_window_spreads_the_crowd_without_firing_early(trip):
    declare(Birthdays, flex=timedelta(hours=1))
    Person.objects.bulk_create(Person(zone="UTC") for _ in range(20))
    for person in Person.objects.all():
        person.save()
    due = [row.due_at for row in Schedule.objects.all()]
    assert len(set(due)) > 10
    assert all(utc("2026-06-15 09:00") <= each < utc("2026-06-15 10:00") for each in due)


# Moved, cancelled, deleted


def test_a_moved_appointment_has_the_reminders_of_its_new_time_and_no_others(booked, trip):
    booked.starts_at = utc("2026-04-10 09:00")
    booked.save()
    assert live(booked) == {
        "-P1D": utc("2026-04-09 09:00"),
        "-PT2H": utc("2026-04-10 07:00"),
        "-PT15M": utc("2026-04-10 08:45"),
        "PT24H": utc("2026-04-11 09:00"),
    }
    trip.run(timedelta(days=60))
    assert [at for _, at in fired()] == [
        utc("2026-04-09 09:00"),
        utc("2026-04-10 07:00"),
        utc("2026-04-10 08:45"),
        utc("2026-04-11 09:00"),
    ]


def test_a_moved_appointment_leaves_lines_old_to_new(booked):
    booked.starts_at = utc("2026-04-10 09:00")
    booked.save()
    assert sorted(schedule_log()) == [("moved", by) for by in ("-P1D", "-PT15M", "-PT2H", "PT24H")]
    line = ScheduleLog.objects.get(source__endswith="-P1D")
    assert (line.due_before, line.due_after) == (utc("2026-03-28 10:00"), utc("2026-04-09 09:00"))
    assert (line.aggregate_type, line.aggregate_id) == ("app.appointment", str(booked.pk))


def test_reminders_that_fired_for_the_old_time_fire_again_for_a_new_time_that_asks_for_them(booked, trip):
    trip.run(utc("2026-03-28 12:00"))
    booked.starts_at = utc("2026-03-31 09:00")
    booked.save()
    trip.run(timedelta(days=30))
    assert [(by, at) for by, at in fired() if by == "-P1D"] == [
        ("-P1D", utc("2026-03-28 10:00")),
        ("-P1D", utc("2026-03-30 09:00")),
    ]


def test_reminders_that_fired_do_not_fire_again_for_a_new_time_that_is_too_near_for_them(booked, trip):
    trip.run(utc("2026-03-28 12:00"))
    booked.starts_at = SUNDAY - timedelta(hours=1)
    booked.save()
    trip.run(timedelta(days=30))
    assert [by for by, _ in fired()] == ["-P1D", "-PT2H", "-PT15M", "PT24H"]


def test_an_appointment_moved_away_and_back_has_its_first_reminders_again(booked, trip):
    first = live(booked)
    booked.starts_at = utc("2026-05-01 09:00")
    booked.save()
    booked.starts_at = SUNDAY
    booked.save()
    assert live(booked) == first
    trip.run(timedelta(days=90))
    assert [at for _, at in fired()] == sorted(first.values())


def test_moved_away_and_back_after_a_reminder_fired_does_not_repeat_it(booked, trip):
    trip.run(utc("2026-03-28 12:00"))
    booked.starts_at = utc("2026-05-01 09:00")
    booked.save()
    booked.starts_at = SUNDAY
    booked.save()
    trip.run(timedelta(days=90))
    assert [by for by, _ in fired()] == ["-P1D", "-PT2H", "-PT15M", "PT24H"]


def test_a_cancelled_appointment_reminds_of_nothing(booked, trip):
    booked.status = "cancelled"
    booked.save()
    assert live(booked) == {}
    assert sorted(schedule_log()) == [("cancelled", by) for by in ("-P1D", "-PT15M", "-PT2H", "PT24H")]
    trip.run(timedelta(days=60))
    assert fired() == []


def test_an_appointment_booked_again_reminds_again(booked, trip):
    first = live(booked)
    booked.status = "cancelled"
    booked.save()
    trip.run(utc("2026-03-28 12:00"))
    booked.status = "booked"
    booked.save()
    assert live(booked) == {by: at for by, at in first.items() if by != "-P1D"}


@pytest.mark.parametrize(
    "delete",
    [
        lambda row: row.delete(),
        lambda row: Appointment.objects.filter(pk=row.pk).delete(),
        lambda row: row.person.delete(),
        lambda row: Person.objects.all().delete(),
    ],
    ids=["row", "queryset", "its person", "all people"],
)
def test_a_deleted_appointment_reminds_of_nothing(booked, trip, delete):
    pk = booked.pk
    delete(booked)
    assert not Appointment.objects.filter(pk=pk).exists()
    assert live() == {}
    assert len(schedule_log()) == 4
    assert {line.note for line in ScheduleLog.objects.all()} == {"its row is gone"}


def test_what_is_rolled_back_has_changed_nothing(booked):
    before, first = revisions(), live(booked)
    with undone():
        booked.starts_at = utc("2026-04-10 09:00")
        booked.save()
        assert live(booked) != first
    with undone():
        Appointment.objects.get(pk=booked.pk).delete()
        assert live() == {}
    with undone():
        Appointment.objects.create(person=booked.person, starts_at=SUNDAY)
    assert (revisions(), live(), schedule_log()) == (before, first, [])


def test_saved_without_a_change_nothing_is_written(booked):
    before = revisions()
    with CaptureQueriesContext(connection) as captured:
        booked.save()
    assert revisions() == before
    save, remove_note, *reads = queries(captured)
    assert save.startswith('UPDATE "app_appointment"')
    assert "DELETE FROM duebox_row_change" in remove_note
    assert [sql.partition(" ")[0] for sql in reads] == ["SELECT", "SELECT"]  # the row, which is held; its schedules
    assert schedule_log() == []


def test_a_change_that_moves_nothing_moves_nothing(booked):
    before = revisions()
    booked.room = Room.objects.create()
    booked.save()
    assert revisions() == before


def test_changed_data_changes_the_event_and_not_the_moment(birthdays, ann, trip):
    ann.save()
    ann.name = "Anna"
    ann.save()
    assert (live(ann), schedule_log()) == ({"": utc("2026-06-15 08:00")}, [])
    trip.run(timedelta(days=200))
    assert_emitted("person.birthday", {"name": "Anna"}, count=1)


def test_what_has_fired_is_left_alone_by_later_saves(booked, trip):
    trip.run(timedelta(days=60))
    before = revisions()
    booked.room = Room.objects.create()
    booked.save()
    assert revisions() == before


def test_a_paused_reminder_stays_paused_when_its_appointment_moves_and_resumes_at_the_new_time(booked, trip):
    duebox.pause(about=booked)
    booked.starts_at = utc("2026-04-10 09:00")
    booked.save()
    assert live(booked) == {}
    trip.run(utc("2026-04-09 12:00"))
    duebox.resume(about=booked)
    assert set(live(booked)) == {"-PT2H", "-PT15M", "PT24H"}
    trip.run(timedelta(days=30))
    assert [at for _, at in fired()] == [utc("2026-04-10 07:00"), utc("2026-04-10 08:45"), utc("2026-04-11 09:00")]


def test_a_new_offset_in_the_code_reaches_rows_with_the_next_save_and_an_old_one_leaves_them(booked):
    declare(Reminders, offsets=(days(-1), hours(-4)))
    booked.save()
    assert live(booked) == {"-P1D": utc("2026-03-28 10:00"), "-PT4H": utc("2026-03-29 05:00")}


# What a row depends on


def test_saving_the_person_plans_their_appointments_anew(ann, trip):
    declare(Reminders, follows={Person: "person"})
    booked = Appointment.objects.create(person=ann, local_start="2026-03-20T10:00")
    other = Appointment.objects.create(person=Person.objects.create(), local_start="2026-03-20T10:00")
    untouched = live(other)
    ann.zone = "America/New_York"
    ann.save()
    assert live(booked)["-P1D"] == utc("2026-03-19 14:00")
    assert live(other) == untouched


def test_one_model_may_be_followed_by_several_ways(ann):
    declare(Reminders, follows={Person: ("person", "person__exact")})
    booked = Appointment.objects.create(person=ann, local_start="2026-03-20T10:00")
    ann.zone = "America/New_York"
    ann.save()
    assert live(booked)["-P1D"] == utc("2026-03-19 14:00")


def test_without_follows_the_person_is_not_asked(booked):
    booked.person.zone = "America/New_York"
    with CaptureQueriesContext(connection) as captured:
        booked.person.save()
    assert len(captured) == 1


def test_the_number_of_queries_does_not_grow_with_the_appointments_of_a_person(ann):
    declare(Reminders, follows={Person: "person"})

    def cost(zone):
        ann.zone = zone
        with CaptureQueriesContext(connection) as captured:
            ann.save()
        return len(captured)

    Appointment.objects.create(person=ann, local_start="2026-03-20T10:00")
    with_one = cost("Asia/Tokyo")
    for _ in range(20):
        Appointment.objects.create(person=ann, local_start="2026-03-20T10:00")
    assert cost("America/New_York") == with_one


def test_a_row_that_loses_what_it_follows_is_planned_anew(trip):
    reminding(days(-1), zone=lambda self, row: row.room.zone if row.room else "UTC", follows={Room: "room"})
    room = Room.objects.create()
    booked = Appointment.objects.create(room=room, local_start="2026-03-20T10:00")
    assert live(booked)["-P1D"] == utc("2026-03-19 01:00")
    room.delete()
    assert live(booked)["-P1D"] == utc("2026-03-19 10:00")


def test_rows_saved_under_another_class_are_planned_too(reminders, ann):
    urgent = Emergency.objects.create(person=ann, starts_at=SUNDAY)
    assert len(live(Appointment.objects.get(pk=urgent.pk))) == 4
    Emergency.objects.all().delete()
    assert live() == {}
    surgery = Surgery.objects.create(person=ann, starts_at=SUNDAY)
    assert len(live(Appointment.objects.get(pk=surgery.pk))) == 4
    surgery.delete()
    assert live() == {}


def test_fixtures_are_not_planned_until_somebody_asks(reminders, ann, tmp_path):
    fields = {"person": ann.pk, "starts_at": SUNDAY.isoformat()}
    file = tmp_path / "appointments.json"
    file.write_text(json.dumps([{"model": "app.appointment", "pk": 77, "fields": fields}]))
    call_command("loaddata", file, verbosity=0)
    assert Appointment.objects.filter(pk=77).exists()
    assert live() == {}
    assert reminders.reconcile().planned == 4


# What cannot be planned


@pytest.mark.parametrize("zone", ["", None])
def test_a_row_without_a_zone_is_planned_in_that_of_the_project(trip, settings, zone):
    settings.TIME_ZONE = "Europe/Paris"
    declare(Birthdays, zone=lambda self, row: zone)
    ann = Person.objects.create(zone="")
    assert live(ann) == {"": utc("2026-06-15 07:00")}
    assert Schedule.objects.get().zone == "Europe/Paris"


def test_an_unknown_zone_names_the_plan_the_row_and_the_repair(birthdays, trip):
    with pytest.raises(UnknownZone) as refused, transaction.atomic():
        Person.objects.create(pk=77, zone="Europe/Londn")
    assert str(refused.value) == (
        f"Plan app.Birthdays cannot plan for {birthdays().aggregate_type} 77. Zone 'Europe/Londn' is not in the zone "
        f"database ({zones.current().release}); did you mean Europe/London or Europe/Lisbon or Europe/Oslo?"
    )
    assert (refused.value.name, refused.value.nearest[0]) == ("Europe/Londn", "Europe/London")
    assert not Person.objects.exists()


def test_an_unknown_zone_refuses_the_save_with_the_repair(reminders, trip):
    bob = Person.objects.create(zone="Europe/Londn")
    with pytest.raises(UnknownZone, match="did you mean Europe/London"), transaction.atomic():
        Appointment.objects.create(person=bob, starts_at=SUNDAY)
    assert Appointment.objects.count() == 0
    assert Schedule.objects.count() == 0


def test_a_person_with_an_unknown_zone_is_refused_for_the_sake_of_their_appointments(booked):
    declare(Reminders, follows={Person: "person"})
    booked.person.zone = "Mars/Olympus"
    with pytest.raises(UnknownZone), transaction.atomic():
        booked.person.save()
    assert Person.objects.get().zone == "Europe/London"
    assert len(live(booked)) == 4


def test_a_time_that_the_policy_rejects_refuses_the_save(ann):
    reminding(days(-1), gap="reject")
    with pytest.raises(UnresolvedTime, match="does not exist"), transaction.atomic():
        Appointment.objects.create(person=ann, local_start="2026-03-30T01:30")
    assert Appointment.objects.count() == 0


def test_what_failed_when_it_came_due_is_planned_again_by_the_next_save(booked, trip):
    Schedule.objects.filter(key__endswith=":-P1D").update(intent={"when": {"rule": {"kind": "by the moon"}}})
    trip.run(utc("2026-03-28 10:00"))
    assert statuses()["-P1D"] == "failed"
    assert schedule_log() == [("failed", "-P1D")]
    booked.starts_at = utc("2026-04-10 09:00")
    booked.save()
    assert live(booked)["-P1D"] == utc("2026-04-09 09:00")


def test_a_plan_that_cannot_be_read_any_more_is_replaced_by_the_next_save(booked):
    Schedule.objects.filter(key__endswith=":-P1D").update(intent={"when": {"rule": {"kind": "by the moon"}}})
    booked.save()
    assert live(booked)["-P1D"] == utc("2026-03-28 10:00")


def test_a_zone_that_is_no_longer_known_can_be_replaced_by_a_save(booked):
    for row in Schedule.objects.all():
        row.intent["when"]["zone"] = "Europe/Atlantis"
        Schedule.objects.filter(pk=row.pk).update(zone="Europe/Atlantis", intent=row.intent)
    booked.save()
    assert len(live(booked)) == 4
    assert {row.zone for row in Schedule.objects.all()} == {"Europe/London"}
