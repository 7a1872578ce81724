"""The response to a webhook: whether it means success, and which parts of it are redacted before they are stored.

Error pages and tools that show requests repeat the credentials of the receiver; these are redacted. This does not
protect against a receiver that deliberately encodes its own token in another way.
"""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator
from email.utils import parsedate_to_datetime
from urllib.parse import unquote, unquote_plus

from duebox.destinations.webhooks.http import Answer
from duebox.destinations.webhooks.signatures import SIGNATURE
from duebox.events.outcomes import Delivered
from duebox.exceptions import Refused, Throttled, Undelivered

MASK = "***"
SHORT = 4
"""A shorter text is redacted only as a whole word, because it occurs in too many others."""
TOKEN = 12
"""A path segment of this length may be a secret by itself."""
_PLAIN = re.compile(r"[A-Za-z0-9_=,.: -]*")
"""A text with only these characters has the same spelling everywhere."""
_IN_NUMBERS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "&<>"}
_IN_MORE_NUMBERS = {ord(letter): f"\\u{ord(letter):04X}" for letter in "&<>+'\"`"}
"""The escapes of JSON libraries that make their output safe for HTML."""
_SIGNED = f"\r\n{SIGNATURE}: ".encode()


class Redaction:
    """Redacts the secrets of an endpoint: its headers, and the path and the query of its URL."""

    def __init__(self, path: str, headers: Iterable[str]) -> None:
        plain = {*_of_path(path), *(each for value in headers for each in _of_header(value))}
        self._secrets = _longest_first(each for each in plain if len(each) >= SHORT)
        self._words = [re.compile(rf"(?<!\w){re.escape(each)}(?!\w)") for each in plain if 0 < len(each) < SHORT]

    def over(self, answer: Answer, request: bytes) -> Answer:
        """The response, without secrets that it repeats from the request."""
        if not answer.text:
            return answer
        text, secrets = answer.text, [*self._secrets, *_longest_first(_signatures(request))]
        for each in secrets:
            text = text.replace(each, MASK)
        for each in secrets:
            text = _without_beginning(text, each)
        for word in self._words:
            text = word.sub(MASK, text)
        return answer._replace(text=text)

    def __repr__(self) -> str:
        return "Mask(…)"


def _of_path(path: str) -> Iterator[str]:
    """The whole text, and the parts that a receiver may show alone."""
    before, _, query = path.partition("?")
    wholes = [path, before, query] if query else [path]
    tokens = [each for each in before.split("/") if len(each) >= TOKEN]
    values = [pair.partition("=")[2] for pair in query.split("&")]
    for each in (*wholes, *tokens, *values):
        if each != "/":
            yield from (each, unquote(each), unquote_plus(each))


def _of_header(value: str) -> Iterator[str]:
    """`Bearer abc` and also `abc`."""
    yield from (value, value.partition(" ")[2].strip())


def _signatures(request: bytes) -> Iterator[str]:
    _, _, rest = request.partition(_SIGNED)
    signed = rest.partition(b"\r\n")[0].decode("ascii")
    for each in signed.split():
        yield each.partition(",")[2]


def _longest_first(plain: Iterable[str]) -> list[str]:
    """Each in the spellings of plain text, JSON and HTML; longer ones first, so that a part is not matched before the
    whole."""
    return sorted({spelt for each in plain for spelt in _spelt(each)}, key=len, reverse=True)


def _spelt(text: str) -> Iterator[str]:
    yield text
    if _PLAIN.fullmatch(text):
        return
    quoted, page = json.dumps(text)[1:-1], html.escape(text)
    yield from (quoted, quoted.replace("/", "\\/"), quoted.translate(_IN_NUMBERS), text.translate(_IN_MORE_NUMBERS))
    yield from (page, page.replace("&#x27;", "&#39;"), html.escape(text, quote=False), html.escape(quoted))


def _without_beginning(text: str, secret: str) -> str:
    """Redact the end of a truncated text if it may be the beginning of a secret."""
    begins = secret[:SHORT]
    at = text.find(begins, max(0, len(text) - len(secret)))
    while at >= 0:
        if secret.startswith(text[at:]):
            return text[:at] + MASK
        at = text.find(begins, at + 1)
    return text


GONE = 410
LONGEST_WAIT = 24 * 3600.0
_SECONDS = re.compile(r"[0-9]{1,9}")
_BUSY = (429, 502, 503, 504)


def judged(answer: Answer, refused: Collection[int] = ()) -> Delivered | Undelivered | Refused:
    """Only 2xx is success. A redirect is not followed: a moved endpoint needs a new URL."""
    status = answer.status
    if 200 <= status < 300:
        return Delivered(answer.text, status)
    if status in refused:
        return Refused(described(answer), status=status)
    if status in _BUSY and (status == 429 or answer.retry_after):
        return Throttled(described(answer), seconds=seconds_to_wait(answer.retry_after), status=status)
    return Undelivered(described(answer), status=status)


def described(answer: Answer) -> str:
    return f"The answer was {answer.status}.{f' {answer.text}' if answer.text else ''}"


def seconds_to_wait(header: str | None, now: float | None = None) -> float:
    """The Retry-After header, in seconds or as a date, at most a day; 0 if it is missing or invalid."""
    text = (header or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(0.0, moment - (time.time() if now is None else now)), LONGEST_WAIT)
