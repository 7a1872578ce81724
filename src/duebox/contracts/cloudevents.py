"""CloudEvents 1.0: an event in the format that other systems read, and their events as arguments of `emit`.

Authenticate the sender first. Attributes without a matching field are stored in `metadata["cloudevent"]`.

| Event                  | CloudEvent                                                    |
|------------------------|---------------------------------------------------------------|
| id                     | `id`                                                          |
| producer               | `source`                                                      |
| type                   | `type`, with an optional prefix                               |
| version                | `schemaversion`, and in `dataschema` where schemas have a URL |
| occurred_at            | `time`                                                        |
| about                  | `subject`, as in `order/42`, and `partitionkey`, the id       |
| organization           | `organizationid`                                              |
| correlation, causation | `correlationid`, `causationid`                                |
| actor                  | `authid` and `authtype`; the email is not sent                |
| traceparent            | `traceparent`                                                 |
| data                   | `data`, as JSON                                               |

The idempotency key and other metadata are not sent. A public event has `workspaceid`, and none of subject,
partitionkey, organization, correlation, causation and actor unless PUBLIC_ENVELOPE allows it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict, Unpack
from urllib.parse import quote, unquote
from uuid import UUID

from duebox.conf import conf
from duebox.context.origins import shown
from duebox.context.tracing import KEY, parse
from duebox.contracts.validation import kind_of
from duebox.events.fact import Fact
from duebox.exceptions import InvalidEvent

__all__ = [
    "Message", "Options", "binary", "read", "read_binary", "read_structured", "structured", "structured_message",
]  # fmt: skip

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
"""Our types of actors and their names in the authentication extension; others are "unknown" there."""

_NAME = re.compile(r"[a-z0-9]+")
_LONGEST_NAME = 20
_PLANES = "".join(f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(17))
_FORBIDDEN = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_PLANES}]")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_IN_HOST = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_IN_PATH = rf"(?:{_IN_HOST}|/)"
_IN_QUERY = rf"(?:{_IN_PATH}|\?)"
# Each character can match in one place only, so a long invalid text fails in one pass.
_URI_REFERENCE = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))"
    rf"(?://(?:{_IN_HOST}|\[[0-9A-Fa-f:.]+\])*(?:/{_IN_PATH}*)?|{_IN_PATH}*)"
    rf"(?:\?{_IN_QUERY}*)?(?:\#{_IN_QUERY}*)?"
)
# In a header, as the HTTP binding requires: printable ASCII except space, double quote and percent.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "data":
        raise InvalidEvent(
            f"Attribute name {name!r} is not valid in CloudEvents; use lower-case letters and digits only."
        )
    return name


def checked_extension(name: str, value: Value) -> Value:
    """An attribute that the caller adds; stricter than for attributes of received events."""
    if len(checked_name(name)) > _LONGEST_NAME:
        raise InvalidEvent(
            f"Attribute name {name!r} is too long; CloudEvents allows at most {_LONGEST_NAME} characters."
        )
    if name in CORE or name in EXTENSIONS:
        raise InvalidEvent(f"Attribute {name!r} is filled from the event itself; choose another name.")
    return checked_value(name, value)


def checked_value(name: str, value: object) -> Value:
    if isinstance(value, str):
        if _FORBIDDEN.search(value):
            raise InvalidEvent(
                f"Attribute {name!r} is {shown(value)}, which contains a character that CloudEvents does not allow; "
                f"leave "
                "out control characters."
            )
        return value
    if isinstance(value, bool) or (isinstance(value, int) and -(2**31) <= value < 2**31):
        return value
    raise InvalidEvent(
        f"Attribute {name!r} is {kind_of(value)}; only texts, booleans and 32-bit integers are allowed, so move it "
        "into the data."
    )


def is_uri_reference(text: str) -> bool:
    return bool(text) and _URI_REFERENCE.fullmatch(text) is not None


def is_uri(text: str) -> bool:
    found = _URI_REFERENCE.fullmatch(text)
    return bool(found and found["scheme"])


def in_header(value: Value) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe=_PLAIN)


def from_header(name: str, text: str) -> str:
    """Unquoted, because older senders send quoted strings, then percent-decoded once."""
    try:
        if not (text.isascii() and text.isprintable()):
            raise ValueError("not printable ASCII")
        quoted = _QUOTED.fullmatch(text)
        plain = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
        return unquote(plain, errors="strict")
    except ValueError as error:
        raise InvalidEvent(f"Header 'ce-{name}' is {shown(text)} ({error}); percent-encode it as UTF-8.") from None


_INTERNAL = {
    "aggregate_id": ("subject", "partitionkey"),
    "organization_id": ("organizationid",),
    "correlation_id": ("correlationid",),
    "causation_id": ("causationid",),
    "actor": ("authtype", "authid"),
}
"""The attributes that come from each field of the envelope."""


class Options(TypedDict, total=False):
    source: str
    """Instead of the event's producer: an absolute URI, or a reference."""
    prefix: str
    """Before the type: a reverse domain name such as `com.example`."""
    schemas_url: str
    """Where the schema files can be read; `dataschema` is then `<url>/<type>.v<version>.json`."""
    extensions: Mapping[str, Value]
    """Additional attributes."""


