"""Run deliveries: call the handler of one, or many quick atomic handlers in one transaction, and return the outcomes.

An event in a version that is newer than this code waits for a worker that knows it: during a deployment old and new
workers run side by side. The handler did not fail, so no attempt is used.

In a group each handler's writes commit together with its settlement. When one handler fails, or the commit does, the
whole group is rolled back, and its members run again, each in a transaction of its own. Committing one by one handled
1,200 deliveries a second; a savepoint around each handler, which would spare the neighbours the second run, cost a
round trip more for every delivery and got no further than 2,700.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
from asgiref.sync import async_to_sync
from django.db import Error, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import DeadlockDetected, LockNotAvailable, SerializationFailure
from psycopg.pq import TransactionStatus

from duebox import clock
from duebox.conf import conf
from duebox.context.current import Handling, handling
from duebox.context.logging import is_watched, watched
from duebox.contracts.event_types import versions_of
from duebox.contracts.upcasting import as_declared, current, read
from duebox.events.fact import Fact
from duebox.events.outcomes import Dead, Delivered, Discard, Expired, Outcome, Retried, Retry, Snooze
from duebox.events.subscribers import Subscriber
from duebox.exceptions import HandlerTimeout, LeaseLost, Permanent, UnsupportedVersion
from duebox.store import leases
from duebox.store.deliveries import Claim, Ended
from duebox.worker.connections import replace_connections, with_retries
from duebox.worker.lease import Clock
from duebox.worker.resources import Resources
from duebox.worker.settle import settle
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import limit, limited

logger = logging.getLogger("duebox.worker")


_logged_at: dict[tuple[str, int, str], float] = {}


def wait_for_newer_code(claim: Claim, error: UnsupportedVersion) -> Snooze | None:
    """None where waiting does not help: the version is known here, or older, or the event has waited for a day."""
    age = clock.now().timestamp() - claim.fact.row.occurred
    if error.version <= max(versions_of(error.type), default=0) or age > TUNABLES.newer_code_give_up_seconds:
        return None
    _log_waiting(claim, error)
    # The longer it has waited, the longer it waits. A random part spreads events that came together.
    seconds = min(
        TUNABLES.newer_code_longest_seconds, max(TUNABLES.newer_code_shortest_seconds, age * TUNABLES.newer_code_share)
    )
    spread = TUNABLES.newer_code_spread
    return Snooze(timedelta(seconds=seconds * random.uniform(1 - spread, 1 + spread)))  # noqa: S311 - not a secret


def forget() -> None:
    """When lines were logged; for tests."""
    _logged_at.clear()


def _log_waiting(claim: Claim, error: UnsupportedVersion) -> None:
    """Once a minute for each kind: many events may wait."""
    key = (error.type, error.version, claim.subscriber)
    if time.monotonic() - _logged_at.get(key, float("-inf")) < TUNABLES.newer_code_log_seconds:
        return
    _logged_at[key] = time.monotonic()
    logger.warning("event waits for newer code: type=%s version=%d subscriber=%s", *key)


_SERVER_GOES_AWAY = {"57P01", "57P02", "57P03", "57P05"}
# Whatever a handler raises is its failure, sys.exit() and gevent's timeouts included; it must not end the worker. Only
# Ctrl-C passes, for a drain in the foreground.
FAILURES = (BaseException,)

Pair = tuple[Claim, Subscriber]


class Running:
    """What a handler thread runs at this moment, for the thread that looks after timeouts."""

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


class Runner:
    """Runs deliveries for the handler threads of a worker, and knows how long each handler takes."""

    def __init__(self, subscribers: dict[str, Subscriber], resources: Resources) -> None:
        self.subscribers = subscribers
        self.clock = resources.clock
        self.last_chance = resources.last_chance
        self.durations: dict[str, float] = {}
        """The mean duration of each handler, in seconds."""
        self._using = resources.using
        self._rescue_limit = resources.rescue_limit
        self._ungrouped_until: dict[str, float] = {}

    def run(self, claim: Claim, subscriber: Subscriber, running: Running) -> tuple[Ended, bool]:
        return perform(claim, subscriber, self._using, self.clock, running)

    def run_together(
        self, pairs: Iterable[Pair], owns: Callable[[int], bool], running: Running
    ) -> tuple[list[Ended], bool]:
        return perform_together(pairs, self._using, self.clock, owns, running)

    def could_not_run(self, claim: Claim, error: BaseException) -> Ended:
        on_dead = self.subscribers[claim.subscriber].on_dead
        return could_not_run(claim, error, started=self.clock.now(), on_dead=on_dead)

    def is_last_chance(self, claim: Claim) -> bool:
        """Whether it becomes a dead letter if this worker is lost, too."""
        return claim.rescues + 1 >= self._rescue_limit

    def announce(self, claim: Claim, *, runs: bool) -> None:
        """Note in the database that a delivery on its last chance runs now, or has ended."""
        with_retries(partial(leases.announce_suspect, self._using, claim.lease, claim.id if runs else None))

    def may_share(self, claim: Claim, subscriber: Subscriber) -> bool:
        """Whether it may run in a transaction with others: its handler is quick, and its last group was not rolled
        back. A retry runs alone, since the others may have made it fail."""
        if not subscriber.atomic or subscriber.alone or claim.attempt > 1:
            return False
        return self.is_quick(subscriber) and time.monotonic() >= self._ungrouped_until.get(subscriber.name, 0.0)

    def is_quick(self, subscriber: Subscriber) -> bool:
        return self.durations.get(subscriber.name, TUNABLES.quick_handler_seconds) < TUNABLES.quick_handler_seconds

    def keep_apart(self, claims: Iterable[Claim]) -> None:
        """Their group was rolled back. Their handlers run alone for a while: a failing handler makes the others of its
        group run twice now and then, and not all the time."""
        until = time.monotonic() + TUNABLES.ungrouped_seconds
        self._ungrouped_until.update({self.subscribers[each.subscriber].name: until for each in claims})

    def note_durations(self, ended: list[Ended]) -> None:
        """Blend the mean of these with what was known before."""
        times: dict[str, list[float]] = {}
        for end in ended:
            if isinstance(end.outcome, Expired):
                continue  # its handler did not run
            name = self.subscribers[end.claim.subscriber].name
            times.setdefault(name, []).append(end.took_ms)
        for name, took in times.items():
            mean = sum(took) / len(took) / 1000
            before = self.durations.get(name, mean)
            least, most = TUNABLES.duration_least_weight, TUNABLES.duration_most_weight
            weight = max(least, min(most, len(took) / TUNABLES.duration_runs))
            self.durations[name] = before + (mean - before) * weight


def perform(
    claim: Claim, subscriber: Subscriber, using: str, clock: Clock, running: Running | None = None
) -> tuple[Ended, bool]:
    """Run the handler. The second value says whether the outcome is already written."""
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
    """Only the main thread gets it; in another thread a handler has raised it."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def call(claim: Claim, subscriber: Subscriber, using: str, running: Running | None = None) -> Outcome:
    if claim.event_is_gone:
        return Discard("its event was deleted")
    if (expired := claim.expired()) is not None:
        return expired
    claim.fact.forget()
    try:
        # A destination gets an event as it was stored, with its version.
        fact = claim.fact if subscriber.as_stored else _for_handler(claim.fact, subscriber)
    except UnsupportedVersion as error:  # caught here, so that the others of its group need not run again
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
            f"{subscriber.name} returned a coroutine that was not awaited; write the handler with async def."
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
        log_failing_hooks(using, hooks)
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
    """Settlements would become part of a transaction that a handler with atomic=False has left open. It is rolled back,
    so the handler has failed. The connection is passed in, and asked without psycopg's `info`: finding it by its alias
    and building that object takes 2 µs, for every delivery."""
    if connection.connection is None or connection.in_atomic_block:
        return end
    status = connection.connection.pgconn.transaction_status
    if status == TransactionStatus.UNKNOWN or (connection.autocommit and status == TransactionStatus.IDLE):
        return end  # broken, or no transaction is open
    connection.close()
    error = transaction.TransactionManagementError(
        "A handler with atomic=False left a transaction open; end it, or let Duebox open it with atomic=True."
    )
    return end._replace(outcome=failure(end.claim, subscriber, error))


