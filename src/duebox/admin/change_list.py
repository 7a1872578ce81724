"""Lists that answer in the same time with a thousand rows and with millions.

A list is ordered by an index. It counts up to 10,000 rows, and further pages do not exist. A date becomes a range of
ids, which grow with time. A filter that no index carries looks at the newest 20,000 rows of that range, and the page
says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet, UUIDField
from django.http import HttpRequest
from django.utils import formats, timezone
from django.utils.functional import cached_property
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from duebox.admin.actions import spread_selected
from duebox.conf import conf

if TYPE_CHECKING:
    from django.db.models import Model

MOST_COUNTED = 10_000
WINDOW = 20_000
_TOLERANCE = timedelta(hours=1)
"""A long transaction, or a clock that is wrong: an id may be older or newer than its row by this."""
_FIRST, _LAST = datetime(1970, 1, 2), datetime(9999, 1, 1)


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts up to 10,000 rows and shows no more than those."""

    @cached_property
    def found(self) -> int:
        """The number of rows; MOST_COUNTED + 1 means that or any higher number."""
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[: MOST_COUNTED + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self.found, MOST_COUNTED)


class BoundedFilter(admin.SimpleListFilter):
    """A filter that the rows of a list are asked one by one. Those that have an index override `is_indexed`."""

    def is_indexed(self) -> bool:
        return False


class BoundedChangeList(ChangeList):
    """A list whose cost does not depend on how many rows there are."""

    since: datetime | None = None
    until: datetime | None = None
    window: Any = None
    """The value of the ordering column at which a filter stops to look."""

    @property
    def facts(self) -> FactAdmin:
        assert isinstance(self.model_admin, FactAdmin)
        return self.model_admin

    def get_filters(self, request: HttpRequest) -> Any:
        found: Any = super().get_filters(request)
        specs, has_filters, lookups, duplicates, active = found
        # The chosen date is applied in `get_queryset`, as a range of ids.
        since, until = (lookups.pop(f"{self.date_hierarchy}__{name}", None) for name in ("gte", "lt"))
        if since:
            self.since, self.until = since[0], until[0]
            active = True
        return specs, has_filters, lookups, duplicates, active

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        ordering = self.facts.get_ordering(request)
        rows = self.facts.rows_in_order(request)
        if self.since and self.until:
            dates = {f"{self.date_hierarchy}__gte": self.since, f"{self.date_hierarchy}__lt": self.until}
            ids = {} if ordering[0].lstrip("-") == self.date_hierarchy else ids_between(rows, self._dated())
            found, rows = found.filter(**dates, **ids), rows.filter(**(ids or dates))
        specs: list[Any] = self.filter_specs
        unindexed = [spec for spec in specs if spec.value() is not None and not spec.is_indexed()]
        if unindexed and not self.query:
            self.window = edge(rows, ordering)
        if self.window is not None:
            found = found.filter(**{_bound(ordering): self.window})
        return found

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """Only that of the list itself: no other column has an index."""
        return list(self.facts.get_ordering(request))

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list: Any = self.facts.with_details(list(self.result_list) if self.result_count else [])
        self.is_capped = self.paginator.found > MOST_COUNTED
        self.most_counted, self.window_size = MOST_COUNTED, WINDOW
        self.hierarchy = self._hierarchy(request)

    def _dated(self) -> tuple[str, datetime, datetime]:
        assert self.since is not None
        assert self.until is not None
        return str(self.date_hierarchy), self.since, self.until

    def _hierarchy(self, request: HttpRequest) -> dict[str, Any]:
        """For Django's own template, from the first and the last row alone: a day without rows may be offered."""
        span = self.facts.date_span(request) if self.date_hierarchy else None
        if span is None:
            return {"show": False}
        first, last = (timezone.localtime(moment).date() for moment in span)
        chosen = [self.params.get(f"{self.date_hierarchy}__{part}") for part in ("year", "month", "day")]
        year, month, day = (int(part) if part else None for part in chosen)
        if year is None and first.year == last.year:
            year = first.year
            if first.month == last.month:
                month = first.month
        return {"show": True, **self._level(first, last, year, month, day)}

    def _level(self, first: date, last: date, year: int | None, month: int | None, day: int | None) -> dict[str, Any]:
        if year and month and day:
            chosen = date(year, month, day)
            back = {"link": self._link(chosen, 2), "title": _title(chosen, "YEAR_MONTH_FORMAT")}
            return {"back": back, "choices": [{"title": _title(chosen, "MONTH_DAY_FORMAT")}]}
        if year and month:
            days = [each for each in _days(first, last) if (each.year, each.month) == (year, month)]
            back = {"link": self._link(date(year, month, 1), 1), "title": str(year)}
            choices = [{"link": self._link(each, 3), "title": _title(each, "MONTH_DAY_FORMAT")} for each in days]
            return {"back": back, "choices": choices}
        if year:
            months = [date(year, number, 1) for number in range(1, 13)]
            shown = [each for each in months if first.replace(day=1) <= each <= last]
            choices = [{"link": self._link(each, 2), "title": _title(each, "YEAR_MONTH_FORMAT")} for each in shown]
            return {"back": {"link": self._link(first, 0), "title": _("All dates")}, "choices": choices}
        years = [date(number, 1, 1) for number in range(first.year, last.year + 1)]
        return {"back": None, "choices": [{"link": self._link(each, 1), "title": str(each.year)} for each in years]}

    def _link(self, day: date, parts: int) -> str:
        names = [f"{self.date_hierarchy}__{part}" for part in ("year", "month", "day")]
        chosen = dict(zip(names[:parts], (day.year, day.month, day.day), strict=False))
        return str(self.get_query_string(chosen, [f"{self.date_hierarchy}__"]))


