"""Whether the installation has outgrown how it runs, and what to do next: figures, thresholds, recommendations.

Rates and times come from the counts per minute, the rest from the statistics of the server. No table of events is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from duebox.conf import conf
from duebox.events.address import is_outside
from duebox.observe.rollup import ALL, HOUR, KEEP, MINUTE, Total, percentile, series, totals
from duebox.observe.slo import DAY
from duebox.observe.status import MOST, Status, status
from duebox.store import database_state
from duebox.store.database_state import ServerFacts
from duebox.store.run_sql import database_time

THRESHOLDS: dict[str, float] = {
    "events_per_hour": 10_000,
    "events_per_day": 100_000,
    "failure_rate": 5.0,
    "avg_delay": 60.0,
    "events_per_minute": 60_000,
    "oldest_due_seconds": 60.0,
    "busy_share": 70.0,
    "handler_share": 50.0,
    "dead_tuple_share": 20.0,
    "oldest_transaction_seconds": 300.0,
    "notify_queue_share": 10.0,
    "events_stored": 50_000_000,
}
"""Values above these lead to a recommendation. Rates are averages of a day, shares are percentages."""
LEAST_DEAD_TUPLES = 10_000
LEAST_BUSY_MS = 60_000.0


@dataclass(frozen=True, slots=True)
class Recommendation:
    issue: str
    current: float
    threshold: float
    recommendation: str


@dataclass(frozen=True, slots=True)
class Advice:
    recommendations: tuple[Recommendation, ...]
    metrics: dict[str, float]
    """The five numbers of `get_metrics`."""
    facts: dict[str, float | None]
    """Other measured values, by the names of THRESHOLDS."""

    @property
    def evolution_needed(self) -> bool:
        return bool(self.recommendations)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "evolution_needed": self.evolution_needed,
            "recommendations": [asdict(each) for each in self.recommendations],
            "metrics": self.metrics,
            "facts": self.facts,
        }


def get_metrics(*, using: str | None = None, now: datetime | None = None) -> dict[str, float]:
    """Schedules to come; deliveries that were completed and that failed for good in 24 hours; their mean time in
    seconds from due to done; and the percentage of the deliveries of 30 days that needed more than one attempt."""
    alias = using or conf().DATABASE
    moment = now or datetime.fromtimestamp(database_time(alias), UTC)
    day = _total(alias, moment, DAY)
    month = _total(alias, moment, KEEP)
    ended = month.delivered + month.dead
    spent_ms = day.lateness.total_ms + day.duration.total_ms
    return {
        "scheduled_count": _scheduled(alias),
        "completed_24h": day.delivered,
        "failed_24h": day.dead,
        "processing_time_avg": round(spent_ms / day.count / 1000, 3) if day.count else 0.0,
        "retry_rate": round(100 * month.repeated / ended, 2) if ended else 0.0,
    }


def _total(using: str, now: datetime, length: Any) -> Total:
    return totals("subscriber", now - length, now, ALL, histograms=False, using=using).get(ALL, Total(ALL, 0))


def _scheduled(using: str) -> int:
    """Exact up to 10,000; above that an estimate of the server."""
    counted = database_state.scheduled(using, MOST + 1)
    if counted <= MOST:
        return counted
    return max(counted, database_state.server_facts(using).scheduled_estimate or 0)


def advise(*, using: str | None = None, now: datetime | None = None, known_status: Status | None = None) -> Advice:
    """Measured values, and a recommendation for each that is above its threshold. A caller that has read the status
    just now passes it as `known_status`."""
    alias = using or conf().DATABASE
    moment = now or datetime.fromtimestamp(database_time(alias), UTC)
    metrics = get_metrics(using=alias, now=moment)
    measured = _Measured(alias, moment, metrics, known_status or status(using=alias))
    facts = measured.facts()
    found = tuple(
        Recommendation(issue, round(current, 2), THRESHOLDS[name], text)
        for name, issue, text in measured.recommendations()
        if (current := facts[name]) is not None and current > THRESHOLDS[name]
    )
    return Advice(found, metrics, {name: None if each is None else round(each, 2) for name, each in facts.items()})


_ADD_WORKERS = "manage.py duebox worker --processes N"
_TEXTS = {
    "events_per_hour": ("High event volume", "Consider adding Redis caching layer: {redis_or_workers}."),
    "events_per_day": (
        "High daily event volume",
        "Consider a managed service: send events to a bus such as EventBridge (DUEBOX['DESTINATIONS']), and let it "
        "deliver them to their consumers.",
    ),
    "failure_rate": (
        "High failure rate",
        "Investigate failure causes, consider circuit breakers: `manage.py duebox deliveries groups` lists the causes; "
        "calls to other systems belong into a destination, which has a circuit breaker.",
    ),
    "avg_delay": ("High delay", f"Add workers ({{workers}} run now): {_ADD_WORKERS}."),
    "events_per_minute": (
        "High peak of events",
        "The peak was at {peak}. Consider change data capture (Debezium) instead of workers for events that only go to "
        "a bus: manage.py duebox sql cdc.",
    ),
    "oldest_due_seconds": ("Deliveries wait", "{backlog}"),
    "busy_share": (
        "Handlers use most of the worker threads",
        f"{{workers}} workers with {{threads}} threads are busy; add processes ({_ADD_WORKERS}), or raise "
        "DUEBOX['THREADS'] for handlers that wait for other systems.",
    ),
    "handler_share": (
        "{slowest} uses most of the handler time",
        "Run it in a separate worker{p99}: manage.py duebox worker --only {slowest}. A limit keeps it from taking all "
        "threads: @on(..., limit=duebox.Limit(concurrency=N)).",
    ),
    "dead_tuple_share": (
        "Dead rows in {table}",
        "{dead} dead rows are not removed; see that autovacuum runs, end transactions that stay open, and: VACUUM "
        "{table}.",
    ),
    "oldest_transaction_seconds": (
        "A transaction stays open",
        "Session {pid} ({application}) keeps dead rows from being removed, so claims become slower; end it, or set "
        "idle_in_transaction_session_timeout.",
    ),
    "notify_queue_share": (
        "The queue of NOTIFY fills up",
        "A session that listens does not read; {redis_or_session}.",
    ),
    "events_stored": (
        "Many stored events",
        "Remove old events sooner with DUEBOX['RETENTION_EVENTS_DAYS']; copy those that you need to another store.",
    ),
}
"""For each threshold the issue and the recommendation, with placeholders of `_Measured._values`."""


class _Measured:
    def __init__(self, using: str, now: datetime, metrics: dict[str, float], known_status: Status) -> None:
        self.metrics = metrics
        self.known_status = known_status
        self.server: ServerFacts = database_state.server_facts(using)
        self.day = _total(using, now, DAY)
        hour = totals("subscriber", now - HOUR, now, using=using)
        self.handlers = [each for name, each in hour.items() if name != ALL and not is_outside(name)]
        points = series("emitted", now - DAY, now, MINUTE, using=using)
        self.peak = max(points, key=lambda point: point.count)
        self.threads = max(1, self.known_status.workers) * conf().THREADS
        self.slowest = max(self.handlers, key=_busy_ms, default=Total(ALL, 0))
        tables = {each["table"]: each for each in self.server.tables}
        self.events_stored = tables.get("duebox_event", {}).get("live", 0)
        self.bloated = max(tables.values(), key=_dead_share, default={"table": "", "live": 0, "dead": 0})

    def facts(self) -> dict[str, float | None]:
        """By the names of THRESHOLDS."""
        completed, failed = self.metrics["completed_24h"], self.metrics["failed_24h"]
        all_busy = sum(map(_busy_ms, self.handlers))
        workers_are_known = self.known_status.workers > 0
        return {
            "events_per_hour": completed / 24,
            "events_per_day": completed,
            "failure_rate": 100 * failed / (completed + failed) if completed + failed else 0.0,
            "avg_delay": (self.day.lateness.total_ms / self.day.count / 1000) if self.day.count else 0.0,
            "events_per_minute": self.peak.count,
            "oldest_due_seconds": self.known_status.oldest_due_seconds or 0.0,
            "busy_share": 100 * all_busy / (3_600_000 * self.threads) if workers_are_known else None,
            "handler_share": 100 * _busy_ms(self.slowest) / all_busy if all_busy >= LEAST_BUSY_MS else None,
            "dead_tuple_share": _dead_share(self.bloated),
            "oldest_transaction_seconds": self.server.oldest_transaction_seconds,
            "notify_queue_share": 100 * self.server.notify_queue_share,
            "events_stored": self.events_stored,
        }

    def recommendations(self) -> Iterator[tuple[str, str, str]]:
        """The name of the threshold, the issue, and what to do."""
        values = self._values()
        for name, (issue, text) in _TEXTS.items():
            yield name, issue.format_map(values), text.format_map(values)

    def _values(self) -> dict[str, object]:
        """The values of the placeholders in `_TEXTS`."""
        set_redis = "set DUEBOX['REDIS_URL'], and Redis wakes the workers instead of NOTIFY"
        has_redis = bool(conf().REDIS_URL)
        p99 = percentile(self.slowest.duration, 0.99)
        return {
            "redis_or_workers": f"Redis is in use already, so add workers: {_ADD_WORKERS}" if has_redis else set_redis,
            "redis_or_session": "end the session that listens" if has_redis else set_redis,
            "workers": self.known_status.workers,
            "threads": conf().THREADS,
            "peak": f"{self.peak.at:%Y-%m-%d %H:%M} UTC",
            "backlog": self._for_a_backlog(),
            "slowest": self.slowest.name,
            "p99": f" (its p99 is {p99:,.0f} ms)" if p99 is not None else "",
            "table": self.bloated["table"],
            "dead": f"{self.bloated['dead']:,}",
            "pid": self.server.oldest_transaction_pid,
            "application": self.server.oldest_transaction_application or "no name",
        }

    def _for_a_backlog(self) -> str:
        due = self.known_status.number("due")
        if not self.known_status.workers:
            return f"{due} are due and no worker runs: manage.py duebox worker."
        polling_workers = self.known_status.workers - self.known_status.listening
        polling = (
            f" {polling_workers} of them poll: NOTIFY does not reach them, or they do not listen."
            if polling_workers
            else ""
        )
        more = f"{due} are due for {self.known_status.workers} workers; add more: {_ADD_WORKERS}."
        return f"{more}{polling}"


def _busy_ms(total: Total) -> float:
    return total.duration.total_ms


def _dead_share(table: dict[str, Any]) -> float:
    """Percentage of dead rows; 0 if there are only a few."""
    dead, live = table["dead"], table["live"]
    return 100 * dead / (dead + live) if dead >= LEAST_DEAD_TUPLES else 0.0
