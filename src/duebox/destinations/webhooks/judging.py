"""What the answer to a webhook means."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from email.utils import parsedate_to_datetime

from duebox.destinations.webhooks.answers import Answer
from duebox.exceptions import Refused, Throttled, Undelivered
from duebox.outcome import Delivered

GONE = 410
LONGEST_WAIT = 24 * 3600.0
_SECONDS = re.compile(r"[0-9]{1,9}")
_BUSY = (429, 502, 503, 504)


def judged(answer: Answer, refused: Collection[int] = ()) -> Delivered | Undelivered | Refused:
    """Only 2xx is taken. A redirect is not: who moves says so by a new URL, not to whoever is asked in passing."""
    status = answer.status
    if 200 <= status < 300:
        return Delivered(answer.text, status)
    if status in refused:
        return Refused(told(answer), status=status)
    if status in _BUSY and (status == 429 or answer.retry_after):
        return Throttled(told(answer), seconds=seconds_to_wait(answer.retry_after), status=status)
    return Undelivered(told(answer), status=status)


def told(answer: Answer) -> str:
    return f"The answer was {answer.status}.{f' {answer.text}' if answer.text else ''}"


def seconds_to_wait(header: str | None, now: float | None = None) -> float:
    """Of Retry-After: seconds or a date, at most a day; 0 where it says nothing that can be read."""
    text = (header or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(0.0, moment - (time.time() if now is None else now)), LONGEST_WAIT)
