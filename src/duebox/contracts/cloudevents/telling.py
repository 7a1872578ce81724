"""An event, told as a CloudEvent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict, Unpack

from duebox.conf import conf
from duebox.contracts.cloudevents import attributes
from duebox.contracts.cloudevents.attributes import JSON, SPECVERSION, STRUCTURED, Value
from duebox.exceptions import InvalidEvent
from duebox.fact import Fact
from duebox.tracing import KEY, parse

_INTERNAL = {
    "aggregate_id": ("subject", "partitionkey"),
    "organization_id": ("organizationid",),
    "correlation_id": ("correlationid",),
    "causation_id": ("causationid",),
    "actor": ("authtype", "authid"),
}
"""Attributes by the field of the envelope that they come from."""


class Options(TypedDict, total=False):
    source: str
    """In the place of the event's producer: an absolute URI, or a reference."""
    prefix: str
    """In front of the type: a reverse domain name such as `com.example`."""
    schemas_url: str
    """Where the schema files can be read; `dataschema` is then `<url>/<type>.v<version>.json`."""
    extensions: Mapping[str, Value]
    """Attributes of your own."""


class Message(NamedTuple):
    """What goes over HTTP."""

    headers: dict[str, str]
    body: bytes


def structured(fact: Fact, **options: Unpack[Options]) -> dict[str, Any]:
    """All of it in one JSON object."""
    return {**_attributes(fact, options), "data": fact.data}


def structured_message(fact: Fact, **options: Unpack[Options]) -> Message:
    return Message({"content-type": f"{STRUCTURED}; charset=utf-8"}, _json(structured(fact, **options)))


def binary(fact: Fact, **options: Unpack[Options]) -> Message:
    """The data as the body, the attributes as headers."""
    told = _attributes(fact, options)
    headers = {f"ce-{name}": attributes.in_header(value) for name, value in told.items() if name != "datacontenttype"}
    return Message({"content-type": JSON, **headers}, _json(fact.data))


def _attributes(fact: Fact, options: Options) -> dict[str, Value]:
    about, actor, url = fact.about, fact.actor, options.get("schemas_url", "")
    if url and not attributes.is_uri(url):
        raise InvalidEvent(f"schemas_url={url!r} is no absolute URI; pass one like 'https://example.com/schemas'.")
    told: dict[str, object] = {
        "specversion": SPECVERSION,
        "id": str(fact.id),
        "source": _source(options.get("source") or fact.producer),
        "type": ".".join(filter(None, (options.get("prefix", "").rstrip("."), fact.type))),
        "time": attributes.time_text(fact.occurred_at),
        "datacontenttype": JSON,
        "dataschema": f"{url.rstrip('/')}/{fact.type}.v{fact.version}.json" if url else "",
        "subject": _subject(about) if about else "",
        "partitionkey": about.id if about else "",
        "schemaversion": str(fact.version),
        "organizationid": fact.organization,
        "correlationid": fact.correlation_id,
        "causationid": str(fact.causation_id or ""),
        "authtype": attributes.AUTH_TYPES.get(actor.type, "unknown") if actor else "",
        "authid": actor.id if actor else "",
        "traceparent": str(parse(fact.metadata.get(KEY)) or ""),
    }
    if fact.type.startswith("public."):
        told = _without_internals(told)
    own = {name: attributes.checked_value(name, value) for name, value in told.items() if value}
    given = options.get("extensions") or {}
    return {**own, **{name: attributes.checked_extension(name, value) for name, value in given.items()}}


def _without_internals(told: dict[str, object]) -> dict[str, object]:
    """Of a public event: the tenant is the workspace, and the rest goes out only where PUBLIC_ENVELOPE allows it."""
    allowed = conf().PUBLIC_ENVELOPE
    told["workspaceid"] = told["organizationid"]
    hidden = [name for field, names in _INTERNAL.items() if field not in allowed for name in names]
    return {name: value for name, value in told.items() if name not in hidden}


def _source(source: str) -> str:
    if attributes.is_uri_reference(source):
        return source
    fact = "has no producer" if not source else f"has the producer {source!r}, which is no URI"
    raise InvalidEvent(
        f"The event {fact}, so a CloudEvent of it has no source; set DUEBOX['PRODUCER'] to an absolute URI like "
        "'https://shop.example/orders', or pass source=."
    )


def _subject(about: tuple[str, str]) -> str:
    kind, identity = about
    # Only the first slash divides, so the id may hold others; in the kind they are written differently.
    return f"{kind.replace('%', '%25').replace('/', '%2F')}/{identity}"


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