def _days(first: date, last: date) -> Iterator[date]:
    for number in range((last - first).days + 1):
        yield first + timedelta(days=number)


def _title(day: date, form: str) -> str:
    return capfirst(formats.date_format(day, form))


def edge(rows: QuerySet[Any], ordering: Sequence[str]) -> Any:
    """The value of the first ordering column behind the first WINDOW rows; None where there are fewer rows."""
    column = ordering[0].lstrip("-")
    return rows.order_by(*ordering).values_list(column, flat=True)[WINDOW : WINDOW + 1].first()


def _bound(ordering: Sequence[str]) -> str:
    column = ordering[0].lstrip("-")
    return f"{column}__gte" if ordering[0].startswith("-") else f"{column}__lte"


def ids_between(rows: QuerySet[Any], dated: tuple[str, datetime, datetime]) -> dict[str, Any]:
    """The range of ids in which the rows of a time are, as lookups. It is wider than that time, by a tolerance."""
    column, since, until = dated
    since, until = _shifted(since, -_TOLERANCE), _shifted(until, _TOLERANCE)
    if isinstance(rows.model._meta.pk, UUIDField):
        return {"id__gte": _uuid_at(since), "id__lt": _uuid_at(until)}
    return {"id__gte": first_id(rows, column, since), "id__lt": first_id(rows, column, until)}


def first_id(rows: QuerySet[Any], column: str, moment: datetime) -> int:
    """The first id of a row that is not older than a moment, found by halving the range: ids grow with time."""
    ids = rows.order_by("id").values_list("id", column)
    first, last = ids.first(), ids.last()
    if first is None or last is None:
        return 0
    low, high = first[0], last[0] + 1
    while low < high:
        middle = (low + high) // 2
        found = ids.filter(id__gte=middle).first()
        if found is None or found[1] >= moment:
            high = middle
        else:
            low = found[0] + 1
    return int(low)


def _uuid_at(moment: datetime) -> UUID:
    """The lowest id of version 7 that can be made at a moment."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


def _shifted(moment: datetime, by: timedelta) -> datetime:
    """Years from 1 to 9999 can be asked for; an id has no place for all of them."""
    low, high = (each.replace(tzinfo=moment.tzinfo) for each in (_FIRST, _LAST))
    return min(max(moment, low), high) + by


class FactAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Read-only: rows cannot be added, changed or deleted here."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # a count for each choice of a filter reads all rows
    paginator = CappedPaginator
    sortable_by = ()
    list_per_page = 50
    list_select_related = ()
    ordering = ("-id",)

    class Media:
        css = {"all": ["duebox/admin.css"]}

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def may(self, request: HttpRequest, permission: str) -> bool:
        user: Any = request.user
        return bool(user.has_perm(f"duebox.{permission}"))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def get_ordering(self, request: HttpRequest) -> Any:
        return self.ordering

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        spread_selected(request)
        return super().changelist_view(request, extra_context)

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return BoundedChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return self.rows_in_order(request)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id, from_field)
        # One that was deleted in between has no details any more.
        return next(iter(self.with_details([found])), None) if found is not None else None

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Only filters and dates. Django allows any column, by which a payload or a secret could be guessed."""
        filters = {getattr(each, "parameter_name", None) for each in self.list_filter}
        return lookup in filters | {f"{self.date_hierarchy}__{part}" for part in ("year", "month", "day")}

    def rows_in_order(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows of the list without what a filter leaves out, for which the ordering has an index."""
        rows: QuerySet[Any] = self.model._default_manager.using(conf().DATABASE).all()
        return rows

    def date_span(self, request: HttpRequest) -> tuple[datetime, datetime] | None:
        """The first and the last moment of the date hierarchy; None to hide it."""
        moments = self.rows_in_order(request).order_by("id").values_list(str(self.date_hierarchy), flat=True)
        first, last = moments.first(), moments.last()
        return (first, last) if first is not None and last is not None else None

    def with_details(self, rows: list[Any]) -> list[Model]:
        """Adds to the rows of a page what is in other tables, with a query for all of them."""
        return rows
