"""Event ids (UUID version 7, increasing within a process); names of entities, tenants and actors; text for columns.

An entity is a type and an id. The type of a model is `app_label.model`, such as `shop.order`; the AGGREGATES setting
chooses another one. A proxy has the type of its concrete model, because it shows the same rows. With multi-table
inheritance each model has a table and a type of its own, as with Django's content types.

The id is the primary key as text. That of a composite primary key is a JSON array such as `[7, "A-1"]`.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from duebox.conf import conf
from duebox.events.fact import Actor
from duebox.exceptions import DueboxError, InvalidAudit, InvalidEvent

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """48 bits of milliseconds, 12 bits of the fraction of one, 62 random bits."""
    global _last
    with _lock:
        # 2**-12 ms is 244 ns: one tick. Two calls in one tick, or a clock that steps back, take the next tick.
        now = time.time_ns()
        ticks = (now // 1_000_000) << 12 | (now % 1_000_000) * 4096 // 1_000_000
        _last = ticks = ticks if ticks > _last else _last + 1
    random = int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
    return UUID(int=(ticks >> 12) << 80 | 7 << 76 | (ticks & 0xFFF) << 64 | 2 << 62 | random)


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


About = models.Model | tuple[str, object] | None
Id = str | int | UUID | models.Model

LIMIT = 500
# Control characters, line separators and lone surrogates; joined emoji and non-breaking spaces are allowed.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
USER = "user"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_FIELDS = {"type", "id", "email"}
_resolved: tuple[Mapping[str, str], dict[type[models.Model], str]] = ({}, {})


def identity(value: object, name: str, error: type[DueboxError] = InvalidEvent) -> str:
    """The id of a text, a whole number, a UUID or a saved model instance, as text. None gives "". Anything else is
    refused: the `repr` of an object that was passed by mistake is not an id."""
    if value is None:
        return ""
    if type(value) is str:  # most are
        text = value
    elif isinstance(value, models.Model):
        key = value.pk
        if key is None or (isinstance(key, tuple) and None in key):
            raise error(f"{name} is a {value._meta.object_name} that has no primary key yet; save it first.")
        text = text_of_key(key)
    elif isinstance(value, str):
        text = str.__str__(value)  # not `str(value)`, which may be the name of an enum member
    elif isinstance(value, int) and not isinstance(value, bool):
        text = int.__repr__(value)
    elif isinstance(value, UUID):
        text = str(value)
    else:
        raise error(
            f"{name} is a {type(value).__name__}; pass a text, a whole number, a UUID or a saved model instance."
        )
    if not text or len(text) > LIMIT or UNPRINTABLE.search(text):
        raise error(f"{name}={text[:80]!r} must be 1 to {LIMIT} printable characters.")
    return text


def text_of_key(key: object) -> str:
    """A primary key as text. A composite key is a JSON array with whole numbers as numbers and all other values as
    texts, spelled as PostgreSQL spells `jsonb_build_array(tenant_id, number)::text`."""
    if not isinstance(key, tuple):
        return str(key)
    parts = [part if isinstance(part, int) and not isinstance(part, bool) else str(part) for part in key]
    return json.dumps(parts, ensure_ascii=False)


def key_from_text(model: type[models.Model], text: str) -> Any:
    """The inverse of `text_of_key`. Raises ValueError or ValidationError if the text is not a key of the model."""
    options: Any = model._meta
    fields = options.pk_fields
    if len(fields) == 1:
        return fields[0].to_python(text)
    parts = json.loads(text)
    if not isinstance(parts, list):
        raise ValueError(f"{text!r} is not a key of {model.__name__}, whose key has {len(fields)} columns.")
    return tuple(field.to_python(part) for field, part in zip(fields, parts, strict=True))


def aggregate_of(about: About, name: str = "about", error: type[DueboxError] = InvalidEvent) -> tuple[str, str]:
    """Type and id of an entity, both empty for None."""
    if about is None:
        return "", ""
    if isinstance(about, models.Model):
        # Not `type(about)`: `request.user` is a lazy object around the user.
        return aggregate_type(about._meta.model), identity(about, name, error)
    if isinstance(about, tuple | list) and len(about) == 2:
        kind, key = about
        if isinstance(kind, str) and kind and key is not None:
            return identity(kind, name, error), identity(key, name, error)
    raise error(f"{name} is {_shown(about)}; pass a saved model instance, or a pair like ('shop.order', 42).")


def aggregate_type(model: type[models.Model]) -> str:
    """The type of a model's rows in events, schedules and audit entries."""
    global _resolved
    given = conf().AGGREGATES
    if _resolved[0] is not given:
        _resolved = (given, {})
    found = _resolved[1].get(model)
    if found is None:
        found = _resolved[1][model] = _type_of(model, given)
    return found


