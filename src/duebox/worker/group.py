"""Many quick atomic handlers in one transaction: one BEGIN, one settlement, one COMMIT for all of them.

Each one's writes still commit together with its settlement. When one fails, or the commit does, nothing of the group
has happened, and its neighbours run again, each in a transaction of its own. Committing one by one handled 1,200
deliveries a second; a savepoint around each handler, which would spare the neighbours the second run, cost a round
trip more for every delivery and got no further than 2,700.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db import OperationalError, connections, transaction
from psycopg.errors import DeadlockDetected, LockNotAvailable, SerializationFailure

from duebox.exceptions import LeaseLost
from duebox.store.deliveries import Claim, Ended
from duebox.subscribers import Subscriber
from duebox.worker.clock import Clock
from duebox.worker.dispatch import (
    FAILURES,
    Running,
    call,
    calm_hooks,
    failure,
    let_ctrl_c_pass,
    perform,
    refuse_broken_transaction,
)
from duebox.worker.settling import settle
from duebox.worker.tidy import tidy_connections
from duebox.worker.watchdog import limit, limited

_CONTENTION = (DeadlockDetected, LockNotAvailable, SerializationFailure)

Pair = tuple[Claim, Subscriber]


class FellApart(Exception):
    """A handler failed, so the transaction of its group cannot be kept."""

    def __init__(self, pair: Pair, error: BaseException, started: float) -> None:
        self.pair = pair
        self.error = error
        self.started = started


def perform_together(
    pairs: Iterable[Pair], using: str, clock: Clock, owns: Callable[[int], bool], running: Running | None = None
) -> tuple[list[Ended], bool]:
    """Run and settle them, in one transaction if nothing goes wrong; says whether it was so. Takes from `pairs` one at
    a time, as it goes. Those that are missing in the answer were lost with the lease."""
    taken: list[Pair] = []
    try:
        return _in_one_transaction(pairs, taken, using, clock, running), True
    except FellApart as reason:
        last = None if _is_contention(reason.error) else reason
        return _one_by_one(taken, last, using, clock, owns, running), False
    except LeaseLost:
        raise
    except Exception:
        # The settlement or the commit failed for all: a deferred constraint, a broken connection; or what several of
        # them do at once did.
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
                raise FellApart(pair, error, started) from error
            ended.append(Ended(claim, outcome, started, (clock.now() - started) * 1000))
        for some in at_once.values():
            ended += _at_once(some, using, clock)
        calm_hooks(using, hooks)
        limit()  # for the commit, too
        if ended and settle(using, ended[0].claim.lease, ended):
            raise LeaseLost("the lease ran out meanwhile; everything its handlers wrote here is rolled back")
    return ended


def _at_once(pairs: list[Pair], using: str, clock: Clock) -> list[Ended]:
    started = clock.now()
    together = pairs[0][1].together
    assert together, "only those come here that take many"
    together([claim.fact for claim, _ in pairs], using)
    took_ms = (clock.now() - started) * 1000 / len(pairs)
    return [Ended(claim, None, started, took_ms) for claim, _ in pairs]


def _one_by_one(
    taken: list[Pair],
    last: FellApart | None,
    using: str,
    clock: Clock,
    owns: Callable[[int], bool],
    running: Running | None,
) -> list[Ended]:
    """Again, each for itself; the one that failed has had its try, unless it merely lost a fight for a lock."""
    limit(None)
    tidy_connections()
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
    """A neighbour in the same transaction may have held the lock; alone it gets a fair try."""
    return isinstance(error, OperationalError) and isinstance(error.__cause__, _CONTENTION)
