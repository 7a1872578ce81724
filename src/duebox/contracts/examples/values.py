"""Values that look like what a field is called, or like its format. Nobody's: example.com, and numbers of films."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOMENT, _DAY, _UUID = "2026-03-29T09:00:00Z", "2026-03-29", "0195dea2-f000-7c4d-9a3b-5e6f70818293"

FORMATS = {
    "date": _DAY, "date-time": _MOMENT, "duration": "P1D", "email": "ada@example.com", "hostname": "example.com",
    "idn-email": "ada@example.com", "idn-hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
    "iri": "https://example.com/", "iri-reference": "/orders/42", "json-pointer": "/lines/0", "regex": "^[a-z]+$",
    "relative-json-pointer": "0", "time": "09:00:00Z", "uri": "https://example.com/", "uri-reference": "/orders/42",
    "uri-template": "/orders/{id}", "uuid": _UUID,
}  # fmt: skip

# The first that is found in the name of a field decides.
_TEXTS = {
    r"iban": "FR7630006000011234567890189", r"e_?mail": "ada@example.com", r"phone|mobile": "+12025550123",
    r"(^|_)url|link|website": "https://example.com/", r"time_?zone|(^|_)zone|(^|_)tz$": "Europe/Paris",
    r"currency": "EUR", r"country": "FR", r"locale": "en-GB", r"language": "en", r"first_?name|given_?name": "Ada",
    r"last_?name|family_?name|surname": "Lovelace", r"user_?name|login": "ada", r"file_?name": "report.pdf",
    r"city|town": "Paris", r"street|address": "1 Main Street", r"zip|post_?code|postal": "75001", r"_at$": _MOMENT,
    r"_on$|date|birthday|(^|_)day$": _DAY, r"_time$": "09:00", r"amount|price|total|balance|cost": "99.50",
    r"(^|_)ip(_|$)": "192.0.2.1", r"colou?r": "#3366cc", r"(^|_)(id|uuid)$": "42", r"role": "admin",
    r"status|state": "active", r"plan|tier": "basic", r"version": "1.0", r"sku|number|reference|(^|_)code$": "A-1",
    r"title|subject": "A title", r"name|author|member|user|guest|patient|doctor|person": "Ada Lovelace",
    r"reason|note|comment|message|description|text|body": "A short text",
}  # fmt: skip
_NUMBERS = {
    r"year": 2026, r"month": 3, r"(^|_)age$": 36, r"cents": 9950, r"amount|price|total|balance|cost": 99.5,
    r"percent|rate": 50, r"lat": 48.86, r"lo?ng": 2.35, r"(^|_)id$": 42, r"minutes|seconds|hours|days": 15,
    r"count|quantity|seats|size|items|members": 3,
}  # fmt: skip
# For patterns: one of them may fit, and is easier to read than what fits by construction.
_GUESSES = (
    "99.50", "A-1", "EUR", "FR", "en", "en-GB", "Ada", "ada", "ADA", "1", "42", "123456", "A1", "AB12", "ABC-123",
    "v1", "1.0", "1.2.3", "09:00", "09:00:00", "+12025550123", "#3366cc", "ada_lovelace", "ada-lovelace",
    "member.invited", "Ada Lovelace",
)  # fmt: skip


def texts(name: str) -> Iterator[str]:
    """For a field of this name, the likeliest first."""
    yield from (text for part, text in _TEXTS.items() if re.search(part, name.lower()))
    yield f"some {name.replace('_', ' ')}" if name else "some text"
    yield from _GUESSES
    yield from FORMATS.values()


def numbers(name: str) -> Iterator[int | float]:
    found = [number for part, number in _NUMBERS.items() if re.search(part, name.lower())]
    yield from (*found, *(round(number) for number in found), 1, 10, 0, 100)


def fitted(text: str, least: int, most: int | None) -> str:
    """The same text, long and short enough."""
    if len(text) < least:
        text = (f"{text} " * (least // (len(text) + 1) + 1))[:least]
        text = text[:-1] + "." if text.endswith(" ") else text
    return text if most is None or len(text) <= most else text[:most]
