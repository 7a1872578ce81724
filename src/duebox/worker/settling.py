"""Settlement as the worker does it: together with the word about those that died; and what the log says of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.db import InterfaceError, OperationalError, connections, transaction

from duebox.auditing.text import printable
from duebox.exceptions import Refused, Throttled, Undelivered
from duebox.fingerprint import error_line
from duebox.logs import story_of
from duebox.notices import deaths
from duebox.outcome import Dead, Delivered, Discard, Expired, Outcome, Retried, Snooze
from duebox.store import deliveries, leases
from duebox.store.deliveries import Ended

logger = logging.getLogger("duebox.worker")
delivery_logger = logging.getLogger("duebox.worker.deliveries")
"""One line for each delivery at INFO. It has a logger of its own, so that a busy project can do without."""

_AGAIN_SECONDS = 60.0


def settle(using: str, lease: int, ended: Sequence[Ended], *, now: datetime | None = None) -> set[int]:
    """As in the store; a death and its notice are committed together. An outcome that cannot be written down, whatever
    a handler made it of, keeps nobody else's from being."""
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
    """What it comes to, without what a handler has put into it."""
    if outcome is None or isinstance(outcome, Delivered):
        return None
    told = RuntimeError(f"its outcome could not be written down: {type(error).__name__}")
    return Retried(_AGAIN_SECONDS, told) if isinstance(outcome, Retried) else Dead(told)


def _settle(using: str, lease: int, ended: Sequence[Ended], now: datetime | None) -> set[int]:
    died = deaths.to_tell(ended)
    if not died:
        return deliveries.settle(using, lease, ended, now=now)
    with transaction.atomic(using=using):
        lost = deliveries.settle(using, lease, ended, now=now)
        deaths.tell(using, [deaths.death_of(end) for end in died if end.claim.id not in lost])
    return lost


def rescue(using: str, limit: int, *, always: bool = False) -> int:
    return leases.rescue(using, limit, always=always, tell=partial(deaths.tell_of_killers, using))


def report(ended: Sequence[Ended]) -> None:
    """Log what was settled: failures as warnings with their traceback, and each delivery at INFO where that is asked
    for. The data of events is never logged."""
    each_one = delivery_logger.isEnabledFor(logging.INFO)
    for end in ended:
        outcome = end.outcome
        if outcome is None and not each_one:
            continue
        if isinstance(outcome, Dead):
            logger.error("dead letter: %s error=%s", _named(end), _line(outcome), **_details(end, outcome))
        elif isinstance(outcome, Retried) and not isinstance(outcome.error, Throttled):
            which = f"{_named(end)} retry_in={outcome.after_seconds:.1f}s"
            logger.warning("attempt failed: %s error=%s", which, _line(outcome), **_details(end, outcome))
        elif each_one:
            told = _WORDS.get(type(outcome), "delivered")
            delivery_logger.info("%s: %s%s", told, _named(end), _more(outcome), extra=_story(end))


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


def _details(end: Ended, outcome: Retried | Dead) -> dict[str, Any]:
    """The traceback, for the terminal and for services that collect errors. What a destination answered has none that
    would say anything."""
    answered = isinstance(outcome.error, Undelivered | Refused)
    return {"extra": _story(end), "exc_info": None if answered else outcome.error}


def _story(end: Ended) -> dict[str, str]:
    return {} if end.claim.event_is_gone else story_of(end.claim.fact)
