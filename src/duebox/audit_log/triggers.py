"""What the triggers of the audit log record of the tables of followed models, by their policies."""

from __future__ import annotations

import logging
import re
from typing import Any, NamedTuple

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db import DatabaseError, connections, models, router, transaction

from duebox.audit_log import chain
from duebox.audit_log.policy import Policy, models_with_policies, policy_of
from duebox.events.identities import aggregate_type
from duebox.store import audit_triggers, row_changes
from duebox.store.audit_triggers import Column, KeyColumn, Organization, Recording
from duebox.store.row_changes import installed, quoted, resolved

logger = logging.getLogger("duebox.audit")

Model = type[models.Model]
BLOCK = 64
"""Bytes that SHA-256 takes at a time."""
_KEYS = (models.IntegerField, models.AutoField, models.UUIDField, models.CharField, models.TextField)
"""Fields whose values are written by PostgreSQL as Python writes them."""
_BY_HAND = "Remove audit_log.follow() from it, and call duebox.audit() where its rows are changed."
KINDS = {
    "boolean": "number", "smallint": "number", "integer": "number", "bigint": "number", "serial": "number",
    "bigserial": "number", "smallserial": "number", "double precision": "float", "real": "float", "numeric": "decimal",
    "uuid": "decimal", "timestamp with time zone": "moment", "timestamp": "moment", "date": "date", "time": "date",
    "interval": "duration", "bytea": "bytes", "jsonb": "jsonb", "json": "json", "text": "text", "varchar": "text",
    "char": "text",
}  # fmt: skip
"""How the values of a type are written and compared; those of others as texts."""


class Unrecorded(NamedTuple):
    """A followed model that cannot have triggers, so that its changes are not recorded."""

    model: Model
    why: str
    repair: str


def followed_models() -> list[Model]:
    """The models with a table of their own that have a policy, also if their app is not installed."""
    known = dict.fromkeys([*apps.get_models(include_auto_created=True), *models_with_policies()])
    return [each for each in known if not (each._meta.proxy or each._meta.abstract) and policy_of(each)]


def recordings(using: str) -> dict[str, list[Recording]]:
    """What is recorded in a database, by table."""
    wanted: dict[str, list[Recording]] = {}
    for model in followed_models():
        if unrecordable(model):
            continue
        for part in _tables_of(model):
            if router.allow_migrate_model(using, part):
                name = quoted(using, part._meta.db_table)
                wanted.setdefault(name, []).append(_recording(using, part, model))
    return wanted


def unrecordable(model: Model) -> Unrecorded | None:
    """Why a followed model cannot have triggers in any database."""
    options: Any = model._meta
    fields = [_target(field) for field in options.pk_fields]
    if not {model, *_models_with_its_key(model)}.issuperset(_parts(model)):
        why = "it inherits from several models with keys of their own"
        return Unrecorded(model, why, f"Follow these instead. Or: {_BY_HAND}")
    for field in fields:
        if not isinstance(field, _KEYS) or hasattr(field, "from_db_value"):
            return Unrecorded(model, f"its primary key is a {type(field).__name__}", _BY_HAND)
    if not all(part._meta.managed for part in _parts(model)):
        return Unrecorded(model, "Django does not manage its table", _BY_HAND)
    policy = policy_of(model)
    if policy and policy.organization and _steps(model, model, policy.organization) is None:
        return Unrecorded(
            model,
            f"the way to its organization, {policy.organization!r}, is not along foreign keys",
            "Name one that is, or leave out organization= and set the organization in the context of the change.",
        )
    return None


def unrecorded(using: str) -> list[Unrecorded]:
    """The followed models whose tables in a database cannot have triggers."""
    here = [each for each in followed_models() if router.allow_migrate_model(using, each) and not unrecordable(each)]
    found = [(model, _why_not_in(using, model)) for model in here]
    return [Unrecorded(model, why, _BY_HAND) for model, why in found if why]


def _why_not_in(using: str, model: Model) -> str:
    tables = [quoted(using, part._meta.db_table) for part in _parts(model)]
    kinds = set().union(*(row_changes.kinds(using, table) for table in tables))
    if "f" in kinds:
        return "it has a foreign table" if len(kinds) == 1 else "a partition of its table is a foreign table"
    if kinds & {"v", "m"}:
        return "it has a view in the place of a table"
    if kinds and not router.allow_migrate_model(using, apps.get_model("duebox", "AuditEntry")):
        return f"its table is in database {using!r}, which has no tables of Duebox"
    return ""


def can_record(using: str) -> bool:
    """Whether a database has what the triggers need; not so in an older state."""
    return bool(resolved(using, "duebox_audit_key"))


def write_key(using: str) -> None:
    """Let the triggers know what to hash values with."""
    if not (followed_models() and can_record(using)):
        return
    try:
        with transaction.atomic(using=using):
            audit_triggers.write_key(using, "value", *_pads())
    except DatabaseError as error:
        logger.warning("no key for the triggers of the audit log: database=%s error=%s", using, str(error).strip())


