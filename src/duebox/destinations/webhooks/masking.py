"""What of an answer is not kept: the credentials of the receiver, where it answers with what it was sent.

Error pages do, and tools that show requests. A receiver that wants to see its own token in the history can write it in
a way that nobody recognises.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, unquote_plus

from duebox.destinations.webhooks.answers import Answer
from duebox.destinations.webhooks.signing import SIGNATURE

MASK = "***"
SHORT = 4
"""What is shorter is masked as a word of its own only; it is in too many others."""
TOKEN = 12
"""So long a piece of a path may be a secret by itself."""
_PLAIN = re.compile(r"[A-Za-z0-9_=,.: -]*")
"""Everybody writes it the same way."""
_IN_NUMBERS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "&<>"}
_IN_MORE_NUMBERS = {ord(letter): f"\\u{ord(letter):04X}" for letter in "&<>+'\"`"}
"""As libraries for JSON do that think of HTML."""
_SIGNED = f"\r\n{SIGNATURE}: ".encode()


class Mask:
    """Over what an endpoint must not show: its headers, and the path and the query of its URL."""

    def __init__(self, path: str, headers: Iterable[str]) -> None:
        plain = {*_of_path(path), *(each for value in headers for each in _of_header(value))}
        self._secrets = _longest_first(each for each in plain if len(each) >= SHORT)
        self._words = [re.compile(rf"(?<!\w){re.escape(each)}(?!\w)") for each in plain if 0 < len(each) < SHORT]

    def over(self, answer: Answer, request: bytes) -> Answer:
        """The answer, without what it has taken from the request."""
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
    """All of it, and the pieces that a receiver may show alone."""
    before, _, query = path.partition("?")
    wholes = [path, before, query] if query else [path]
    tokens = [each for each in before.split("/") if len(each) >= TOKEN]
    values = [pair.partition("=")[2] for pair in query.split("&")]
    for each in (*wholes, *tokens, *values):
        if each != "/":
            yield from (each, unquote(each), unquote_plus(each))


def _of_header(value: str) -> Iterator[str]:
    """`Bearer abc` is also known as `abc`."""
    yield from (value, value.partition(" ")[2].strip())


def _signatures(request: bytes) -> Iterator[str]:
    _, _, rest = request.partition(_SIGNED)
    signed = rest.partition(b"\r\n")[0].decode("ascii")
    for each in signed.split():
        yield each.partition(",")[2]


def _longest_first(plain: Iterable[str]) -> list[str]:
    """Each in the spellings of plain text, JSON and HTML; a part is not to be found before the whole."""
    return sorted({spelt for each in plain for spelt in _spelt(each)}, key=len, reverse=True)


def _spelt(text: str) -> Iterator[str]:
    yield text
    if _PLAIN.fullmatch(text):
        return
    quoted, page = json.dumps(text)[1:-1], html.escape(text)
    yield from (quoted, quoted.replace("/", "\\/"), quoted.translate(_IN_NUMBERS), text.translate(_IN_MORE_NUMBERS))
    yield from (page, page.replace("&#x27;", "&#39;"), html.escape(text, quote=False), html.escape(quoted))


def _without_beginning(text: str, secret: str) -> str:
    """The end of a text is where it was cut, perhaps in the middle of a secret."""
    begins = secret[:SHORT]
    at = text.find(begins, max(0, len(text) - len(secret)))
    while at >= 0:
        if secret.startswith(text[at:]):
            return text[:at] + MASK
        at = text.find(begins, at + 1)
    return text