class Message(NamedTuple):
    """An HTTP message."""

    headers: dict[str, str]
    body: bytes


def structured(fact: Fact, **options: Unpack[Options]) -> dict[str, Any]:
    """The event as one JSON object."""
    return {**_attributes(fact, options), "data": fact.data}


def structured_message(fact: Fact, **options: Unpack[Options]) -> Message:
    return Message({"content-type": f"{STRUCTURED}; charset=utf-8"}, _json_bytes(structured(fact, **options)))


def binary(fact: Fact, **options: Unpack[Options]) -> Message:
    """The data as the body, the attributes as headers."""
    attributes = _attributes(fact, options)
    headers = {f"ce-{name}": in_header(value) for name, value in attributes.items() if name != "datacontenttype"}
    return Message({"content-type": JSON, **headers}, _json_bytes(fact.data))


def _attributes(fact: Fact, options: Options) -> dict[str, Value]:
    about, actor, url = fact.about, fact.actor, options.get("schemas_url", "")
    if url and not is_uri(url):
        raise InvalidEvent(f"schemas_url={url!r} is not an absolute URI; pass one like 'https://example.com/schemas'.")
    found: dict[str, object] = {
        "specversion": SPECVERSION,
        "id": str(fact.id),
        "source": _source(options.get("source") or fact.producer),
        "type": ".".join(filter(None, (options.get("prefix", "").rstrip("."), fact.type))),
        "time": fact.occurred_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": JSON,
        "dataschema": f"{url.rstrip('/')}/{fact.type}.v{fact.version}.json" if url else "",
        "subject": _subject(about) if about else "",
        "partitionkey": about.id if about else "",
        "schemaversion": str(fact.version),
        "organizationid": fact.organization,
        "correlationid": fact.correlation_id,
        "causationid": str(fact.causation_id or ""),
        "authtype": AUTH_TYPES.get(actor.type, "unknown") if actor else "",
        "authid": actor.id if actor else "",
        "traceparent": str(parse(fact.metadata.get(KEY)) or ""),
    }
    if fact.type.startswith("public."):
        found["workspaceid"] = fact.organization
        for field in _INTERNAL.keys() - set(conf().PUBLIC_ENVELOPE):
            for name in _INTERNAL[field]:
                del found[name]
    own = {name: checked_value(name, value) for name, value in found.items() if value}
    extensions = options.get("extensions") or {}
    return {**own, **{name: checked_extension(name, value) for name, value in extensions.items()}}


def _source(source: str) -> str:
    if is_uri_reference(source):
        return source
    fact = "has no producer" if not source else f"has the producer {source!r}, which is not a URI"
    raise InvalidEvent(
        f"The event {fact}, so its CloudEvent would have no source; set DUEBOX['PRODUCER'] to an absolute URI like "
        "'https://shop.example/orders', or pass source=."
    )


def _subject(about: tuple[str, str]) -> str:
    kind, identity = about
    # The first slash is the separator, so the id may contain others; those in the kind are escaped.
    return f"{kind.replace('%', '%25').replace('/', '%2F')}/{identity}"


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


_LONGEST_KEY = 500
_HIGHEST_VERSION = 32_767


def read(headers: Mapping[str, str], body: bytes, *, prefix: str = "") -> dict[str, Any]:
    """A received event as arguments of `emit`, in the mode that its content type names."""
    if _content_type(_lower(headers)).startswith("application/cloudevents"):
        return read_structured(body, prefix=prefix)
    return read_binary(headers, body, prefix=prefix)


def read_structured(document: bytes | str | Mapping[str, Any], *, prefix: str = "") -> dict[str, Any]:
    """One JSON object, parsed or not."""
    parsed = document if isinstance(document, Mapping) else _parsed_json(document)
    if not isinstance(parsed, Mapping):
        raise InvalidEvent(f"A CloudEvent must be a JSON object, but this is {kind_of(parsed)}; send one at a time.")
    found = {name: value for name, value in parsed.items() if value is not None}
    data, packed = found.pop("data", None), found.pop("data_base64", None)
    if data is not None and packed is not None:
        raise InvalidEvent("The CloudEvent has both data and data_base64; send one of them.")
    checked = {checked_name(name): checked_value(name, value) for name, value in found.items()}
    if packed is not None:
        _refuse_other_content(str(checked.get("datacontenttype", "")))
        data = _parsed_json(_unpacked(packed))
    elif data is not None:
        _refuse_other_content(str(checked.get("datacontenttype", JSON)))
    return _values(checked, data, prefix)


def read_binary(headers: Mapping[str, str], body: bytes, *, prefix: str = "") -> dict[str, Any]:
    """The attributes in `ce-` headers, the data as the body."""
    lower = _lower(headers)
    if "ce-datacontenttype" in lower:
        raise InvalidEvent("The CloudEvent has a header 'ce-datacontenttype'; use Content-Type instead.")
    attributes: dict[str, Value] = {}
    for header, text in lower.items():
        if header.startswith("ce-"):
            name = checked_name(header.removeprefix("ce-"))
            attributes[name] = checked_value(name, from_header(name, text))
    if body:
        _refuse_other_content(_content_type(lower) or JSON)
    return _values(attributes, _parsed_json(body) if body else None, prefix)


