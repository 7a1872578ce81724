"""The audit log in the admin, for those who answer questions about it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from duebox.admin import display
from duebox.admin.change_list import FactAdmin
from duebox.admin.filters import ColumnFilter, OrganizationFilter
from duebox.conf import conf
from duebox.models import AuditEntry
from duebox.models.audit import name_of

_LARGEST = 2**63


class ActionFilter(ColumnFilter):
    title, parameter_name, column = "action", "action", "action"


@admin.register(AuditEntry)
class AuditEntryAdmin(FactAdmin):
    list_display = ("id", "recorded_at", "action", "entity", "created_by", "changed", "organization", "ip")
    list_filter = (ActionFilter, OrganizationFilter)
    search_fields = ("id",)
    search_help_text = "An id, an entity or an actor as type:id, or a correlation id."
    date_hierarchy = "recorded_at"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [
            (None, {"fields": ["id", "recorded_at", "action", "entity", "organization"]}),
            ("Who", {"fields": ["created_by", "in_the_name_of", "ip", "user_agent", "correlation_id"]}),
            ("What", {"fields": ["all_changes", "all_metadata"]}),
        ]

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[QuerySet[Any], bool]:
        if not (text := search_term.strip()):
            return queryset, False
        if text.isascii() and text.isdecimal() and int(text) < _LARGEST:
            return queryset.filter(id=int(text)), False
        entries = AuditEntry.objects.using(conf().DATABASE)
        kind, colon, id = text.partition(":")
        asked = entries.correlated(text).values("id")
        if kind and colon and id:
            about, actor = entries.about(kind, id), entries.by({"type": kind, "id": id})
            asked = asked.union(about.values("id"), actor.values("id"))
        return queryset.filter(Q(id__in=asked)), False

    @admin.display(description="entity")
    def entity(self, entry: AuditEntry) -> str:
        return display.entity(entry.entity_type, entry.entity_id)

    @admin.display(description="created by")
    def created_by(self, entry: AuditEntry) -> str:
        return display.created_by(entry)

    @admin.display(description="acted on behalf of the actor")
    def in_the_name_of(self, entry: AuditEntry) -> str:
        return name_of(entry.impersonator) or "-"

    @admin.display(description="changed")
    def changed(self, entry: AuditEntry) -> str:
        return display.short(", ".join(entry.changes)) or "-"

    @admin.display(description="changes, old and new")
    def all_changes(self, entry: AuditEntry) -> str:
        return display.as_json(entry.changes)

    @admin.display(description="metadata")
    def all_metadata(self, entry: AuditEntry) -> str:
        return display.as_json(entry.metadata)
