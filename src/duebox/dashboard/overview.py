"""The overview: the status in tiles, problems with their repair, and the latest attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse

from duebox.conf import conf
from duebox.dashboard.page import page, show
from duebox.dashboard.snapshot import Snapshot
from duebox.observe import rollup
from duebox.observe.advise import Advice, advise
from duebox.observe.lines import span
from duebox.observe.slo import Report, slo
from duebox.observe.status import MOST, Status, status
from duebox.observe.watch import Sight, latest
from duebox.store import rollup as store
from duebox.store.rollup import Regular
from duebox.store.run_sql import TooSlow

snapshot = Snapshot(lambda using: status(using=using))
NOTHING = "\N{EN DASH}"
CHARTED = timedelta(hours=1)
CHART_SECONDS = 5.0
latest_attempts: Snapshot[list[Sight]] = Snapshot(lambda using: latest(12, using=using))


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    value: str
    note: str = ""
    tone: str = ""
    """`warn` or `bad`; nothing where all is well."""
    to: str = ""
    """The query of the list that shows what was counted."""
    page: str = "events"


@page("view_events")
def overview(request: HttpRequest) -> HttpResponse:
    using = conf().DATABASE
    found = current_status()
    context = {
        "status": found,
        "no_worker": bool(found.due and not found.workers),
        "problems": found.problems(),
        "tiles": tiles(found),
        "ahead": ahead(found),
        "latest": latest_attempts.get(using),
        "charts": charts.get(using),
        "slo": levels.get(using),
        "advice": advice.get(using),
    }
    return show(request, "overview", context, live=True)


def current_status() -> Status:
    found = snapshot.get(conf().DATABASE)
    if found is None:
        raise TooSlow
    return found


def tiles(found: Status) -> list[Tile]:
    oldest, limit = found.oldest_due_seconds, found.thresholds.age
    listening = f"{found.listening} listening" if found.workers else "start one: manage.py duebox worker"
    held = f"{number(found, 'held_back')} more held back" if found.held_back else f"{number(found, 'running')} running"
    return [
        Tile("Due now", number(found, "due"), held, "bad" if found.due and not found.workers else "", "state=due"),
        Tile(
            "Oldest due", span(oldest) if oldest is not None else NOTHING, f"late after {span(limit)}",
            "bad" if oldest is not None and oldest > limit else "", "state=due",
        ),
        Tile("Retrying", number(found, "retrying"), "failed, will be retried", "warn" if found.retrying else "",
             "state=retrying"),
        Tile("Dead letters", number(found, "dead"), f"{number(found, 'parked')} parked", "bad" if found.dead else "",
             page="dead_letters"),
        Tile("Waiting", number(found, "waiting"), "behind another delivery", "", "state=waiting"),
        Tile("Workers", f"{found.workers:,}", listening, "" if found.workers else "bad" if found.due else "warn",
             page="workers"),
    ]  # fmt: skip


def ahead(found: Status) -> list[Tile]:
    """What the schedules will fire."""
    late = found.schedules_overdue
    names = ("minute", "hour", "day")
    return [
        *(Tile(f"Next {name}", number(found, f"schedules_next_{name}"), page="schedules") for name in names),
        Tile("Overdue", number(found, "schedules_overdue"), "", "bad" if late else "", page="schedules"),
    ]


def _charts(using: str) -> dict[str, Any]:
    """The last hour by minutes, from the rollup; None where nothing was counted yet."""
    until = rollup.counted_until(using)
    if until is None:
        return {}
    since = until - CHARTED
    delivered, retried, dead = (
        rollup.series(metric, since, until, using=using) for metric in ("delivered", "retried", "dead")
    )
    late = rollup.series("lateness", since, until, using=using)
    x = [point.at.timestamp() for point in delivered]
    return {
        "throughput": {
            "x": x,
            "series": [
                _line("Delivered", "--wait", [point.count for point in delivered], fill=True),
                _line("Failed", "--warn", [point.count for point in retried]),
                _line("Dead", "--bad", [point.count for point in dead]),
            ],
        },
        "lateness": {
            "x": x,
            "unit": "s",
            "series": [
                _line("p50", "--wait", [_seconds(point, 0.5) for point in late], fill=True),
                _line("p99", "--warn", [_seconds(point, 0.99) for point in late]),
            ],
        },
        "total": f"{sum(point.count for point in delivered):,}",
        "until": until,
    }


def _levels(using: str) -> Report:
    def cached(using: str, since: datetime, recent: datetime) -> list[Regular]:
        return regularity.get(using, since, recent) or []

    return slo(using=using, known_status=snapshot.get(using), regularity=cached)


REGULARITY_SECONDS = 60.0
"""How regularly event types come changes once an hour."""
regularity: Snapshot[list[Regular]] = Snapshot(store.regularity, REGULARITY_SECONDS)
levels: Snapshot[Report] = Snapshot(_levels, CHART_SECONDS)
charts: Snapshot[dict[str, Any]] = Snapshot(_charts, CHART_SECONDS)
advice: Snapshot[Advice] = Snapshot(lambda using: advise(using=using, known_status=snapshot.get(using)), CHART_SECONDS)


def _line(label: str, color: str, values: list[Any], *, fill: bool = False) -> dict[str, Any]:
    return {"label": label, "color": color, "values": values, "fill": fill}


def _seconds(point: rollup.Point, share: float) -> float | None:
    ms = rollup.percentile(point.histogram, share) if point.histogram else None
    return None if ms is None else round(ms / 1000, 4)


def number(found: Status, name: str) -> str:
    """One that was not counted to its end has a plus sign."""
    return f"{MOST:,}+" if name in found.more else f"{getattr(found, name):,}"
