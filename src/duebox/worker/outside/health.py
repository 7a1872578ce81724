"""What the outcomes say about a destination: failing, to be left alone for a while, well again."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from duebox.auditing.text import printable
from duebox.fingerprint import error_line
from duebox.store import gates
from duebox.store.deliveries import Ended
from duebox.worker.outside.carrying import failure_of, is_success, seconds_asked
from duebox.worker.outside.desk import Desk

logger = logging.getLogger("duebox.worker")

TELL_SECONDS = 60.0
GAP = 1.5
"""An event that is tried again and again keeps a failure alive; so many times its longest wait without one end it."""
PROBE_AGAIN_SECONDS = 1.0
PROBE_SECONDS = 60.0
"""How long the others wait for a worker that tries one event, should he never come back with an answer."""


def judge(using: str, desk: Desk, ended: list[Ended]) -> bool:
    """Note how a destination fares. True when it is to be left alone from now on."""
    if not desk.probing:
        # Asked once more: it may have been reset by the judgement of calls that ended before.
        return _judge(using, desk, ended, tripped=desk.tripped or desk.breaks(), probed=False)
    answer = desk.answer_of_probe()
    # While one event is tried only that one tells, and not the late answers of calls that began before the pause.
    return answer is not None and _judge(using, desk, answer, tripped=False, probed=True)


def _judge(using: str, desk: Desk, ended: list[Ended], *, tripped: bool, probed: bool) -> bool:
    errors = [error for end in ended if (error := failure_of(end.outcome)) is not None]
    took_some = any(is_success(end.outcome) for end in ended)
    if took_some:
        _well(using, desk, probed=probed)
    elif probed and not errors:  # the event was not fit to tell
        gates.probe_again(using, desk.name, PROBE_AGAIN_SECONDS)
    if not errors:
        return False
    if not took_some:
        _ill(using, desk, errors[-1])
    if (asked := seconds_asked(ended)) > 0:  # whatever it has taken besides
        return _leave_alone(using, desk, asked, errors[-1], counts=False, probed=probed)
    if desk.terms.breaker and (probed or tripped):
        return _leave_alone(using, desk, desk.terms.breaker.pause, errors[-1], counts=True, probed=probed)
    if probed:  # it had asked for peace, and now fails for another reason
        gates.probe_again(using, desk.name, PROBE_AGAIN_SECONDS)
    return False


def _well(using: str, desk: Desk, *, probed: bool) -> None:
    if not (probed or desk.failing_since):
        return
    if probed:
        logger.info("destination works again: name=%s", desk.name)
        desk.recent.clear()
        desk.well_since = time.monotonic()
    gates.close(using, desk.name, probed=probed)
    desk.failing_since = None


def _ill(using: str, desk: Desk, error: BaseException) -> None:
    now = time.monotonic()
    if desk.failing_since and now - desk.told_at < TELL_SECONDS:
        return
    gap = GAP * desk.terms.retry.longest + TELL_SECONDS
    desk.failing_since = gates.failing(using, desk.name, error_line(error), gap=gap)
    desk.told_at = now
    desk.destination.fails_since(datetime.fromtimestamp(desk.failing_since, UTC))


def _leave_alone(using: str, desk: Desk, pause: float, error: BaseException, *, counts: bool, probed: bool) -> bool:
    longest = max(pause, desk.terms.breaker.longest) if desk.terms.breaker and counts else pause
    told = error_line(error)
    seconds = gates.open(using, desk.name, pause=pause, longest=longest, error=told, counts=counts, probed=probed)
    desk.recent.clear()
    if seconds is not None:
        logger.warning("destination left alone: name=%s seconds=%g error=%s", desk.name, seconds, printable(told))
    return True
