"""What the actions of the lists have in common: who acts, what is reported, and a page that asks for a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.admin.options import ModelAdmin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from duebox.conf import conf
from duebox.context.current import asked_by, origin
from duebox.context.origins import entered, of_request
from duebox.exceptions import DueboxError

MOST = 1_000
"""Rows that an action takes at once: a request has to end. What is left over is named in the report."""

SELECTED = "duebox_selected"
"""A field with the ids of all selected rows. Django reads only DATA_UPLOAD_MAX_NUMBER_FIELDS fields of a form, 1,000
unless the project says otherwise."""


class Outcome(NamedTuple):
    """What an action did."""

    done: int
    left: Mapping[Any, str]
    """The rows that were skipped, and why."""


@contextmanager
def in_name_of_user(request: HttpRequest) -> Iterator[str]:
    """The history and the audit log name the user of the request, also in a project without the correlation middleware.
    Gives the user's name."""
    with nullcontext() if origin.get() else entered(of_request(request)):
        yield asked_by().removeprefix("by ")


@contextmanager
def acting(request: HttpRequest) -> Iterator[str]:
    """One transaction, in the name of the user of the request, whose name is given."""
    with in_name_of_user(request) as who, transaction.atomic(using=conf().DATABASE):
        yield who


def first(queryset: QuerySet[Any]) -> tuple[list[Any], bool]:
    """The rows that an action takes, and whether there are more of them."""
    found = list(queryset[: MOST + 1])
    return found[:MOST], len(found) > MOST


def report(
    admin: Any, request: HttpRequest, outcome: Outcome, said: str, *, many: bool = False, noun: tuple[str, str]
) -> None:
    """Says how many were changed, how many were not, and why not. `said` has a place for the number and the noun."""
    one, several = noun
    level = messages.SUCCESS if outcome.done else messages.WARNING
    admin.message_user(request, said.format(outcome.done, one if outcome.done == 1 else several), level)
    for why, number in Counter(outcome.left.values()).most_common():
        left = f"{number} {one if number == 1 else several} left unchanged: {why}."
        admin.message_user(request, left, messages.WARNING)
    if many:
        note = f"An action takes {MOST:,} {several} at once; there are more. Repeat it for the others."
        admin.message_user(request, note, messages.WARNING)


@contextmanager
def errors_shown(admin: Any, request: HttpRequest) -> Iterator[None]:
    """What Duebox refuses is a message on the page."""
    try:
        yield
    except DueboxError as error:
        admin.message_user(request, str(error), messages.ERROR)


def ask_reason(
    admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Any], *, title: str, text: str
) -> TemplateResponse | str:
    """The reason that the user gave, or the page that asks for one."""
    reason = request.POST.get("reason", "").strip()
    if reason:
        return reason
    rows, more = first(queryset)
    context = {
        **admin.admin_site.each_context(request),
        "title": title,
        "text": text,
        "opts": admin.opts,
        "media": admin.media,
        "rows": rows,
        "more": more,
        "most": MOST,
        "action": request.POST.get("action", ""),
        "missing": "reason" in request.POST,
        "field": SELECTED,
        "ids": ",".join(str(row.pk) for row in rows),
    }
    return TemplateResponse(request, "admin/duebox/reason.html", context)


def spread_selected(request: Any) -> None:
    """The ids of the page that asked for a reason, as if each of them came from the checkbox of its row."""
    if ids := request.POST.get(SELECTED):
        posted = request.POST.copy()
        posted.setlist(helpers.ACTION_CHECKBOX_NAME, ids.split(","))
        request.POST = posted


Why = Callable[[Any], str]


def sorted_out(rows: Iterable[Any], why_not: Why) -> tuple[list[Any], dict[Any, str]]:
    """Those that an action can take, and the others by their id, each with the reason."""
    left = {row.pk: why for row in rows if (why := why_not(row))}
    return [row for row in rows if row.pk not in left], left
