"""Events in the admin: facts, so all of it is read-only; what failed can be retried."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from duebox import deliveries
from duebox.admin import display
from duebox.admin.actions import Outcome, acting, errors_shown, first, report
from duebox.admin.change_list import FactAdmin
from duebox.admin.filters import OrganizationFilter, StateFilter, TypeFilter
from duebox.admin.search import events_named, failed_events, failures_with, target
from duebox.audit_log.record import Acted, record
from duebox.conf import conf
from duebox.models import Delivery, Event
from duebox.models.event import STATES


class EventStateFilter(StateFilter):
    states = STATES

    def is_indexed(self) -> bool:
        return self.value() == "failed"

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        # From the deliveries, which have an index for those that failed.
        return queryset.filter(id__in=failed_events()) if self.is_indexed() else super().queryset(request, queryset)


def retry_failed(events: list[Any], by: str) -> tuple[int, dict[Any, str]]:
    """Retry the dead deliveries of events: how many events are retried, and why the others are not."""
    using = conf().DATABASE
    rows = Delivery.objects.using(using).filter(event_id__in=[event.pk for event in events]).order_by("id")
    of_event: dict[Any, list[Delivery]] = {}
    for row in rows:
        of_event.setdefault(row.event_id, []).append(row)
    left = {event.pk: why for event in events if (why := _why_not(of_event.get(event.pk, [])))}
    chosen = {row.id: row for row in rows if row.event_id not in left and row.status == "dead"}
    if not chosen:
        return 0, left
    done = deliveries.retry(chosen, by=by, using=using)
    organizations = {event.pk: event.organization for event in events}
    acted = [Acted(id, organizations[chosen[id].event_id], {"event_id": str(chosen[id].event_id)}) for id in done.ids]
    record("delivery.retried", "duebox.delivery", acted, using)
    retried = {chosen[id].event_id for id in done.ids}
    left |= {chosen[id].event_id: why for id, why in done.left.items() if chosen[id].event_id not in retried}
    return len(retried), left


def _why_not(rows: list[Delivery]) -> str:
    states = {row.status for row in rows}
    if "dead" in states:
        return ""
    return "its deliveries are parked; retry them in the list of dead letters" if "parked" in states else "not failed"


@admin.register(Event)
class EventAdmin(FactAdmin):
    list_display = (
        "id", "type", "state", "entity", "attempts", "last_error", "created_by", "organization", "recorded_at",
    )  # fmt: skip
    list_filter = (EventStateFilter, TypeFilter, OrganizationFilter)
    search_fields = ("id",)
    search_help_text = "An id, an entity as type:id, a correlation id, or the text of an error of a failed event."
    date_hierarchy = "recorded_at"
    actions = ("retry_failed_events",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("data")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = "payload" if display.may_see_payloads(request) else "masked_payload"
        metadata = "all_metadata" if display.may_see_payloads(request) else "masked_metadata"
        return [
            (None, {"fields": ["id", "type", "version", "state", "entity", "organization", "created_by"]}),
            ("Times", {"fields": ["occurred_at", "recorded_at", "expires"]}),
            ("Origin", {"fields": ["correlation_id", "cause", "producer", "idempotency_key"]}),
            ("Payload", {"fields": [shown, metadata]}),
            ("Deliveries", {"fields": ["open_deliveries", "attempts_made"]}),
        ]

    def with_details(self, rows: list[Any]) -> list[Any]:
        tries, states = display.tries_of(row.pk for row in rows), display.states_of(rows)
        shown = [row for row in rows if row.pk in states]  # one may have been deleted since the list was read
        for row in shown:
            row.tries, row.state = tries.get(row.pk, display.Tries()), states[row.pk]
        return shown

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not (text := search_term.strip()):
            return queryset, False
        events = events_named(target(text, "event", "entity", "correlation"))
        found: Any = events.values("id") if events is not None else failures_with(text, "event_id")
        return queryset.filter(id__in=found), False

    @admin.display(description="status")
    def state(self, event: Any) -> str:
        return display.badge(event.state)

    @admin.display(description="entity")
    def entity(self, event: Event) -> str:
        return display.entity(event.aggregate_type, event.aggregate_id)

    @admin.display(description="created by")
    def created_by(self, event: Event) -> str:
        return display.created_by(event)

    @admin.display(description="attempts")
    def attempts(self, event: Any) -> int:
        return int(event.tries.attempts)

    @admin.display(description="last error")
    def last_error(self, event: Any) -> str:
        return str(event.tries.error) or "-"

    @admin.display(description="expires at")
    def expires(self, event: Event) -> Any:
        return event.expires_at or "-"

    @admin.display(description="caused by")
    def cause(self, event: Event) -> str:
        return display.link_to_event(event.causation_id) if event.causation_id else "-"

    @admin.display(description="data")
    def payload(self, event: Event) -> str:
        return display.payload(event, visible=True)

    @admin.display(description="data")
    def masked_payload(self, event: Event) -> str:
        return display.payload(event, visible=False)

    @admin.display(description="metadata")
    def all_metadata(self, event: Event) -> str:
        return display.metadata(event, visible=True)

    @admin.display(description="metadata")
    def masked_metadata(self, event: Event) -> str:
        return display.metadata(event, visible=False)

    @admin.display(description="open deliveries")
    def open_deliveries(self, event: Event) -> str:
        return display.deliveries_table(event.pk)

    @admin.display(description="attempts")
    def attempts_made(self, event: Event) -> str:
        return display.attempts_table(event.pk)

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "retry_delivery")

    @admin.action(description="Retry failed events", permissions=["retry"])
    def retry_failed_events(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        rows, more = first(queryset)
        with errors_shown(self, request):
            with acting(request) as who:
                done, left = retry_failed(rows, who)
            report(self, request, Outcome(done, left), "Retrying {} failed {}", many=more, noun=("event", "events"))
