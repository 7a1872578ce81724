"""One delivery, run once: call the handler and say how it ended."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from asgiref.sync import async_to_sync
from django.db import OperationalError, connections, transaction
from psycopg.pq import TransactionStatus

from duebox.conf import conf
from duebox.context import Handling, handling
from duebox.contracts.upcasting import current
from duebox.destinations.subscription import Routed
from duebox.exceptions import LeaseLost, UnsupportedVersion
from duebox.outcome import Dead, Delivered, Discard, Outcome, Retried, Snooze
from duebox.store.deliveries import Claim, Ended, settle
from duebox.subscribers import Subscriber
from duebox.worker.around import is_watched, watched
from duebox.worker.clock import Clock
from duebox.worker.newer import wait_for_newer_code

logger = logging.getLogger("duebox.worker")

LOST_CONNECTION_SECONDS = 1.0
_SERVER_GOES_AWAY = {"57P01", "57P02", "57P03", "57P05"}
# Whatever a handler raises is its failure, sys.exit() and gevent's timeouts included; it must not take the worker
# along. Only Ctrl-C passes, for those who drain in the foreground.
FAILURES = (BaseException,)


def perform(claim: Claim, subscriber: Subscriber, using: str, clock: Clock) -> tuple[Ended, bool]:
    """Run the handler. The second value says whether the outcome is already written down."""
    started = clock.now()
    settled = False
    try:
        if subscriber.atomic:
            outcome = _atomic(claim, subscriber, using, clock, started)
            settled = True
        else:
            outcome = call(claim, subscriber, using)
    except LeaseLost:
        raise
    except FAILURES as error:
        let_ctrl_c_pass(error)
        outcome = failure(claim, subscriber, error)
    return Ended(claim, outcome, started, (clock.now() - started) * 1000), settled


def let_ctrl_c_pass(error: BaseException) -> None:
    """It comes to the main thread alone; elsewhere a handler has raised it."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def call(claim: Claim, subscriber: Subscriber, using: str) -> Outcome:
    if claim.event_is_gone:
        return Discard("its event was deleted")
    claim.fact.forget()
    try:
        # Whoever is outside gets an event as it was stored, and looks at its version.
        fact = claim.fact if isinstance(subscriber, Routed) else current(claim.fact)
    except UnsupportedVersion as error:  # answered here, its neighbours in a group need not run again
        if (wait := wait_for_newer_code(claim, error)) is None:
            raise
        return wait
    token = handling.set(Handling(fact, using))
    try:
        handler = async_to_sync(subscriber.handler) if subscriber.is_async else subscriber.handler
        result: Any = watched(handler, fact, subscriber.name) if is_watched() else handler(fact)
    finally:
        handling.reset(token)
    if result is None or isinstance(result, Snooze | Discard | Delivered):
        return result
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(
            f"{subscriber.name} returned a coroutine that nobody awaited; write the handler with async def."
        )
    return None


def _atomic(claim: Claim, subscriber: Subscriber, using: str, clock: Clock, started: float) -> Outcome:
    """The handler's writes and the settlement commit together, or neither does."""
    with transaction.atomic(using=using):
        hooks = len(connections[using].run_on_commit)
        outcome = call(claim, subscriber, using)
        refuse_broken_transaction(subscriber, using)
        calm_hooks(using, hooks)
        ended = Ended(claim, outcome, started, (clock.now() - started) * 1000)
        if settle(using, claim.lease, [ended]):
            raise LeaseLost(f"{claim!r} belongs to another worker by now; everything it wrote here is rolled back.")
    return outcome


def refuse_broken_transaction(subscriber: Subscriber, using: str) -> None:
    connection = connections[using]
    if connection.needs_rollback or connection.connection.info.transaction_status == TransactionStatus.INERROR:
        raise transaction.TransactionManagementError(
            f"{subscriber.name} caught a database error and went on in the broken transaction; let the error "
            "pass, or wrap the query in a transaction.atomic() of its own."
        )


def refuse_open_transaction(end: Ended, subscriber: Subscriber, using: str) -> Ended:
    """A handler outside of any transaction that left one open would take settlements along into it. What it did is
    undone, so it has failed."""
    connection = connections[using]
    if connection.connection is None or connection.in_atomic_block:
        return end
    status = connection.connection.info.transaction_status
    if status == TransactionStatus.UNKNOWN or (connection.autocommit and status == TransactionStatus.IDLE):
        return end  # broken, or as it should be
    connection.close()
    error = transaction.TransactionManagementError(
        "A handler with atomic=False left a transaction open; end it, or let Duebox open it with atomic=True."
    )
    return end._replace(outcome=failure(end.claim, subscriber, error))


def calm_hooks(using: str, since: int) -> None:
    """After the commit the delivery is done: a hook that fails is logged and must change nothing more."""
    hooks: list[Any] = connections[using].run_on_commit
    if len(hooks) > since:
        hooks[since:] = [(savepoints, _calm(hook), False) for savepoints, hook, _ in hooks[since:]]


def _calm(hook: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:  # Django's own robust hooks cannot log the failure of a functools.partial
        try:
            hook()
        except FAILURES:
            logger.exception("a hook failed after the commit: %r", hook)

    return run


def failure(claim: Claim, subscriber: Subscriber, error: BaseException) -> Outcome:
    if _is_lost_connection(error) and claim.rescues + 1 < conf().RESCUE_LIMIT:
        # Not its fault, most likely; counted as a rescue, since it may be what breaks the connection.
        return Retried(LOST_CONNECTION_SECONDS, error, burns=False, rescued=True)
    if isinstance(error, UnsupportedVersion) and (wait := wait_for_newer_code(claim, error)) is not None:
        return wait
    outcome = subscriber.retry.outcome(error, claim.attempt, claim.age())
    if isinstance(outcome, Dead) and subscriber.on_dead == "skip":
        return Dead(error, leaves_stream=True)
    return outcome


def _is_lost_connection(error: BaseException) -> bool:
    """Asked of the error, not of the connection: at the end of a transaction Django has made a new one already."""
    cause = error.__cause__
    if not isinstance(error, OperationalError) or not isinstance(cause, psycopg.OperationalError):
        return False
    return cause.sqlstate is None or cause.sqlstate.startswith("08") or cause.sqlstate in _SERVER_GOES_AWAY
