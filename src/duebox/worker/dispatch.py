"""One delivery, run once: call the handler and say how it ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
from asgiref.sync import async_to_sync
from django.db import Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from duebox.conf import conf
from duebox.context import Handling, handling
from duebox.contracts.reading import as_declared, read
from duebox.contracts.upcasting import current
from duebox.exceptions import HandlerTimeout, LeaseLost, Permanent, UnsupportedVersion
from duebox.fact import Fact
from duebox.outcome import Dead, Delivered, Discard, Outcome, Retried, Retry, Snooze
from duebox.store.deliveries import Claim, Ended
from duebox.subscribers import Subscriber
from duebox.worker.around import is_watched, watched
from duebox.worker.clock import Clock
from duebox.worker.newer import wait_for_newer_code
from duebox.worker.settling import settle
from duebox.worker.watchdog import limit

logger = logging.getLogger("duebox.worker")

LOST_CONNECTION_SECONDS = 1.0
_SERVER_GOES_AWAY = {"57P01", "57P02", "57P03", "57P05"}
# Whatever a handler raises is its failure, sys.exit() and gevent's timeouts included; it must not take the worker
# along. Only Ctrl-C passes, for those who drain in the foreground.
FAILURES = (BaseException,)


class Running:
    """What a handler thread runs at this moment, for whoever looks after timeouts."""

    __slots__ = ("claim", "is_reported", "lock", "started", "subscriber", "timed_out")

    def __init__(self) -> None:
        self.claim: Claim | None = None
        self.subscriber: Subscriber | None = None
        self.started = 0.0
        """On the monotonic clock; 0 while no handler runs."""
        self.is_reported = False
        self.timed_out = False
        self.lock = threading.Lock()
        """Held while a handler with a timeout ends, or is interrupted."""

    def begin(self, claim: Claim, subscriber: Subscriber) -> None:
        self.claim, self.subscriber = claim, subscriber
        self.is_reported = self.timed_out = False
        self.started = time.monotonic()

    def end(self) -> None:
        if self.subscriber is None or self.subscriber.timeout is None:
            self.started = 0.0
            return
        with self.lock:
            self.started = 0.0


def perform(
    claim: Claim, subscriber: Subscriber, using: str, clock: Clock, running: Running | None = None
) -> tuple[Ended, bool]:
    """Run the handler. The second value says whether the outcome is already written down."""
    started = clock.now()
    settled = False
    try:
        if subscriber.atomic:
            outcome = _atomic(claim, subscriber, using, clock, started, running)
            settled = True
        else:
            outcome = call(claim, subscriber, using, running)
    except LeaseLost:
        raise
    except FAILURES as error:
        let_ctrl_c_pass(error)
        outcome = failure(claim, subscriber, error)
    finally:
        if subscriber.atomic:
            limit(None)
    return Ended(claim, outcome, started, (clock.now() - started) * 1000), settled


def let_ctrl_c_pass(error: BaseException) -> None:
    """It comes to the main thread alone; elsewhere a handler has raised it."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def call(claim: Claim, subscriber: Subscriber, using: str, running: Running | None = None) -> Outcome:
    if claim.event_is_gone:
        return Discard("its event was deleted")
    if (expired := claim.expired()) is not None:
        return expired
    claim.fact.forget()
    try:
        # Whoever is outside gets an event as it was stored, and looks at its version.
        fact = claim.fact if subscriber.as_stored else _for_handler(claim.fact, subscriber)
    except UnsupportedVersion as error:  # answered here, its neighbours in a group need not run again
        if (wait := wait_for_newer_code(claim, error)) is None:
            raise
        return wait
    data = () if subscriber.data_class is None else (read(fact, subscriber.data_class),)
    token = handling.set(Handling(fact, using))
    if running is not None:
        running.begin(claim, subscriber)
    try:
        result = _result(subscriber, fact, *data) if subscriber.timeout is None else _in_time(subscriber, fact, *data)
    finally:
        if running is not None:
            running.end()
        handling.reset(token)
    if result is None or isinstance(result, Snooze | Discard | Delivered):
        return result
    if isinstance(result, Permanent):
        return failure(claim, subscriber, result)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(
            f"{subscriber.name} returned a coroutine that nobody awaited; write the handler with async def."
        )
    return None


def _result(subscriber: Subscriber, fact: Fact, *data: Any) -> Any:
    handler = async_to_sync(subscriber.handler) if subscriber.is_async else subscriber.handler
    return watched(handler, fact, subscriber.name, *data) if is_watched() else handler(fact, *data)


