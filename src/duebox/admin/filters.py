"""Filters of the lists. Their choices come from the code and from the newest rows: no list of distinct values reads a
whole table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from duebox.admin.change_list import BoundedFilter
from duebox.conf import conf
from duebox.contracts.event_types import declared

RECENT = 1_000
"""How many of the newest rows are looked at for choices."""


def recent(model: Any, column: str) -> set[str]:
    """The values of a column in the newest rows."""
    newest = model._default_manager.using(conf().DATABASE).order_by("-id").values_list(column, flat=True)
    return set(newest[:RECENT])


class ColumnFilter(BoundedFilter):
    """Rows with one value in a column. A value that is not among the choices can be given in the URL."""

    column: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        known = {*self.known(model_admin.model), *filter(None, [request.GET.get(str(self.parameter_name))])}
        return [(each, each) for each in sorted(known)]

    def known(self, model: Any) -> Iterable[str]:
        return recent(model, self.column)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class TypeFilter(ColumnFilter):
    title, parameter_name, column = "event type", "type", "type"

    def known(self, model: Any) -> Iterable[str]:
        return {*recent(model, "type"), *(each.name for each in declared())}


class OrganizationFilter(ColumnFilter):
    title, parameter_name, column = "organization", "organization", "organization"

    def known(self, model: Any) -> Iterable[str]:
        return recent(model, "organization") - {""}


class StateFilter(BoundedFilter):
    """Rows in a state, in the words of `with_state`."""

    title, parameter_name = "status", "status"
    states: tuple[str, ...]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state.capitalize()) for state in self.states]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.in_state(self.value()) if self.value() in self.states else queryset
