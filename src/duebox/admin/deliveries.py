"""Deliveries and dead letters in the admin: retry, park and discard them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from duebox import deliveries
from duebox.admin import display
from duebox.admin.actions import Outcome, acting, ask_reason, errors_shown, first, report, sorted_out
from duebox.admin.change_list import FactAdmin
from duebox.admin.filters import ColumnFilter, StateFilter
from duebox.admin.search import events_named, failures_with, target
from duebox.audit_log.record import Acted, record
from duebox.conf import conf
from duebox.deliveries import Done
from duebox.events.subscribers import by_name
from duebox.models import DeadLetter, Delivery
from duebox.models.delivery import STATES
from duebox.store import operations

_INDEXED = ("dead", "parked")


class DeliveryStateFilter(StateFilter):
    states = STATES

    def is_indexed(self) -> bool:
        return self.value() in _INDEXED


class DeadLetterStateFilter(StateFilter):
    states = _INDEXED

    def is_indexed(self) -> bool:
        return True


class ReceiverFilter(ColumnFilter):
    title, parameter_name, column = "handler or destination", "receiver", "subscriber"

    def known(self, model: Any) -> Iterable[str]:
        return {*super().known(model), *by_name()}


@admin.register(Delivery)
class DeliveryAdmin(FactAdmin):
    list_display = (
        "id", "event_type", "receiver", "state", "entity", "attempts", "last_error", "scheduled_time", "organization",
    )  # fmt: skip
    list_filter: ClassVar[Any] = (DeliveryStateFilter, ReceiverFilter)
    search_fields = ("id",)
    search_help_text = (
        "An id, the id of an event, an entity as type:id, a correlation id, or the text of an error of a failed one."
    )
    actions: Any = ("retry_failed_deliveries", "park_deliveries", "discard_deliveries")
    retried: ClassVar[tuple[str, ...]] = deliveries.FAILED

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).with_state()  # type: ignore[attr-defined, no-any-return]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = "payload" if display.may_see_payloads(request) else "masked_payload"
        return [
            (None, {"fields": ["id", "state", "receiver", "event", "entity", "organization", "correlation"]}),
            (
                "Progress",
                {"fields": ["attempts", "scheduled_time", "died_at", "last_error", "note", "worker", "stream"]},
            ),
            ("Payload", {"fields": [shown]}),
            ("History", {"fields": ["attempts_made"]}),
        ]

    def with_details(self, rows: list[Any]) -> list[Any]:
        """As operators see deliveries on the command line: with their event, last error and worker."""
        found = operations.find(conf().DATABASE, ids=[row.pk for row in rows]) if rows else []
        open_ones = {each.id: each for each in found}
        # One that was delivered since the list was read has no details any more.
        shown = [row for row in rows if row.pk in open_ones]
        for row in shown:
            row.details = open_ones[row.pk]
        return shown

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not (text := search_term.strip()):
            return queryset, False
        found = target(text, "delivery", "event", "entity", "correlation")
        if found and found.kind == "delivery":
            return queryset.filter(id=int(found.id)), False
        events = events_named(found)
        if events is not None:
            return queryset.filter(event_id__in=events.values("id")), False
        return queryset.filter(id__in=failures_with(text, "delivery_id")), False

    @admin.display(description="event type")
    def event_type(self, row: Any) -> str:
        return str(row.details.event_type)

    @admin.display(description="event")
    def event(self, row: Any) -> str:
        return display.link_to_event(row.event_id, f"{row.details.event_type} {row.event_id}")

    @admin.display(description="handler or destination")
    def receiver(self, row: Delivery) -> str:
        return row.subscriber

    @admin.display(description="status")
    def state(self, row: Any) -> str:
        return display.badge(row.state)

    @admin.display(description="entity")
    def entity(self, row: Any) -> str:
        return ":".join(row.details.about) if row.details.about else "-"

    @admin.display(description="attempts")
    def attempts(self, row: Delivery) -> int:
        return row.attempt

    @admin.display(description="last error")
    def last_error(self, row: Any) -> str:
        return display.short(row.details.error_line) or "-"

    @admin.display(description="scheduled time")
    def scheduled_time(self, row: Delivery) -> Any:
        return row.due_at

    @admin.display(description="organization")
    def organization(self, row: Any) -> str:
        return row.details.organization or "-"

    @admin.display(description="correlation id")
    def correlation(self, row: Any) -> str:
        return row.details.correlation_id or "-"

    @admin.display(description="why it was parked")
    def note(self, row: Any) -> str:
        return row.details.note or "-"

    @admin.display(description="worker")
    def worker(self, row: Any) -> str:
        return row.details.worker or "-"

    @admin.display(description="data")
    def payload(self, row: Any) -> str:
        return display.payload_of_event(row.event_id, visible=True)

    @admin.display(description="data")
    def masked_payload(self, row: Any) -> str:
        return display.payload_of_event(row.event_id, visible=False)

    @admin.display(description="attempts")
    def attempts_made(self, row: Delivery) -> str:
        return display.attempts_table(row.event_id, row.pk)

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "retry_delivery")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "discard_delivery")

    @admin.action(description="Retry failed deliveries", permissions=["retry"])
    def retry_failed_deliveries(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._act(
            request, queryset, lambda ids, who: deliveries.retry(ids, by=who, using=conf().DATABASE), "retried",
            "Retrying {} failed {}",
            why_not=lambda row: "" if row.state in self.retried else f"not failed, but {row.state}",
        )  # fmt: skip

    @admin.action(description="Park selected deliveries", permissions=["retry"])
    def park_deliveries(self, request: HttpRequest, queryset: QuerySet[Any]) -> TemplateResponse | None:
        text = "No worker claims these deliveries until they are retried. One in an ordered stream blocks the rest."
        return self._act_with_reason(
            request, queryset, "Park deliveries", text,
            lambda ids, who, reason: deliveries.park(ids, note=reason, by=who, using=conf().DATABASE), "parked",
        )  # fmt: skip

    @admin.action(description="Discard selected deliveries", permissions=["discard"])
    def discard_deliveries(self, request: HttpRequest, queryset: QuerySet[Any]) -> TemplateResponse | None:
        text = "These deliveries are given up for good. Their events and their history stay."
        return self._act_with_reason(
            request, queryset, "Discard deliveries", text,
            lambda ids, who, reason: deliveries.discard(ids, reason=reason, by=who, using=conf().DATABASE), "discarded",
        )  # fmt: skip

    def _act_with_reason(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        title: str,
        text: str,
        act: Callable[[list[int], str, str], Done],
        word: str,
    ) -> TemplateResponse | None:
        """Show a page that asks for the reason; act when it was submitted."""
        reason = ask_reason(self, request, queryset, title=title, text=text)
        if not isinstance(reason, str):
            return reason
        said = f"{word.capitalize()} {{}} {{}}"
        self._act(request, queryset, lambda ids, who: act(ids, who, reason), word, said, reason=reason)
        return None

    def _act(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        act: Callable[[list[int], str], Done],
        word: str,
        said: str,
        *,
        reason: str = "",
        why_not: Callable[[Any], str] = lambda row: "",
    ) -> None:
        rows, more = first(queryset)
        chosen, left = sorted_out(self.with_details(rows), why_not)
        with errors_shown(self, request):
            with acting(request) as who:
                done = act([row.pk for row in chosen], who) if chosen else Done()
                changed = [row for row in chosen if row.pk in set(done.ids)]
                acted = [Acted(row.pk, row.details.organization, {"event_id": str(row.event_id)}) for row in changed]
                record(f"delivery.{word}", "duebox.delivery", acted, conf().DATABASE, reason)
            outcome = Outcome(len(done.ids), left | done.left)
            report(self, request, outcome, said, many=more, noun=("delivery", "deliveries"))


@admin.register(DeadLetter)
class DeadLetterAdmin(DeliveryAdmin):
    list_display = (
        "id", "event_type", "receiver", "state", "entity", "attempts", "last_error", "died_at", "organization",
    )  # fmt: skip
    list_filter = (DeadLetterStateFilter, ReceiverFilter)
    retried = _INDEXED
