"""Settle deliveries: write their outcomes, notify about dead letters, log and count, and promote the next of a
stream."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connections, transaction

from duebox.conf import conf
from duebox.context import metrics
from duebox.context.logging import log_fields_of
from duebox.dead_letters import notify
from duebox.dead_letters.fingerprint import error_line
from duebox.events.identities import printable
from duebox.events.outcomes import Dead, Delivered, Discard, Expired, Outcome, Retried, Snooze, outcome_name
from duebox.exceptions import Refused, Throttled, Undelivered
from duebox.signals import died, settled
from duebox.store import deliveries
from duebox.store.deliveries import Claim, Ended, promote, release
from duebox.worker.connections import replace_connections, with_retries
from duebox.worker.measure import measure
from duebox.worker.resources import Resources
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import limited

_one_at_a_time = threading.Lock()


class OutcomeCounts:
    """What a worker has done so far."""

    def __init__(self) -> None:
        self.delivered = self.discarded = self.expired = self.snoozed = self.retried = self.dead = self.lost = 0

    def add(self, ended: Iterable[Ended]) -> None:
        counts = Counter(outcome_name(end.outcome) for end in ended)
        with _one_at_a_time:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))

    def __str__(self) -> str:
        return ", ".join(f"{word} {count:,}" for word, count in vars(self).items() if count) or "nothing to do"


logger = logging.getLogger("duebox.worker")
delivery_logger = logging.getLogger("duebox.worker.deliveries")
"""One line for each delivery at INFO. It has a logger of its own, so that a busy project can switch it off."""


def settle(using: str, lease: int, ended: Sequence[Ended], *, now: datetime | None = None) -> set[int]:
    """Write outcomes; returns the ids of deliveries that no longer belong to this lease. A dead letter and the event
    about it are committed together. An outcome that cannot be stored, because of what a handler put into it, does not
    keep the others from being stored."""
    try:
        return _settle(using, lease, ended, now)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        if connections[using].in_atomic_block:
            raise
        logger.exception("outcomes could not be written together; now one by one")
        return set().union(*(_settle_one(using, lease, end, now) for end in ended))


def _settle_one(using: str, lease: int, end: Ended, now: datetime | None) -> set[int]:
    try:
        return _settle(using, lease, [end], now)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        return _settle(using, lease, [end._replace(outcome=_plain(end.outcome, error))], now)


def _plain(outcome: Outcome, error: Exception) -> Outcome:
    """The outcome without what a handler has put into it."""
    if outcome is None or isinstance(outcome, Delivered):
        return None
    problem = RuntimeError(f"its outcome could not be written down: {type(error).__name__}")
    return Retried(TUNABLES.unwritable_retry_seconds, problem) if isinstance(outcome, Retried) else Dead(problem)


def _settle(using: str, lease: int, ended: Sequence[Ended], now: datetime | None) -> set[int]:
    died = notify.to_report(ended)
    if not died:
        return deliveries.settle(using, lease, ended, now=now)
    with transaction.atomic(using=using):
        lost = deliveries.settle(using, lease, ended, now=now)
        notify.report(using, [notify.death_of(end) for end in died if end.claim.id not in lost])
    return lost


class Settler:
    """Writes the outcomes of deliveries, to handlers and to destinations, and does what follows from them."""

    def __init__(self, resources: Resources) -> None:
        self.lease = resources.lease
        self.outcome_counts = OutcomeCounts()
        self._using = resources.using
        self._wakeup = resources.wakeup
        self._measures = bool(conf().METRICS)

    def settle(self, lease: int, ended: list[Ended], *, if_lost: str) -> None:
        """Write the outcomes of deliveries that were claimed under this lease. `if_lost` tells in the log what it means
        for those that are no longer this worker's."""
        lost = with_retries(partial(settle, self._using, lease, ended))
        self.settled([end for end in ended if end.claim.id not in lost] if lost else ended)
        if lost:
            self.lost([end.claim for end in ended if end.claim.id in lost], if_lost)

    def settled(self, ended: list[Ended]) -> None:
        """Count outcomes that were written, log them, send the signals, and wake the loop for what is due next."""
        self.outcome_counts.add(ended)
        if self._measures:
            self._measure(ended)
        self.promote_next([end.claim for end in ended])
        report(ended)
        settled.send_robust(sender=Settler, ended=ended)
        otherwise = [end for end in ended if end.outcome is not None]
        if any(isinstance(end.outcome, Retried | Snooze) for end in otherwise):
            self._wakeup.claim(look=True)
        for end in otherwise:
            if isinstance(end.outcome, Dead):
                died.send_robust(sender=Settler, claim=end.claim, error=end.outcome.error)

    def _measure(self, ended: list[Ended]) -> None:
        """An error here changes nothing: the deliveries are settled."""
        try:
            measure(ended)
        except Exception:
            logger.exception("deliveries are missing in the metrics: count=%d", len(ended))

    def lost(self, claims: Sequence[Claim], consequence: str) -> None:
        """These were no longer this worker's when it settled them. Perhaps it had settled them itself, and the answer
        was lost with the connection: then no other worker promotes the next of their streams, or knows when a retry is
        due."""
        for claim in claims:
            self.outcome_counts.lost += 1
            logger.warning("lease lost, nothing overwritten: %r; %s", claim, consequence, extra=fields_of(claim))
        metrics.SETTLED.add_many({("lost",): len(claims)})
        self.promote_next(claims)
        self._wakeup.claim(look=True)

    def promote_next(self, claims: Iterable[Claim]) -> None:
        """Make the next delivery of each of their streams due."""
        streams = {(claim.subscriber, claim.stream) for claim in claims if claim.stream is not None}
        if streams:
            with_retries(partial(promote, self._using, streams))
            self._wakeup.streams_moved_on()

    def fail(self, ended: list[Ended]) -> int:
        """Write outcomes of deliveries that could not be run, one by one; returns how many of them were still this
        worker's. If they cannot be written, their leases end."""
        written = 0
        try:
            replace_connections()
            for end in ended:
                with limited():
                    lost = settle(self._using, end.claim.lease, [end])
                if not lost:
                    written += 1
                    self.settled([end])
        except (DatabaseError, InterfaceError) as problem:
            replace_connections()
            self._abandon([end.claim for end in ended], f"failures could not be written: {str(problem).strip()}")
        return written

    def release(self, claims: list[Claim], why: str) -> None:
        """Give deliveries back that did not run. They use up no attempt."""
        for lease in {claim.lease for claim in claims}:
            ids = [claim.id for claim in claims if claim.lease == lease]
            logger.info("released: count=%s reason=%s", len(ids), why, extra={"count": len(ids), "reason": why})
            try:
                with_retries(partial(release, self._using, lease, ids))
            except (DatabaseError, InterfaceError) as error:
                logger.warning("not released, left to the rescue: count=%s error=%s", len(ids), str(error).strip())

    def release_at_once(self, claims: list[Claim]) -> None:
        """Without a retry: if they cannot be released now, their leases end, and another worker rescues them."""
        try:
            with limited():
                for claim in claims:
                    release(self._using, claim.lease, [claim.id])
            self._wakeup.claim()
        except (DatabaseError, InterfaceError) as error:
            replace_connections()
            self._abandon(claims, f"deliveries could not be given back: {str(error).strip()}")

    def _abandon(self, claims: Iterable[Claim], reason: str) -> None:
        """End the leases that these were claimed under. The worker may have a new lease by now, which it keeps."""
        for lease in {claim.lease for claim in claims}:
            self.lease.abandon(reason, lease)