def _in_time(subscriber: Subscriber, fact: Fact, *data: Any) -> Any:
    """A handler that takes longer than its timeout has failed, however it ends."""
    handler, seconds = subscriber.handler, subscriber.timeout or 0.0

    async def cancelled_in_time(*arguments: Any) -> Any:
        async with asyncio.timeout(seconds):
            return await handler(*arguments)

    begun = time.monotonic()
    limited = replace(subscriber, handler=cancelled_in_time) if subscriber.is_async else subscriber
    try:
        result = _result(limited, fact, *data)
    except Exception as error:
        if time.monotonic() - begun < seconds:
            raise
        raise timeout_error(subscriber) from error
    if time.monotonic() - begun >= seconds:
        raise timeout_error(subscriber)
    return result


def timeout_error(subscriber: Subscriber) -> HandlerTimeout:
    writes = "what it wrote is rolled back" if subscriber.atomic else "what it did is not undone"
    return HandlerTimeout(f"{subscriber.name} took longer than its timeout of {subscriber.timeout:g} s; {writes}.")


def _for_handler(fact: Fact, subscriber: Subscriber) -> Fact:
    """In the newest version, or in that of the class that the handler subscribed with."""
    return current(fact) if subscriber.kind is None else as_declared(fact, subscriber.kind)


def _atomic(
    claim: Claim, subscriber: Subscriber, using: str, clock: Clock, started: float, running: Running | None
) -> Outcome:
    """The handler's writes and the settlement commit together, or neither does."""
    with transaction.atomic(using=using):
        hooks = len(connections[using].run_on_commit)
        outcome = call(claim, subscriber, using, running)
        refuse_broken_transaction(subscriber, using)
        calm_hooks(using, hooks)
        ended = Ended(claim, outcome, started, (clock.now() - started) * 1000)
        limit()  # for the commit, too
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


def refuse_open_transaction(end: Ended, subscriber: Subscriber, connection: BaseDatabaseWrapper) -> Ended:
    """A handler outside of any transaction that left one open would take settlements along into it. What it did is
    undone, so it has failed. The connection is given, and asked without psycopg's `info`: to find it by its alias and
    to build that object takes 2 µs, for every delivery."""
    if connection.connection is None or connection.in_atomic_block:
        return end
    status = connection.connection.pgconn.transaction_status
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
        limit(None)
        try:
            hook()
        except FAILURES:
            logger.exception("a hook failed after the commit: %r", hook)

    return run


def failure(claim: Claim, subscriber: Subscriber, error: BaseException) -> Outcome:
    if isinstance(error, Snooze | Discard):
        error.__traceback__ = None  # one that is raised again and again would only grow
        return error
    if is_lost_connection(error) and claim.rescues + 1 < conf().RESCUE_LIMIT:
        # Not its fault, most likely; counted as a rescue, since it may be what breaks the connection.
        return Retried(LOST_CONNECTION_SECONDS, error, burns=False, rescued=True)
    if isinstance(error, UnsupportedVersion) and (wait := wait_for_newer_code(claim, error)) is not None:
        return wait
    return by_policy(subscriber.retry, claim, error, on_dead=subscriber.on_dead)


def by_policy(retry: Retry, claim: Claim, error: BaseException, *, on_dead: str) -> Retried | Dead:
    """What a retry policy says of a failed attempt; where the policy itself fails, the default one decides."""
    try:
        outcome = retry.outcome(error, claim.attempt, claim.age())
        if not isinstance(outcome, Retried | Dead):
            raise TypeError(f"{retry!r} answered with {outcome!r}; outcome() must give Retried or Dead.")
    except Exception:
        logger.exception("retry policy failed, the default is used: subscriber=%s", claim.subscriber)
        outcome = Retry().outcome(error, claim.attempt)
    return Dead(outcome.error, leaves_stream=True) if isinstance(outcome, Dead) and on_dead == "skip" else outcome


def could_not_run(claim: Claim, error: BaseException, *, started: float, on_dead: str = "block") -> Ended:
    """A delivery that failed outside of its handler counts as a failed attempt: it waits, and is a dead letter in the
    end. Given back without that, it would run again at once, and for ever."""
    return Ended(claim, by_policy(Retry(), claim, error, on_dead=on_dead), started, 0.0)


def is_lost_connection(error: BaseException) -> bool:
    """Asked of the error, not of the connection: at the end of a transaction Django has made a new one already. What
    psycopg says by itself, without a code of the server, is about the connection. Behind PgBouncer a commit gets two
    answers where one session has ended, that of the server and that of the pooler: an InternalError."""
    cause = error.__cause__
    if not isinstance(error, Error) or not isinstance(cause, psycopg.Error):
        return False
    if cause.sqlstate is None:
        return isinstance(cause, psycopg.OperationalError | psycopg.InternalError)
    return cause.sqlstate.startswith("08") or cause.sqlstate in _SERVER_GOES_AWAY
