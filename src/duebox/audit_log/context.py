"""The context of an entry: who acts, for whom, and where the request or job came from.

`duebox.audit()` takes it from here. The triggers get it as the setting `duebox.audit_context`, which lasts until the
transaction ends. It is joined to the first statement of a transaction that writes, as `SELECT set_config(...);
INSERT ...`. So it takes no round trip, and a pooler in transaction mode passes both to the same session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg import ClientCursor
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.sql import quote

from duebox.audit_log.policy import models_with_policies
from duebox.context.current import Who, correlation_id, handling, origin
from duebox.events.fact import Actor
from duebox.events.identities import cleaned

Execute = Callable[[Any, Any, bool, dict[str, Any]], Any]

AGENT_LIMIT = 256
SETTING = "duebox.audit_context"
_SET = f"SELECT set_config('{SETTING}', {{}}, true); "
_BEGIN = r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*+"
_WRITES = re.compile(
    rf"{_BEGIN}(?:(insert|update|delete|merge|copy|truncate|execute)\b|with\b.*?\b(?:insert|update|delete|merge)\b)",
    re.IGNORECASE | re.DOTALL,
)
_CALLS = re.compile(rf"{_BEGIN}(?:call|do)\b", re.IGNORECASE | re.DOTALL)
"""What these run may commit; not so within a query that has several statements."""
_ROLLS_BACK = re.compile(rf"{_BEGIN}rollback\b", re.IGNORECASE | re.DOTALL)


class Context(NamedTuple):
    actor: str | None = None
    """As JSON, as is the next."""
    impersonator: str | None = None
    organization: str = ""
    correlation_id: str = ""
    ip: str = ""
    user_agent: str = ""
    causation_id: str = ""


def current_context() -> Context:
    """Of the event that is being handled, else of the request or job."""
    current, here = handling.get(), origin.get()
    who = here.who() if here else Who()
    context = Context(
        actor=_as_json(who.actor),
        impersonator=_as_json(who.impersonator),
        correlation_id=cleaned(correlation_id()),
        ip=cleaned(here.ip) if here else "",
        user_agent=cleaned(here.user_agent, AGENT_LIMIT) if here else "",
    )
    if current is None:
        return context
    fact = current.fact
    return context._replace(actor=fact.row.actor, organization=fact.organization or "", causation_id=str(fact.id))


def _as_json(who: Actor | None) -> str | None:
    """What comes from a session or a token may hold anything."""
    return Actor(cleaned(who.type), cleaned(who.id), cleaned(who.email or "")).to_json() if who else None


class _Sent(NamedTuple):
    """The setting in the transaction that is open."""

    session: Any
    text: str | None
    """None where it is not known: a savepoint was rolled back."""


_asking: ContextVar[bool] = ContextVar("duebox_audit_asking", default=False)
_sent: WeakKeyDictionary[BaseDatabaseWrapper, _Sent] = WeakKeyDictionary()


def send_context(execute: Execute, sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Wraps what Django executes; see `connection.execute_wrapper`."""
    if not models_with_policies():
        return execute(sql, params, many, context)
    connection = context["connection"]
    if handling.get() is None and origin.get() is None and connection not in _sent:
        return execute(sql, params, many, context)  # there is no context to send, and none to take back
    session = connection.connection
    status = session.info.transaction_status
    if status == TransactionStatus.IDLE and connection in _sent:
        del _sent[connection]
    text = sql if isinstance(sql, str) else _as_text(sql, session)
    if _ROLLS_BACK.match(text):
        # To a savepoint: the setting may be one of those that were rolled back.
        _sent[connection] = _Sent(session, None)
    elif _is_about_to_write(text, status):
        setting = _setting()
        before = _sent.get(connection)
        if setting != (before.text if before and before.session is session else ""):
            return _execute_with(setting, execute, sql, params, many, context)
    return execute(sql, params, many, context)


def _is_about_to_write(text: str, status: TransactionStatus) -> bool:
    if status not in (TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.ACTIVE):
        return False
    return bool(_WRITES.match(text) or (status == TransactionStatus.INTRANS and _CALLS.match(text)))


def _setting() -> str:
    """The context as JSON; nothing outside of a request, a job and an event."""
    if (handling.get() is None and origin.get() is None) or _asking.get():
        return ""
    token = _asking.set(True)  # to know the user may take statements of its own
    try:
        return _setting_of(current_context())
    finally:
        _asking.reset(token)


@lru_cache(maxsize=64)
def _setting_of(context: Context) -> str:
    found: dict[str, Any] = {name: value for name, value in context._asdict().items() if value}
    for name in ("actor", "impersonator"):
        if name in found:
            found[name] = json.loads(found[name])
    return json.dumps(found, ensure_ascii=False) if found else ""


def _execute_with(setting: str, execute: Execute, sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    connection, cursor = context["connection"], context["cursor"].cursor
    session = connection.connection
    if many or not isinstance(sql, str) or not isinstance(cursor, ClientCursor) or _has_pipeline(session):
        return _execute_apart(setting, execute, sql, params, many, context)
    if params is None:
        sql = _SET.format(quote(setting, session)) + sql
    elif isinstance(params, Mapping):
        sql, params = _SET.format("%(duebox_context)s") + sql, {**params, "duebox_context": setting}
    else:
        sql, params = _SET.format("%s") + sql, [setting, *params]
    found = execute(sql, params, many, context)
    cursor.nextset()  # the first result is that of set_config
    _remember(connection, setting)
    return found


def _execute_apart(setting: str, execute: Execute, sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """With a statement before, where a query may hold only one; both in one transaction."""
    connection = context["connection"]
    if connection.get_autocommit() and not _has_pipeline(connection.connection):
        with transaction.atomic(using=connection.alias):
            return _execute_apart(setting, execute, sql, params, many, context)
    with connection.cursor() as cursor:
        cursor.execute(_SET.format("%s"), [setting])
    _remember(connection, setting)
    return execute(sql, params, many, context)


def _remember(connection: BaseDatabaseWrapper, setting: str) -> None:
    if connection.connection.info.transaction_status != TransactionStatus.IDLE:
        _sent[connection] = _Sent(connection.connection, setting)


def _has_pipeline(session: Any) -> bool:
    return bool(session.pgconn.pipeline_status != PipelineStatus.OFF)


def _as_text(sql: Any, session: Any) -> str:
    if isinstance(sql, bytes):
        return sql.decode(errors="replace")
    return str(sql.as_string(session)) if hasattr(sql, "as_string") else str(sql)


def _connected(*, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    # To create the test database Django connects under a name that is no alias.
    wrappers = connection.execute_wrappers
    if connection.vendor == "postgresql" and connection.alias in connections and send_context not in wrappers:
        wrappers.insert(0, send_context)  # `execute_wrapper` takes away the last one, whichever that is


connection_created.connect(_connected, dispatch_uid="duebox.audit_log.context")
