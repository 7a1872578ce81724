"""The circuit breaker of destinations: open after failures, tried again after a pause, closed after a success."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from duebox.dead_letters.fingerprint import error_line
from duebox.events.identities import printable
from duebox.store import destinations
from duebox.store.deliveries import Ended
from duebox.worker.senders.destination_queue import DestinationQueue
from duebox.worker.senders.sender_threads import failure_of, is_success, seconds_asked
from duebox.worker.tunables import TUNABLES

logger = logging.getLogger("duebox.worker")


def judge(using: str, queue: DestinationQueue, ended: list[Ended]) -> bool:
    """Store what these outcomes say about the destination. True when it is not called for a while."""
    if not queue.probing:
        # `breaks` is asked again: `tripped` may have been reset after calls that ended before.
        return _judge(using, queue, ended, tripped=queue.tripped or queue.breaks(), probed=False)
    answer = queue.answer_of_probe()
    # While one event is tried, only its answer counts, and not the late ones of calls that began before the pause.
    return answer is not None and _judge(using, queue, answer, tripped=False, probed=True)


def _judge(using: str, queue: DestinationQueue, ended: list[Ended], *, tripped: bool, probed: bool) -> bool:
    errors = [error for end in ended if (error := failure_of(end.outcome)) is not None]
    accepted_some = any(is_success(end.outcome) for end in ended)
    if accepted_some:
        _has_recovered(using, queue, probed=probed)
    elif probed and not errors:  # the error was about the event, not about the destination
        destinations.delay_probe(using, queue.name, TUNABLES.probe_again_seconds)
    if not errors:
        return False
    if not accepted_some:
        _is_failing(using, queue, errors[-1])
    if (asked := seconds_asked(ended)) > 0:  # even if it has accepted others
        return _open(using, queue, asked, errors[-1], counts=False, probed=probed)
    if queue.policy.breaker and (probed or tripped):
        return _open(using, queue, queue.policy.breaker.pause, errors[-1], counts=True, probed=probed)
    if probed:  # it had asked for a pause, and now fails for another reason
        destinations.delay_probe(using, queue.name, TUNABLES.probe_again_seconds)
    return False


def _has_recovered(using: str, queue: DestinationQueue, *, probed: bool) -> None:
    if not (probed or queue.failing_since):
        return
    if probed:
        logger.info("destination works again: name=%s", queue.name, extra={"destination": queue.name})
        queue.recent.clear()
        queue.recovered_at = time.monotonic()
    destinations.close_breaker(using, queue.name, probed=probed)
    queue.failing_since = None


def _is_failing(using: str, queue: DestinationQueue, error: BaseException) -> None:
    now = time.monotonic()
    if queue.failing_since and now - queue.stored_failing_at < TUNABLES.store_failing_seconds:
        return
    gap = TUNABLES.failing_gap * queue.policy.retry.longest + TUNABLES.store_failing_seconds
    queue.failing_since = destinations.record_failure(using, queue.name, error_line(error), gap=gap)
    queue.stored_failing_at = now
    queue.destination.fails_since(datetime.fromtimestamp(queue.failing_since, UTC))


def _open(
    using: str, queue: DestinationQueue, pause: float, error: BaseException, *, counts: bool, probed: bool
) -> bool:
    longest = max(pause, queue.policy.breaker.longest) if queue.policy.breaker and counts else pause
    line = error_line(error)
    seconds = destinations.open_breaker(
        using, queue.name, pause=pause, longest=longest, error=line, counts=counts, probed=probed
    )
    queue.recent.clear()
    if seconds is not None:
        fields = {"destination": queue.name, "seconds": seconds, "error": printable(line)}
        logger.warning("circuit breaker opened: name=%s seconds=%g error=%s", *fields.values(), extra=fields)
    return True
