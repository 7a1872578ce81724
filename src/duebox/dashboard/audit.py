"""The audit log: search it, and verify that it is as it was written."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.http import HttpRequest, HttpResponse

from duebox import clock
from duebox.audit_log.verify import Verdict, verify
from duebox.cli.audit import matching
from duebox.conf import conf
from duebox.dashboard.page import page, show
from duebox.observe import browse

SEARCHED = ("about", "actor", "organization", "action", "correlation_id", "since", "until")
SPANS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
VERIFY_SECONDS = 5.0


class _OutOfTime(Exception):
    pass


@page("view_audit")
def audit(request: HttpRequest) -> HttpResponse:
    given = {name: request.GET.get(name, "").strip() for name in (*SEARCHED, "before")}
    context: dict[str, Any] = {"given": given, "filtered": any(given[name] for name in SEARCHED), "spans": SPANS}
    options: dict[str, Any] = {name: given[name] or None for name in SEARCHED}
    if given["about"]:
        kind, _, id = given["about"].partition(":")
        options["about"] = (kind, id)
    try:
        rows = matching({**options, "database": None})
    except CommandError as error:
        return show(request, "audit", {**context, "problem": str(error)}, status=400)
    before = browse.id_cursor(given["before"])
    return show(request, "audit", {**context, "found": browse.entries(rows, before=before)}, live=before is None)


@page("view_audit", seconds=VERIFY_SECONDS)
def verify_log(request: HttpRequest) -> HttpResponse:
    """Of the last hour, day or week; the command verifies all of it."""
    span = request.GET.get("span", "")
    if span not in SPANS:
        span = "hour"
    context: dict[str, Any] = {"section": "audit", "span": span, "spans": SPANS}
    try:
        verdict = _verified(SPANS[span])
    except _OutOfTime:
        context["out_of_time"] = VERIFY_SECONDS
    else:
        context["verdict"] = verdict
    return show(request, "verify", context)


def _verified(span: timedelta) -> Verdict:
    deadline = time.monotonic() + VERIFY_SECONDS

    def progress(many: int) -> None:
        if time.monotonic() > deadline:
            raise _OutOfTime

    return verify(conf().DATABASE, since=clock.now() - span, progress=progress)