def has_key(using: str) -> bool:
    """Whether the triggers hash values with the key that is set."""
    if not installed(using, audit_triggers.PREFIX):
        return True
    return audit_triggers.has_key(using, "value", _pads()[0])


def _pads() -> tuple[bytes, bytes]:
    """The key of hashed values with the two paddings of HMAC."""
    key = chain.current("value").ljust(BLOCK, b"\0")
    return bytes(each ^ 0x36 for each in key), bytes(each ^ 0x5C for each in key)


def _tables_of(model: Model) -> list[Model]:
    """The models in whose tables changes of rows of a followed model are recorded under its name: its own, and those
    of models above that have no policy."""
    return [model, *(each for each in model._meta.all_parents if not each._meta.proxy and policy_of(each) is None)]


def _parts(model: Model) -> list[Model]:
    """The models in whose tables the rows of a model are."""
    return [each for each in (model, *model._meta.all_parents) if not each._meta.proxy]


def _models_with_its_key(model: Model) -> set[Any]:
    """The models above whose rows have the same key."""
    found: set[Any] = set()
    key: Any = model._meta.pk
    while key.remote_field is not None:
        key = key.target_field
        found.add(key.model)
    return found


def _target(field: Any) -> Any:
    """The field that a foreign key takes its values from."""
    while field.remote_field is not None:
        field = field.target_field
    return field


def _recording(using: str, table: Model, model: Model) -> Recording:
    """What is recorded of a table, either that of a model or of one above it."""
    policy = policy_of(model)
    assert policy is not None
    options = (model._meta.concrete_model or model)._meta
    kind = aggregate_type(model)
    columns = [
        _column(using, table, policy, field) for field in policy.recorded(model) if _is_here(table, model, field)
    ]
    return Recording(
        noun=options.model_name or "",
        kind=kind,
        label=kind.rpartition(".")[2].lower(),
        key=_key_columns(using, table),
        columns=tuple(each for each in columns if each),
        organization=_organization(using, table, model, policy.organization) if policy.organization else None,
        below=None if table is model else (_table(using, model), quoted(using, _key(model).column)),
    )


def _key_columns(using: str, table: Model) -> tuple[KeyColumn, ...]:
    options: Any = table._meta
    return tuple(
        KeyColumn(quoted(using, field.column), isinstance(_target(field), models.IntegerField | models.AutoField))
        for field in options.pk_fields
    )


def _is_here(table: Model, model: Model, field: models.Field[Any, Any]) -> bool:
    """Whether the trigger of a table records a column. That of the model itself also those of tables above that have no
    entries of their own."""
    return field.model._meta.concrete_model in ([table] if table is not model else _tables_of(model))


def _column(using: str, table: Model, policy: Policy, field: models.Field[Any, Any]) -> Column | None:
    kind = field.db_type(connections[using])
    if kind is None:
        return None
    hidden = "mask" if field.attname in policy.mask else "hash" if field.attname in policy.hash else ""
    above = None
    if field.model._meta.concrete_model is not table:
        above = (_table(using, field.model), quoted(using, _key(field.model).column))
    return Column(field.attname, quoted(using, str(field.column)), _kind(kind), hidden, above)


def _kind(db_type: str) -> str:
    if db_type.endswith("]"):
        return "array"
    return KINDS.get(re.sub(r"\s*\(.*\)", "", db_type).lower(), "other")


def _organization(using: str, table: Model, model: Model, path: str) -> Organization | None:
    found = _steps(table, model, path)
    if found is None:
        return None
    start, steps = found
    named = [(_table(using, on), quoted(using, by), quoted(using, take)) for on, by, take in steps]
    return Organization(quoted(using, start), tuple(named))


def _steps(table: Model, model: Model, path: str) -> tuple[str, list[tuple[Model, str, str]]] | None:
    """A column of the table to begin with, then each table on the way: the column to find its row by, and the one to
    take. None where the way is not along foreign keys."""
    start, steps, by = "", [], _key(table)
    at: Any = model
    for name in path.split("__"):
        field = _forward(at, name)
        if field is None:
            return None
        if not start and field.model is table:
            start = field.column
        elif field is not by:
            start = start or _key(table).column
            found_by = by.column if by.model is field.model else _key(field.model).column
            steps.append((field.model, found_by, field.column))
        at, by = field.related_model, getattr(field, "target_field", None)
    return start or _key(table).column, steps


def _forward(model: Any, name: str) -> Any:
    """A column of a model by its name; None if it has none, or if that is a relation to many rows."""
    if model is None:
        return None
    try:
        field = model._meta.pk if name == "pk" else model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    return field if field.concrete and field.column else None


def _key(model: Model) -> Any:
    return model._meta.pk


def _table(using: str, model: Model) -> str:
    return audit_triggers.qualified(using, quoted(using, model._meta.db_table))
