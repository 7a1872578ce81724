"""Webhook endpoints in the admin. Secrets, headers and the paths of URLs are not shown.

What is done to an endpoint goes through `duebox.destinations.webhooks.endpoints`, which records it. New endpoints and
new secrets are made there or with `duebox endpoints`, because a secret is shown once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from duebox.admin import display
from duebox.admin.actions import Outcome, acting, ask_reason, errors_shown, first, in_name_of_user, report, sorted_out
from duebox.admin.change_list import BoundedFilter, FactAdmin
from duebox.admin.filters import OrganizationFilter
from duebox.conf import conf
from duebox.destinations.endpoint_health import states_of
from duebox.destinations.options import driver
from duebox.models import WebhookEndpoint

ENDPOINTS = ("endpoint", "endpoints")
MOST_TESTED = 5


class EnabledFilter(BoundedFilter):
    title, parameter_name = "status", "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("enabled", "Enabled"), ("disabled", "Disabled")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in ("enabled", "disabled"):
            return queryset
        return queryset.filter(disabled_at__isnull=self.value() == "enabled")


def api() -> Any:
    """Loaded late: it needs packages that only those who send webhooks have installed."""
    driver("cryptography", "webhooks")
    return driver("duebox.destinations.webhooks.endpoints", "webhooks")


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(FactAdmin):
    list_display = ("id", "organization", "host", "state", "health", "types", "description", "created_at")
    list_filter = (EnabledFilter, OrganizationFilter)
    search_fields = ("id", "organization", "description")
    search_help_text = "An id, an organization, or a part of the description."
    actions = ("disable_endpoints", "enable_endpoints", "pause_endpoints", "resume_endpoints", "test_endpoints")
    fieldsets = [
        (None, {"fields": ["id", "organization", "host", "types", "description", "rate"]}),
        ("State", {"fields": ["state", "health", "disabled_at", "disabled_reason", "enabled_at", "created_at"]}),
        ("Secret", {"fields": ["two_secrets_until"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("secret", "previous_secret", "headers")

    def with_details(self, rows: list[Any]) -> list[Any]:
        state = states_of(conf().DATABASE)
        for row in rows:
            row.fares = state(row)
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not (text := search_term.strip()):
            return queryset, False
        found = Q(organization=text) | Q(description__icontains=text)
        return queryset.filter(found | Q(id__in=_uuid(text))), False

    @admin.display(description="host")
    def host(self, row: WebhookEndpoint) -> str:
        return row.host

    @admin.display(description="status")
    def state(self, row: WebhookEndpoint) -> str:
        return display.badge("disabled" if row.disabled_at else "enabled")

    @admin.display(description="health")
    def health(self, row: Any) -> str:
        return "; ".join(row.fares.words()) or "-"

    @admin.display(description="two secrets sign until")
    def two_secrets_until(self, row: WebhookEndpoint) -> Any:
        return row.previous_until

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "change_webhookendpoint")

    @admin.action(description="Disable selected endpoints", permissions=["operate"])
    def disable_endpoints(self, request: HttpRequest, queryset: QuerySet[Any]) -> TemplateResponse | None:
        text = "Nothing is sent to these endpoints until they are enabled again; they miss what happens meanwhile."
        reason = ask_reason(self, request, queryset, title="Disable endpoints", text=text)
        if not isinstance(reason, str):
            return reason
        enabled: Callable[[Any], str] = lambda row: "it is disabled already" if row.disabled_at else ""  # noqa: E731
        self._act(request, queryset, lambda row: api().disable(row, reason), "Disabled {} {}", enabled)
        return None

    @admin.action(description="Enable selected endpoints", permissions=["operate"])
    def enable_endpoints(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        disabled: Callable[[Any], str] = lambda row: "" if row.disabled_at else "it is enabled already"  # noqa: E731
        self._act(request, queryset, lambda row: api().enable(row), "Enabled {} {}", disabled)

    @admin.action(description="Pause selected endpoints", permissions=["operate"])
    def pause_endpoints(self, request: HttpRequest, queryset: QuerySet[Any]) -> TemplateResponse | None:
        text = "The events for these endpoints wait until the endpoints are resumed."
        reason = ask_reason(self, request, queryset, title="Pause endpoints", text=text)
        if not isinstance(reason, str):
            return reason
        self._act(request, queryset, lambda row: api().pause(row, reason), "Paused {} {}", _always)
        return None

    @admin.action(description="Resume selected endpoints", permissions=["operate"])
    def resume_endpoints(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._act(request, queryset, lambda row: api().resume(row), "Resumed {} {}", _always)

    @admin.action(description="Send a test event to selected endpoints", permissions=["operate"])
    def test_endpoints(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """One request after the other, so only for a few."""
        if len(rows := list(queryset[: MOST_TESTED + 1])) > MOST_TESTED:
            self.message_user(request, f"Select at most {MOST_TESTED} endpoints to test.", messages.ERROR)
            return
        for row in rows:
            with errors_shown(self, request), in_name_of_user(request):
                tried = api().test(row)
                said = f"{row}: {tried.error or tried.status} ({tried.took_ms:.0f} ms)"
                self.message_user(request, said, messages.SUCCESS if tried.ok else messages.ERROR)

    def _act(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        act: Callable[[Any], Any],
        said: str,
        why_not: Callable[[Any], str],
    ) -> None:
        rows, more = first(queryset)
        chosen, left = sorted_out(rows, why_not)
        with errors_shown(self, request):
            with acting(request):
                for row in chosen:
                    if act(row) is False:
                        left[row.pk] = "it was not paused, and its circuit breaker was closed"
            report(self, request, Outcome(len(rows) - len(left), left), said, many=more, noun=ENDPOINTS)


def _always(row: Any) -> str:
    return ""


def _uuid(text: str) -> list[UUID]:
    try:
        return [UUID(text)]
    except ValueError:
        return []
