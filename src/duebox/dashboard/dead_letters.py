"""Dead letters by cause, and what a person does with deliveries: retry, park, discard.

Each action is a page that does a dry run and says how many it would take, then a POST that names those deliveries: what
failed since, or has another state by now, is left as it is. It is recorded in the audit log in the same transaction.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from duebox import deliveries
from duebox.audit_log.record import Acted, record
from duebox.cli.deliveries import per_second
from duebox.conf import conf
from duebox.dashboard import overview
from duebox.dashboard.page import done, forbidden, may, page, show
from duebox.dashboard.snapshot import forget_all
from duebox.deliveries import STATES, Done, Filters, Group
from duebox.models import Delivery, Event
from duebox.observe import browse
from duebox.observe.browse import Page
from duebox.store import operations

MOST_AT_ONCE = 1_000
"""What one click takes. More would keep the request and its locks for too long; the command takes any number."""
ID = re.compile("[0-9]{1,18}")
VERBS = {"retry": "retried", "park": "parked", "discard": "discarded"}


@page("view_events")
def dead_letters(request: HttpRequest) -> HttpResponse:
    state = "parked" if request.GET.get("state") == "parked" else "dead"
    found = deliveries.groups(state=state, limit=browse.LIMIT + 1, newest=operations.GROUPED)
    counts = overview.current_status()
    context = {
        "state": state,
        "groups": found[: browse.LIMIT],
        "more": len(found) > browse.LIMIT,
        "newest": operations.GROUPED if getattr(counts, state) > operations.GROUPED else None,
        "counts": {name: overview.number(counts, name) for name in ("dead", "parked")},
    }
    return show(request, "dead_letters", context, live=True)


@page("view_events")
def group(request: HttpRequest, id: str) -> HttpResponse:
    """The deliveries of one group."""
    state = "parked" if request.GET.get("state") == "parked" else "dead"
    found = operations.group(conf().DATABASE, id, parked=state == "parked")
    if found is None:
        messages.info(request, f"No {state} delivery is in the group {id} any more.")
        return redirect("duebox_dashboard:dead_letters")
    text = request.GET.get("before", "")
    before = browse.id_cursor(text)
    rows = operations.newest(conf().DATABASE, before=before, limit=browse.LIMIT + 1, group=found, states=[state])
    more = len(rows) > browse.LIMIT
    page = Page(rows[: browse.LIMIT], str(rows[browse.LIMIT - 1].id) if more else None)
    sample = deliveries.get(found.sample)
    context = {
        "section": "dead_letters",
        "state": state,
        "group": found,
        "found": page,
        "sample": sample,
        "given": {"before": text},
    }
    return show(request, "group", context, live=before is None)


@page("view_events")
def act_on_group(request: HttpRequest, id: str, verb: str) -> HttpResponse:
    state = "parked" if request.GET.get("state") == "parked" else "dead"
    found = operations.group(conf().DATABASE, id, parked=state == "parked")
    if found is None:
        messages.info(request, f"No {state} delivery is in the group {id} any more.")
        return redirect("duebox_dashboard:dead_letters")
    what = f"{found.event_type} to {found.subscriber}"
    meant = Meant(state, group=found)
    return _act(request, verb, what, meant, back="dead_letters")


@page("view_events")
def act_on_delivery(request: HttpRequest, id: int, verb: str) -> HttpResponse:
    found = deliveries.get(id)
    if found is None:
        raise Http404(f"No delivery has the id {id}; it was delivered or discarded.")
    what = f"delivery {id}, {found.event_type} to {found.subscriber}"
    meant = Meant(found.state, ids=[id])
    return _act(request, verb, what, meant, back="event", to=found.event_id)


@dataclass(frozen=True, slots=True)
class Meant:
    """The deliveries that a page is about: a group, or one by its id."""

    state: str
    """In which they are now."""
    group: Group | None = None
    ids: Sequence[int] = ()


def _act(request: HttpRequest, verb: str, what: str, meant: Meant, *, back: str, to: str = "") -> HttpResponse:
    if verb not in VERBS:
        raise Http404(verb)
    if not may(request, "redrive"):
        return forbidden(request, "redrive")
    why, rate = request.POST.get("why", "").strip(), request.POST.get("rate", "").strip()
    problem = ""
    if request.method == "POST":
        try:
            if verb != "retry" and not why:
                raise ValueError("Enter a reason. It is stored in the history.")
            result = _done(request, verb, meant, why=why, rate=per_second(rate) if rate else None)
        except (ValueError, ArgumentTypeError) as error:
            problem = str(error)
        else:
            return _finished(request, verb, what, result, back=back, to=to)
    trial = _run(request, verb, _ids(meant), {"state": meant.state}, why=why or "dry run", dry_run=True)
    context = {
        "section": "dead_letters",
        "verb": verb,
        "word": VERBS[verb],
        "what": what,
        "count": len(trial.ids),
        "ids": ",".join(map(str, trial.ids)),
        "state": meant.state,
        "left": Counter(trial.left.values()).most_common(5),
        "sample": deliveries.get(trial.ids[0]) if trial.ids else None,
        "capped": len(trial.ids) >= MOST_AT_ONCE,
        "problem": problem,
        "given": {"why": why, "rate": rate},
    }
    return show(request, "act", context, status=400 if problem else 200)


def _ids(meant: Meant) -> list[int]:
    """The oldest of a group, or those that are named."""
    if meant.group is None:
        return list(meant.ids)
    which = operations.Which(states=[meant.state], group=meant.group)
    return [id for part in operations.batches(conf().DATABASE, limit=MOST_AT_ONCE, **which) for id in part]


def _done(request: HttpRequest, verb: str, meant: Meant, *, why: str, rate: float | None) -> Done:
    """Act on what the dry run showed, as far as it is still in the state that was shown."""
    shown, state = _shown(request)
    which = operations.Which(ids=shown, states=[state], group=meant.group)
    still = [id for part in operations.batches(conf().DATABASE, **which) for id in part]
    if not still:
        now = f"; it is {meant.state} now" if meant.ids else ""
        raise ValueError(f"Nothing was done: none of what was shown is still {state}{now}.")
    rows = {each.id: each for each in _acted(still)}  # before they are discarded
    result = _run(request, verb, still, {"state": state}, why=why, rate=rate)
    record(f"delivery.{VERBS[verb]}", "duebox.delivery", [rows[id] for id in result.ids], conf().DATABASE, why)
    result.left |= dict.fromkeys(set(shown) - set(still), f"it is not {state} any more")
    return result


def _acted(ids: Sequence[int]) -> list[Acted]:
    using = conf().DATABASE
    event_ids = dict(Delivery.objects.using(using).filter(id__in=ids).values_list("id", "event_id"))
    events = Event.objects.using(using).filter(id__in=set(event_ids.values()))
    organizations = dict(events.values_list("id", "organization"))
    return [Acted(id, organizations.get(event, ""), {"event_id": str(event)}) for id, event in event_ids.items()]


def _shown(request: HttpRequest) -> tuple[list[int], str]:
    """The ids and the state of the dry run, from the form."""
    texts, state = request.POST.get("ids", "").split(","), request.POST.get("state", "")
    if not all(ID.fullmatch(each) for each in texts) or len(texts) > MOST_AT_ONCE or state not in STATES:
        raise ValueError("Nothing was done: the form does not name the deliveries that were shown. Look again.")
    return [int(each) for each in texts], state


def _run(
    request: HttpRequest, verb: str, ids: Any, filters: Filters, *, why: str, rate: float | None = None,
    dry_run: bool = False,
) -> Done:  # fmt: skip
    user: Any = request.user
    common: dict[str, Any] = {"by": user.get_username(), "limit": MOST_AT_ONCE, "dry_run": dry_run, **filters}
    acts: dict[str, Callable[[], Done]] = {
        "retry": lambda: deliveries.retry(ids, rate=rate, **common),
        "park": lambda: deliveries.park(ids, note=why, **common),
        "discard": lambda: deliveries.discard(ids, reason=why, **common),
    }
    return acts[verb]()


def _finished(request: HttpRequest, verb: str, what: str, result: Done, *, back: str, to: str) -> HttpResponse:
    word = VERBS[verb]
    forget_all()
    left = f" {len(result.left):,} left as they are." if result.left else ""
    more = " There may be more: do it again." if len(result.ids) >= MOST_AT_ONCE else ""
    return done(request, f"{len(result.ids):,} {word}: {what}.{left}{more}", back, *([to] if to else []))