def report(ended: Sequence[Ended]) -> None:
    """Log settled deliveries: failures as warnings with their traceback, and each delivery at INFO where that is
    switched on. The data of events is never logged."""
    each_one = delivery_logger.isEnabledFor(logging.INFO)
    for end in ended:
        outcome = end.outcome
        if outcome is None and not each_one:
            continue
        if isinstance(outcome, Dead):
            logger.error("dead letter: %s error=%s", _named(end), _line(outcome), **_details(end, outcome, "dead"))
        elif isinstance(outcome, Retried) and not isinstance(outcome.error, Throttled):
            which = f"{_named(end)} retry_in={outcome.after_seconds:.1f}s"
            logger.warning("attempt failed: %s error=%s", which, _line(outcome), **_details(end, outcome, "retried"))
        elif each_one:
            word = _WORDS.get(type(outcome), "delivered")
            delivery_logger.info("%s: %s%s", word, _named(end), _more(outcome), extra=_fields(end, word))


_WORDS: dict[type, str] = {Discard: "discarded", Expired: "expired", Snooze: "snoozed", Retried: "throttled"}


def _named(end: Ended) -> str:
    claim, took = end.claim, f"took={end.took_ms:.1f}ms"
    if claim.event_is_gone:
        return f"subscriber={claim.subscriber} delivery={claim.id} attempt={claim.attempt} {took}"
    fact = claim.fact
    return f"subscriber={claim.subscriber} type={fact.type} event_id={fact.id} attempt={claim.attempt} {took}"


def _line(outcome: Retried | Dead) -> str:
    return printable(error_line(outcome.error))


def _more(outcome: Outcome) -> str:
    if isinstance(outcome, Snooze):
        return f" until={outcome.until.isoformat() if isinstance(outcome.until, datetime) else outcome.until}"
    if isinstance(outcome, Discard):
        return f" reason={printable(outcome.reason)}"
    if isinstance(outcome, Expired):
        return f" at={outcome.at.isoformat()}"
    return f" retry_in={outcome.after_seconds:.1f}s" if isinstance(outcome, Retried) else ""


def _details(end: Ended, outcome: Retried | Dead, word: str) -> dict[str, Any]:
    """With the traceback, for the terminal and for services that collect errors. An answer of a destination has none
    that would help."""
    answered = isinstance(outcome.error, Undelivered | Refused)
    fields = {**_fields(end, word), "error": _line(outcome), "error_type": type(outcome.error).__name__}
    if isinstance(outcome, Retried):
        fields["retry_in"] = round(outcome.after_seconds, 1)
    return {"extra": fields, "exc_info": None if answered else outcome.error}


def _fields(end: Ended, word: str) -> dict[str, Any]:
    return {"outcome": word, "took_ms": round(end.took_ms, 1), **fields_of(end.claim)}


def fields_of(claim: Claim) -> dict[str, Any]:
    """For structured logs: which delivery a line is about, and the ids of its event."""
    known = {"subscriber": claim.subscriber, "delivery": claim.id, "attempt": claim.attempt, "lease": claim.lease}
    return known if claim.event_is_gone else {**known, "event_type": claim.fact.type, **log_fields_of(claim.fact)}