def _values(attributes: dict[str, Value], data: object, prefix: str) -> dict[str, Any]:
    """The arguments of `emit`. Attributes that become an argument are removed; the others go into the metadata."""
    if (version := attributes.pop("specversion", None)) != SPECVERSION:
        raise InvalidEvent(f"The CloudEvent has specversion {shown(str(version))}; send version '{SPECVERSION}'.")
    if data is not None and not isinstance(data, dict):
        raise InvalidEvent(f"The data is {kind_of(data)}; the data of an event must be an object, so wrap it in one.")
    identity, source, type = (_text(attributes, name, required=True) for name in ("id", "source", "type"))
    if not is_uri_reference(source):
        raise InvalidEvent(f"Attribute 'source' is {shown(source)}, which is not a URI; send one.")
    attributes.pop("datacontenttype", None)
    values: dict[str, Any] = {
        "type": type.removeprefix(f"{prefix.rstrip('.')}.") if prefix else type,
        "data": data,
        "about": _about(attributes),
        "organization": _text(attributes, "organizationid") or _text(attributes, "workspaceid") or None,
        "idempotency_key": _key(source, identity),
        "actor": _actor(attributes),
        "version": _version(attributes),
        "occurred_at": _occurred_at(attributes),
        "correlation_id": _text(attributes, "correlationid") or None,
        "causation_id": _causation(attributes),
    }
    parent = parse(attributes.pop(KEY, None))
    metadata: dict[str, Any] = {"cloudevent": {"id": identity, "source": source, **attributes}}
    return {**values, "metadata": {**metadata, KEY: str(parent)} if parent else metadata}


def _text(attributes: dict[str, Value], name: str, *, required: bool = False) -> str:
    value = attributes.pop(name, "")
    if isinstance(value, str) and (value or not required):
        return value
    raise InvalidEvent(f"Attribute {name!r} is {shown(str(value))}; it must be a text that is not empty.")


def _about(attributes: dict[str, Value]) -> tuple[str, str] | None:
    kind, _, identity = str(attributes.get("subject", "")).partition("/")
    if not kind or not identity:
        return None  # not in Duebox's form, so it goes into the metadata
    del attributes["subject"]
    if attributes.get("partitionkey") == identity:
        del attributes["partitionkey"]
    return unquote(kind), identity


def _actor(attributes: dict[str, Value]) -> dict[str, str] | None:
    key, type = _text(attributes, "authid"), _text(attributes, "authtype")
    ours = {theirs: kind for kind, theirs in AUTH_TYPES.items()}
    return {"type": ours.get(type, type or "unknown"), "id": key} if key else None


def _occurred_at(attributes: dict[str, Value]) -> datetime | None:
    text = _text(attributes, "time")
    if not text:
        return None
    try:
        if not _TIME.fullmatch(text):
            raise ValueError("not RFC 3339")
        return datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise InvalidEvent(
            f"Attribute 'time' is {shown(text)} ({error}); write it like 2027-03-29T09:00:00Z."
        ) from None


def _version(attributes: dict[str, Value]) -> int | None:
    text = str(attributes.get("schemaversion", ""))
    if text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= _HIGHEST_VERSION:
        del attributes["schemaversion"]
        return int(text)
    return None  # `emit` uses the newest version of the type


def _causation(attributes: dict[str, Value]) -> UUID | None:
    try:
        cause = UUID(str(attributes.get("causationid", "")))
    except ValueError:
        return None
    del attributes["causationid"]
    return cause


def _key(source: str, identity: str) -> str:
    """Source and id identify an event, so a repeated one is recognized. A URI contains no space."""
    key = f"{source} {identity}"
    return key if len(key) <= _LONGEST_KEY else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    lower = {name.lower(): text for name, text in headers.items()}
    if len(lower) < len(headers):
        raise InvalidEvent("A header is repeated; send each header once.")
    return lower


def _content_type(lower: Mapping[str, str]) -> str:
    return lower.get("content-type", "").partition(";")[0].strip().lower()


def _refuse_other_content(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if not kind.endswith(("/json", "+json")) or kind.startswith("application/cloudevents"):
        raise InvalidEvent(
            f"The content type of the data is {shown(content_type)}; the data of an event must be JSON, so send {JSON}."
        )


def _unpacked(packed: object) -> bytes:
    try:
        if not isinstance(packed, str):
            raise ValueError(f"it is {kind_of(packed)}")
        return base64.b64decode(packed, validate=True)
    except ValueError as error:
        raise InvalidEvent(f"data_base64 cannot be decoded ({error}); send base64 text.") from None


def _parsed_json(text: bytes | str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeated_names, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidEvent(f"The CloudEvent is not valid JSON ({str(error)[:200]}); correct the sender.") from None


def _without_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is repeated in one object")
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
