"""What an attribute of a CloudEvent may be called and may hold, and how it looks in a header."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from duebox.exceptions import InvalidEvent
from duebox.headers import shown

Value = str | int | bool

SPECVERSION = "1.0"
JSON = "application/json"
STRUCTURED = "application/cloudevents+json"
CORE = ("specversion", "id", "source", "type", "time", "datacontenttype", "dataschema", "subject")
EXTENSIONS = (
    "partitionkey", "schemaversion", "organizationid", "workspaceid", "correlationid", "causationid",
    "authtype", "authid", "traceparent",
)  # fmt: skip

AUTH_TYPES = {"user": "app_user", "service": "service_account", "api_key": "api_key", "system": "system"}
"""The types of actors by their names in the extension for authentication; others are "unknown" there."""

_NAME = re.compile(r"[a-z0-9]+")
_LONGEST_NAME = 20
_PLANES = "".join(f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(17))
_FORBIDDEN = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_PLANES}]")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_IN_HOST = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_IN_PATH = rf"(?:{_IN_HOST}|/)"
_IN_QUERY = rf"(?:{_IN_PATH}|\?)"
# Every character has one place only, so a long text that fails does so in one pass.
_URI_REFERENCE = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))"
    rf"(?://(?:{_IN_HOST}|\[[0-9A-Fa-f:.]+\])*(?:/{_IN_PATH}*)?|{_IN_PATH}*)"
    rf"(?:\?{_IN_QUERY}*)?(?:\#{_IN_QUERY}*)?"
)
# In a header, as the HTTP binding asks: printable ASCII but space, double quote and percent.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "data":
        raise InvalidEvent(
            f"Attribute name {name!r} is not one of CloudEvents; use lower-case letters and digits only."
        )
    return name


def checked_extension(name: str, value: Value) -> Value:
    """A name and a value that the caller adds; stricter than what is read from others."""
    if len(checked_name(name)) > _LONGEST_NAME:
        raise InvalidEvent(f"Attribute name {name!r} is long; CloudEvents asks for at most {_LONGEST_NAME} characters.")
    if name in CORE or name in EXTENSIONS:
        raise InvalidEvent(f"Attribute {name!r} is filled from the event itself; choose another name.")
    return checked_value(name, value)


def checked_value(name: str, value: object) -> Value:
    if isinstance(value, str):
        if not _FORBIDDEN.search(value):
            return value
        what, repair = "holds a character that CloudEvents cannot carry", "leave out control characters"
        raise InvalidEvent(f"Attribute {name!r} is {shown(value)}, which {what}; {repair}.")
    if isinstance(value, bool) or (isinstance(value, int) and -(2**31) <= value < 2**31):
        return value
    raise InvalidEvent(
        f"Attribute {name!r} is {kind_of(value)}; only texts, booleans and 32-bit integers can be one, so move it "
        "into the data."
    )


def kind_of(value: object) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")


def is_uri_reference(text: str) -> bool:
    return bool(text) and _URI_REFERENCE.fullmatch(text) is not None


def is_uri(text: str) -> bool:
    found = _URI_REFERENCE.fullmatch(text)
    return bool(found and found["scheme"])


def time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def time_of(text: str) -> datetime:
    try:
        if not _TIME.fullmatch(text):
            raise ValueError("not RFC 3339")
        return datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise InvalidEvent(
            f"Attribute 'time' is {shown(text)} ({error}); write it like 2027-03-29T09:00:00Z."
        ) from None


def in_header(value: Value) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe=_PLAIN)


def from_header(name: str, text: str) -> str:
    """A quoted string is unquoted first, which older senders still use, then percent-decoded once."""
    try:
        if not (text.isascii() and text.isprintable()):
            raise ValueError("not printable ASCII")
        quoted = _QUOTED.fullmatch(text)
        plain = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
        return unquote(plain, errors="strict")
    except ValueError as error:
        raise InvalidEvent(f"Header 'ce-{name}' is {shown(text)} ({error}); percent-encode it as UTF-8.") from None
