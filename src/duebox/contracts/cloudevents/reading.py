"""A CloudEvent of somebody else, as the arguments that `emit` takes: `duebox.emit(**read(headers, body))`.

Authenticate the sender first. What has no place of its own in an event is kept in `metadata["cloudevent"]`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from duebox.contracts.cloudevents import attributes
from duebox.contracts.cloudevents.attributes import JSON, SPECVERSION, Value, kind_of
from duebox.exceptions import InvalidEvent
from duebox.headers import shown
from duebox.tracing import KEY, parse

_LONGEST_KEY = 500
_HIGHEST_VERSION = 32_767


def read(headers: Mapping[str, str], body: bytes, *, prefix: str = "") -> dict[str, Any]:
    """In the mode that the sender chose, which its content type tells."""
    if _content_type(_lower(headers)).startswith("application/cloudevents"):
        return read_structured(body, prefix=prefix)
    return read_binary(headers, body, prefix=prefix)


def read_structured(document: bytes | str | Mapping[str, Any], *, prefix: str = "") -> dict[str, Any]:
    """One JSON object, parsed or not."""
    given = document if isinstance(document, Mapping) else _json(document)
    if not isinstance(given, Mapping):
        raise InvalidEvent(f"A CloudEvent is a JSON object, and this is {kind_of(given)}; send one at a time.")
    told = {name: value for name, value in given.items() if value is not None}
    data, packed = told.pop("data", None), told.pop("data_base64", None)
    if data is not None and packed is not None:
        raise InvalidEvent("The CloudEvent has both data and data_base64; send one of them.")
    checked = {attributes.checked_name(name): attributes.checked_value(name, value) for name, value in told.items()}
    if packed is not None:
        _refuse_other_content(str(checked.get("datacontenttype", "")))
        data = _json(_unpacked(packed))
    elif data is not None:
        _refuse_other_content(str(checked.get("datacontenttype", JSON)))
    return _values(checked, data, prefix)


def read_binary(headers: Mapping[str, str], body: bytes, *, prefix: str = "") -> dict[str, Any]:
    """The attributes in `ce-` headers, the data as the body."""
    lower = _lower(headers)
    if "ce-datacontenttype" in lower:
        raise InvalidEvent("The CloudEvent has a header 'ce-datacontenttype'; say it with Content-Type.")
    told: dict[str, Value] = {}
    for header, text in lower.items():
        if header.startswith("ce-"):
            name = attributes.checked_name(header.removeprefix("ce-"))
            told[name] = attributes.checked_value(name, attributes.from_header(name, text))
    if body:
        _refuse_other_content(_content_type(lower) or JSON)
    return _values(told, _json(body) if body else None, prefix)


def _values(told: dict[str, Value], data: object, prefix: str) -> dict[str, Any]:
    """The arguments of `emit`. Each one takes its attribute out of `told`; what is left is kept beside them."""
    if (version := told.pop("specversion", None)) != SPECVERSION:
        raise InvalidEvent(f"The CloudEvent has specversion {shown(str(version))}; send version '{SPECVERSION}'.")
    if data is not None and not isinstance(data, dict):
        raise InvalidEvent(f"The data is {kind_of(data)}; events carry objects, so wrap it in one.")
    identity, source, type = (_text(told, name, required=True) for name in ("id", "source", "type"))
    if not attributes.is_uri_reference(source):
        raise InvalidEvent(f"Attribute 'source' is {shown(source)}, which is no URI; send one.")
    told.pop("datacontenttype", None)
    values: dict[str, Any] = {
        "type": type.removeprefix(f"{prefix.rstrip('.')}.") if prefix else type,
        "data": data,
        "about": _about(told),
        "organization": _text(told, "organizationid") or _text(told, "workspaceid") or None,
        "idempotency_key": _key(source, identity),
        "actor": _actor(told),
        "version": _version(told),
        "occurred_at": _occurred_at(told),
        "correlation_id": _text(told, "correlationid") or None,
        "causation_id": _causation(told),
    }
    born = parse(told.pop(KEY, None))
    kept = {"cloudevent": {"id": identity, "source": source, **told}}
    return {**values, "metadata": {**kept, KEY: str(born)} if born else kept}


def _text(told: dict[str, Value], name: str, *, required: bool = False) -> str:
    value = told.pop(name, "")
    if isinstance(value, str) and (value or not required):
        return value
    raise InvalidEvent(f"Attribute {name!r} is {shown(str(value))}; it must be a text that is not empty.")


def _about(told: dict[str, Value]) -> tuple[str, str] | None:
    kind, _, identity = str(told.get("subject", "")).partition("/")
    if not kind or not identity:
        return None  # not said in our way, so it is kept as it is
    del told["subject"]
    if told.get("partitionkey") == identity:
        del told["partitionkey"]
    return unquote(kind), identity


def _actor(told: dict[str, Value]) -> dict[str, str] | None:
    key, said = _text(told, "authid"), _text(told, "authtype")
    ours = {theirs: kind for kind, theirs in attributes.AUTH_TYPES.items()}
    return {"type": ours.get(said, said or "unknown"), "id": key} if key else None


def _occurred_at(told: dict[str, Value]) -> datetime | None:
    text = _text(told, "time")
    return attributes.time_of(text) if text else None


def _version(told: dict[str, Value]) -> int | None:
    text = str(told.get("schemaversion", ""))
    if text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= _HIGHEST_VERSION:
        del told["schemaversion"]
        return int(text)
    return None  # whichever `emit` takes for the type


def _causation(told: dict[str, Value]) -> UUID | None:
    try:
        cause = UUID(str(told.get("causationid", "")))
    except ValueError:
        return None
    del told["causationid"]
    return cause


def _key(source: str, identity: str) -> str:
    """The sender names an event by both, so the second time it comes it is known. A URI holds no space."""
    key = f"{source} {identity}"
    return key if len(key) <= _LONGEST_KEY else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    lower = {name.lower(): text for name, text in headers.items()}
    if len(lower) < len(headers):
        raise InvalidEvent("A header came twice; send each one once.")
    return lower


def _content_type(lower: Mapping[str, str]) -> str:
    return lower.get("content-type", "").partition(";")[0].strip().lower()


def _refuse_other_content(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if not kind.endswith(("/json", "+json")) or kind.startswith("application/cloudevents"):
        raise InvalidEvent(f"The data is {shown(content_type)}; events carry JSON, so send {JSON}.")


def _unpacked(packed: object) -> bytes:
    try:
        if not isinstance(packed, str):
            raise ValueError(f"it is {kind_of(packed)}")
        return base64.b64decode(packed, validate=True)
    except ValueError as error:
        raise InvalidEvent(f"data_base64 cannot be decoded ({error}); send base64 text.") from None


def _json(text: bytes | str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidEvent(
            f"The CloudEvent is no JSON that can be kept ({str(error)[:200]}); repair the sender."
        ) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice in one object")
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")