def _type_of(model: type[models.Model], given: Mapping[str, str]) -> str:
    label = _label(model)
    if not given:
        return label
    found = {str(key).lower(): value for key, value in given.items()}.get(label, label)
    for name, labels in _claimed_twice(given):
        if name == found:
            raise ImproperlyConfigured(_conflict(name, labels))
    if not _is_name(found):
        raise ImproperlyConfigured(f"DUEBOX['AGGREGATES'][{label!r}] is {found!r}; it must be a name such as 'order'.")
    return found


def mistakes() -> Iterator[tuple[str, str]]:
    """The problems of the AGGREGATES setting, as (message, hint) pairs for the system checks."""
    given: object = conf().AGGREGATES
    if not isinstance(given, dict):
        return  # the check of the settings reports it
    for key, value in given.items():
        try:
            model = apps.get_model(key)
        except (LookupError, ValueError, AttributeError):
            yield f"DUEBOX['AGGREGATES'] names {key!r}, which is not a model.", "Write it as 'app_label.Model'."
            continue
        if model._meta.proxy:
            hint = f"Name {_label(model)!r}, whose rows it shows."
            yield f"DUEBOX['AGGREGATES'] names {key!r}, which is a proxy.", hint
        if not _is_name(value):
            hint = "It must be a name of letters, digits, '_', '-' and '.', such as 'order'."
            yield f"DUEBOX['AGGREGATES'][{key!r}] is {value!r}.", hint
    for name, labels in _claimed_twice(given):
        yield _conflict(name, labels), "Give each of them another name in DUEBOX['AGGREGATES']."


def _claimed_twice(given: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Names that several models share: rows with the same id would become one entity."""
    chosen = {str(key).lower(): value for key, value in given.items()}
    by_name: dict[Any, list[str]] = {}
    for label in dict.fromkeys(map(_label, apps.get_models(include_auto_created=True))):
        by_name.setdefault(chosen.get(label, label), []).append(label)
    return ((name, labels) for name, labels in by_name.items() if len(labels) > 1)


def _conflict(name: str, labels: list[str]) -> str:
    return f"DUEBOX['AGGREGATES'] gives the name {name!r} to several models: {', '.join(labels)}."


def _label(model: type[models.Model]) -> str:
    return (model._meta.concrete_model or model)._meta.label_lower


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def actor_of(value: object, name: str = "actor", error: type[DueboxError] = InvalidEvent) -> Actor | None:
    """The actor of a user or another model instance, of the plain id of a user, or of a dict with `type`, `id` and an
    optional `email`. It is None for an anonymous user. The email is stored only if a dict names it."""
    if value is None:
        return None
    if isinstance(value, str | int | UUID):
        return Actor(USER, identity(value, name, error))
    if isinstance(value, models.Model):
        return Actor(_kind(value), identity(value, name, error))
    if isinstance(value, Actor):
        return _checked(value.type, value.id, value.email, name, error)
    if isinstance(value, Mapping):
        if set(value) <= _FIELDS and {"type", "id"} <= set(value):
            return _checked(value["type"], value["id"], value.get("email"), name, error)
        # Not the values, which may be personal.
        keys = ", ".join(sorted(map(str, value))) or "nothing"
        raise error(f"{name} is a dict with {keys}; it must have 'type' and 'id', may have 'email', and nothing else.")
    if hasattr(value, "is_authenticated"):  # AnonymousUser, or the user of a token, which is not a model
        if not value.is_authenticated:
            return None
        if (key := getattr(value, "pk", None)) is not None:
            return Actor(USER, identity(key, name, error))
    raise error(
        f"{name} is a {type(value).__name__}; pass a saved user, an id, or a dict like {{'type': 'service', 'id': "
        "'billing'}."
    )


def _checked(kind: object, key: object, email: object, name: str, error: type[DueboxError]) -> Actor:
    for part, value in (("type", kind), ("email", email)):
        if not isinstance(value, str) and (part == "type" or value is not None):
            raise error(f"{part} of {name} is a {type(value).__name__}; pass a text.")
    if key is None:
        raise error(f"id of {name} is None; pass a text, a whole number or a UUID.")
    kind, key = identity(kind, f"type of {name}", error), identity(key, f"id of {name}", error)
    return Actor(kind, key, identity(email, f"email of {name}", error) if email else None)


def _kind(row: models.Model) -> str:
    label = _label(row._meta.model)
    return USER if label == django_settings.AUTH_USER_MODEL.lower() else aggregate_type(row._meta.model)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {' and '.join(type(each).__name__ for each in value) or 'nothing'}"
    return f"a {type(value).__name__}"


def cleaned(text: str, limit: int = LIMIT) -> str:
    """The text without control characters: the hash chain of the audit log relies on that."""
    return UNPRINTABLE.sub("", text)[:limit]


def printable(text: str) -> str:
    r"""The text for a terminal, with control characters escaped as in \x9b."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def audit_identity(value: object, name: str) -> str:
    """An id as text; for a model instance, its primary key. None stays None."""
    return identity(value, name, InvalidAudit)