def log_failing_hooks(using: str, since: int) -> None:
    """After the commit the delivery is done: a hook that fails is logged and changes nothing."""
    hooks: list[Any] = connections[using].run_on_commit
    if len(hooks) > since:
        hooks[since:] = [(savepoints, _logging_failure(hook), False) for savepoints, hook, _ in hooks[since:]]


def _logging_failure(hook: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:  # Django's own robust hooks cannot log the failure of a functools.partial
        limit(None)
        try:
            hook()
        except FAILURES:
            logger.exception("a hook failed after the commit: %r", hook)

    return run


def failure(claim: Claim, subscriber: Subscriber, error: BaseException) -> Outcome:
    if isinstance(error, Snooze | Discard):
        error.__traceback__ = None  # the traceback of one that is raised again and again would only grow
        return error
    if is_lost_connection(error) and claim.rescues + 1 < conf().RESCUE_LIMIT:
        # Most likely not its fault. It counts as a rescue, since the handler may be what breaks the connection.
        return Retried(TUNABLES.lost_connection_retry_seconds, error, uses_attempt=False, rescued=True)
    if isinstance(error, UnsupportedVersion) and (wait := wait_for_newer_code(claim, error)) is not None:
        return wait
    return by_policy(subscriber.retry, claim, error, on_dead=subscriber.on_dead)


def by_policy(retry: Retry, claim: Claim, error: BaseException, *, on_dead: str) -> Retried | Dead:
    """What a retry policy decides about a failed attempt; if the policy itself fails, the default one decides."""
    try:
        outcome = retry.outcome(error, claim.attempt, claim.age())
        if not isinstance(outcome, Retried | Dead):
            raise TypeError(f"{retry!r} answered with {outcome!r}; outcome() must give Retried or Dead.")
    except Exception:
        logger.exception("retry policy failed, the default is used: subscriber=%s", claim.subscriber)
        outcome = Retry().outcome(error, claim.attempt)
    return Dead(outcome.error, leaves_stream=True) if isinstance(outcome, Dead) and on_dead == "skip" else outcome


def could_not_run(claim: Claim, error: BaseException, *, started: float, on_dead: str = "block") -> Ended:
    """An error outside the handler counts as a failed attempt: the delivery waits, and becomes a dead letter in the
    end. If it was only released, it would run again at once, and for ever."""
    return Ended(claim, by_policy(Retry(), claim, error, on_dead=on_dead), started, 0.0)


def is_lost_connection(error: BaseException) -> bool:
    """The error tells, not the connection: at the end of a transaction Django has made a new one already. An error of
    psycopg without a code of the server is about the connection. Behind PgBouncer a commit gets two answers if the
    session has ended, one of the server and one of the pooler: an InternalError."""
    cause = error.__cause__
    if not isinstance(error, Error) or not isinstance(cause, psycopg.Error):
        return False
    if cause.sqlstate is None:
        return isinstance(cause, psycopg.OperationalError | psycopg.InternalError)
    return cause.sqlstate.startswith("08") or cause.sqlstate in _SERVER_GOES_AWAY


_CONTENTION = (DeadlockDetected, LockNotAvailable, SerializationFailure)


class GroupFailed(Exception):
    """A handler failed, so the transaction of its group is rolled back."""

    def __init__(self, pair: Pair, error: BaseException, started: float) -> None:
        self.pair = pair
        self.error = error
        self.started = started


def perform_together(
    pairs: Iterable[Pair], using: str, clock: Clock, owns: Callable[[int], bool], running: Running | None = None
) -> tuple[list[Ended], bool]:
    """Run and settle them, in one transaction if no handler fails; the second value says whether it was so. Takes from
    `pairs` one at a time. Those that are missing in the answer were lost with the lease."""
    taken: list[Pair] = []
    try:
        return _in_one_transaction(pairs, taken, using, clock, running), True
    except GroupFailed as reason:
        last = None if _is_contention(reason.error) else reason
        return _one_by_one(taken, last, using, clock, owns, running), False
    except LeaseLost:
        raise
    except Exception:
        # The settlement or the commit failed for all: a deferred constraint, a broken connection; or `together` did.
        return _one_by_one(taken, None, using, clock, owns, running), False
    finally:
        limit(None)


def _in_one_transaction(
    pairs: Iterable[Pair], taken: list[Pair], using: str, clock: Clock, running: Running | None
) -> list[Ended]:
    ended: list[Ended] = []
    at_once: dict[str, list[Pair]] = {}
    with transaction.atomic(using=using):
        hooks = len(connections[using].run_on_commit)
        for pair in pairs:
            taken.append(pair)
            claim, subscriber = pair
            if subscriber.together and not claim.event_is_gone and not claim.expired():
                at_once.setdefault(subscriber.name, []).append(pair)
                continue
            started = clock.now()
            try:
                outcome = call(claim, subscriber, using, running)
                refuse_broken_transaction(subscriber, using)
            except FAILURES as error:
                let_ctrl_c_pass(error)
                raise GroupFailed(pair, error, started) from error
            ended.append(Ended(claim, outcome, started, (clock.now() - started) * 1000))
        for some in at_once.values():
            ended += _at_once(some, using, clock)
        log_failing_hooks(using, hooks)
        limit()  # for the commit, too
        if ended and settle(using, ended[0].claim.lease, ended):
            raise LeaseLost("the lease ran out meanwhile; everything its handlers wrote here is rolled back")
    return ended


def _at_once(pairs: list[Pair], using: str, clock: Clock) -> list[Ended]:
    started = clock.now()
    together = pairs[0][1].together
    assert together, "only subscribers with `together` come here"
    together([claim.fact for claim, _ in pairs], using)
    took_ms = (clock.now() - started) * 1000 / len(pairs)
    return [Ended(claim, None, started, took_ms) for claim, _ in pairs]


def _one_by_one(
    taken: list[Pair],
    last: GroupFailed | None,
    using: str,
    clock: Clock,
    owns: Callable[[int], bool],
    running: Running | None,
) -> list[Ended]:
    """Run them again, each in a transaction of its own. The one that failed does not run again, unless it failed to get
    a lock."""
    limit(None)
    replace_connections()
    ended = []
    for claim, subscriber in taken:
        if not owns(claim.lease):
            break
        if last is not None and claim is last.pair[0]:
            took_ms = (clock.now() - last.started) * 1000
            end, written = Ended(claim, failure(claim, subscriber, last.error), last.started, took_ms), False
        else:
            try:
                end, written = perform(claim, subscriber, using, clock, running)
            except LeaseLost:
                break  # the rest is lost as well
        if not written:
            with limited():
                if settle(using, claim.lease, [end]):
                    break
        ended.append(end)
    return ended


def _is_contention(error: BaseException) -> bool:
    """Whether it failed to get a lock. Another handler of its group may have held that, so it may run again alone."""
    return isinstance(error, OperationalError) and isinstance(error.__cause__, _CONTENTION)
