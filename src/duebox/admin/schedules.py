"""Schedules in the admin: what is to come, and what became of what has fired; cancel, pause, resume and retry them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT
from django.http import HttpRequest
from django.utils import timezone

from duebox.admin import display
from duebox.admin.actions import Outcome, acting, errors_shown, first, report, sorted_out
from duebox.admin.change_list import BoundedFilter, FactAdmin, first_id
from duebox.admin.events import retry_failed
from duebox.admin.filters import ColumnFilter, OrganizationFilter, StateFilter, TypeFilter
from duebox.admin.search import events_with, failures_with, target
from duebox.audit_log.record import Acted, record
from duebox.conf import conf
from duebox.models import Event, Schedule, ScheduleLog
from duebox.models.schedule import STATES
from duebox.observe.show import rule_of
from duebox.schedules.schedule import cancel, pause, resume

ALL = "all"
UPCOMING = "scheduled"
FAILED = ("dead", "parked")
OPEN = ("pending", "waiting")
MOST_LOGGED = 50
SCHEDULES = ("schedule", "schedules")


class ScheduleStateFilter(StateFilter):
    """Those that will fire are shown first: they have an index by time, and are what people look for."""

    states = STATES

    def is_indexed(self) -> bool:
        return self.value() in (None, UPCOMING, ALL, "failed", "processing")

    def choices(self, changelist: Any) -> Iterator[Any]:
        for value, title in [(None, "Scheduled"), *((each, each.capitalize()) for each in STATES[1:]), (ALL, "All")]:
            link = changelist.get_query_string({"status": value})
            selected = self.value() == value or (value is None and self.value() == UPCOMING)
            yield {"selected": selected, "query_string": link, "display": title}

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        match _chosen(request):
            case "failed":
                return queryset.filter(Q(status="failed") | Q(status="completed", id__in=_whose_last_event_has(FAILED)))
            case "processing":
                ids = set(_whose_last_event_has(OPEN)) - set(_whose_last_event_has(FAILED))
                return queryset.filter(status="completed", id__in=ids)
            case "completed":
                return queryset.filter(status="completed").exclude(id__in=_whose_last_event_has(FAILED + OPEN))
            case "all":
                return queryset
            case status:
                return queryset.filter(status=status)


def _chosen(request: HttpRequest) -> str:
    """The state that a list shows. A search looks at all of them, unless one is chosen."""
    asked = request.GET.get("status")
    return asked if asked in (*STATES, ALL) else ALL if request.GET.get("q") else UPCOMING


def _whose_last_event_has(statuses: tuple[str, ...]) -> list[int]:
    """The ids of schedules of whose last event a delivery has one of these statuses; found from the newest deliveries,
    which is the same as `with_state` says and does not look at every schedule."""
    events = Event.objects.using(conf().DATABASE).filter(id__in=events_with(*statuses), metadata__has_key="schedule")
    keys = events.values_list(KT("metadata__schedule__key"), "idempotency_key")
    found = set(keys)
    rows = Schedule.objects.using(conf().DATABASE).filter(key__in={key for key, _ in found})
    return [id for id, key, last in rows.values_list("id", "key", "fired") if (key, f"{key}/{last}") in found]


class ZoneFilter(ColumnFilter):
    title, parameter_name, column = "time zone", "zone", "zone"


class CreatedFilter(BoundedFilter):
    title, parameter_name = "created", "created"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", "Today"), ("7", "Past 7 days"), ("30", "Past 30 days"), ("365", "Past year")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in ("1", "7", "30", "365"):
            return queryset
        today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
        since = today - timedelta(days=int(self.value() or 1) - 1)
        # Ids grow with time; a long transaction may have begun an hour before it took its id.
        rows = Schedule.objects.using(conf().DATABASE)
        return queryset.filter(created_at__gte=since, id__gte=first_id(rows, "created_at", since - timedelta(hours=1)))


@admin.register(Schedule)
class ScheduleAdmin(FactAdmin):
    list_display = (
        "id", "event_type", "scheduled_time", "zone", "state", "entity", "attempts", "last_error", "created_by", "key",
    )  # fmt: skip
    list_filter = (ScheduleStateFilter, TypeFilter, ZoneFilter, CreatedFilter, OrganizationFilter)
    search_fields = ("key",)
    search_help_text = "A key or id, an entity as type:id, the id of an event, or the text of an error of a failed one."
    date_hierarchy = "due_at"
    actions = ("cancel_schedules", "retry_failed_schedules", "pause_schedules", "resume_schedules")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Schedule.objects.using(conf().DATABASE).defer("data").of_project()

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("due_at", "id") if self._is_upcoming(request) else ("-id",)

    def rows_in_order(self, request: HttpRequest) -> QuerySet[Any]:
        rows = Schedule.objects.using(conf().DATABASE)
        return rows.scheduled() if self._is_upcoming(request) else rows.all()

    def date_span(self, request: HttpRequest) -> tuple[datetime, datetime] | None:
        if not self._is_upcoming(request):
            return None  # what will not fire has no time
        moments = self.rows_in_order(request).order_by("due_at", "id").values_list("due_at", flat=True)
        first, last = moments.first(), moments.last()
        return (first, last) if first is not None and last is not None else None

    def _is_upcoming(self, request: HttpRequest) -> bool:
        return _chosen(request) == UPCOMING

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = "payload" if display.may_see_payloads(request) else "masked_payload"
        return [
            (None, {"fields": ["id", "key", "event_type", "state", "entity", "organization", "plan", "created_by"]}),
            ("Time", {"fields": ["scheduled_time", "local_time", "zone", "rule", "remaining", "opt_out"]}),
            ("Payload", {"fields": ["version", shown]}),
            ("History", {"fields": ["created_at", "updated_at", "fired_at", "last_event", "attempts_made", "logged"]}),
            ("Origin", {"fields": ["correlation_id", "tz_release"]}),
        ]

    def with_details(self, rows: list[Any]) -> list[Any]:
        fired = {(row.type, f"{row.key}/{row.fired}"): row for row in rows if row.fired}
        events = Event.objects.using(conf().DATABASE).filter(
            type__in={kind for kind, _ in fired}, idempotency_key__in=[key for _, key in fired]
        )
        ids = (
            {(kind, key): id for id, kind, key in events.values_list("id", "type", "idempotency_key")} if fired else {}
        )
        tries, states = display.tries_of(ids.values()) if ids else {}, display.states_of(rows)
        shown = [row for row in rows if row.pk in states]  # one may have been deleted since the list was read
        for row in shown:
            row.event_id = ids.get((row.type, f"{row.key}/{row.fired}"))
            row.tries, row.state = tries.get(row.event_id, display.Tries()), states[row.pk]
        return shown

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[QuerySet[Any], bool]:
        if not (text := search_term.strip()):
            return queryset, False
        found = target(text, "schedule", "entity", "event")
        if found and found.kind == "schedule":
            return queryset.filter(key=found.id), False
        if found and found.kind == "entity":
            return queryset.about(*found.entity), False
        events = Event.objects.using(conf().DATABASE).filter(metadata__has_key="schedule")
        ids: Any = [found.id] if found else failures_with(text, "event_id")
        events = events.filter(id__in=ids)
        return queryset.filter(key__in=events.values(schedule_key=KT("metadata__schedule__key"))), False

    @admin.display(description="event type")
    def event_type(self, row: Schedule) -> str:
        return row.type

    @admin.display(description="scheduled time")
    def scheduled_time(self, row: Schedule) -> datetime | None:
        return row.due_at

    @admin.display(description="status")
    def state(self, row: Any) -> str:
        return display.badge(row.state)

    @admin.display(description="entity")
    def entity(self, row: Schedule) -> str:
        return display.entity(row.aggregate_type, row.aggregate_id)

    @admin.display(description="attempts")
    def attempts(self, row: Any) -> int:
        return int(row.tries.attempts)

    @admin.display(description="last error")
    def last_error(self, row: Any) -> str:
        return str(row.tries.error) or "-"

    @admin.display(description="created by")
    def created_by(self, row: Schedule) -> str:
        return display.created_by(row)

    @admin.display(description="rule")
    def rule(self, row: Schedule) -> str:
        return rule_of(row)

    @admin.display(description="data")
    def payload(self, row: Schedule) -> str:
        return display.payload(row, visible=True)

    @admin.display(description="data")
    def masked_payload(self, row: Schedule) -> str:
        return display.payload(row, visible=False)

    @admin.display(description="last event")
    def last_event(self, row: Any) -> str:
        return display.link_to_event(row.event_id) if row.event_id else "-"

    @admin.display(description="attempts")
    def attempts_made(self, row: Any) -> str:
        return display.attempts_table(row.event_id) if row.event_id else "-"

    @admin.display(description="log")
    def logged(self, row: Schedule) -> str:
        lines = ScheduleLog.objects.using(conf().DATABASE).filter(source=row.key).order_by("-id")[:MOST_LOGGED]
        return display.listed(f"{line.at:%Y-%m-%d %H:%M:%S} UTC {line.what} {line.note}".strip() for line in lines)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "cancel_schedule")

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "retry_delivery")

    @admin.action(description="Cancel selected schedules", permissions=["cancel"])
    def cancel_schedules(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._change(request, queryset, cancel, "cancelled", ("scheduled", "paused"))

    @admin.action(description="Pause selected schedules", permissions=["cancel"])
    def pause_schedules(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._change(request, queryset, pause, "paused", ("scheduled",))

    @admin.action(description="Resume selected schedules", permissions=["cancel"])
    def resume_schedules(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._change(request, queryset, resume, "resumed", ("paused",))

    def _change(
        self, request: HttpRequest, queryset: QuerySet[Any], act: Callable[..., int], word: str, states: tuple[str, ...]
    ) -> None:
        rows, more = first(queryset)
        chosen, left = sorted_out(self.with_details(rows), lambda row: "" if row.status in states else row.state)
        with errors_shown(self, request):
            with acting(request):
                changed = [row for row in chosen if act(row.key, using=conf().DATABASE)]
                left |= {row.pk: "changed meanwhile" for row in chosen if row not in changed}
                acted = [Acted(row.pk, row.organization, {"key": row.key}) for row in changed]
                record(f"schedule.{word}", "duebox.schedule", acted, conf().DATABASE)
            said = f"{word.capitalize()} {{}} {{}}"
            report(self, request, Outcome(len(changed), left), said, many=more, noun=SCHEDULES)

    @admin.action(description="Retry failed schedules", permissions=["retry"])
    def retry_failed_schedules(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        rows, more = first(queryset)
        self.with_details(rows)
        chosen, left = sorted_out(rows, _why_not_retried)
        by_event = {row.event_id: row for row in chosen}
        events = list(Event.objects.using(conf().DATABASE).filter(id__in=by_event))
        with errors_shown(self, request):
            with acting(request) as who:
                done, of_events = retry_failed(events, who)
            left |= {by_event[id].pk: why for id, why in of_events.items()}
            report(self, request, Outcome(done, left), "Retrying {} failed {}", many=more, noun=SCHEDULES)


def _why_not_retried(row: Any) -> str:
    if row.status == "failed":
        return "its rule cannot be followed; schedule it again"
    return "" if row.event_id else "not failed"
