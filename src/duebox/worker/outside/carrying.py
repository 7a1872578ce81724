"""One call: events go out, outcomes come back."""

from __future__ import annotations

import time
from collections.abc import Sequence

from duebox.destinations.base import Destination, Result
from duebox.destinations.terms import Terms
from duebox.exceptions import InvalidDestination, Permanent, Throttled, Undelivered
from duebox.fact import Fact
from duebox.outcome import Dead, Delivered, Discard, Outcome, Retried, Snooze
from duebox.store.deliveries import Claim, Ended
from duebox.worker.around import is_watched, watched
from duebox.worker.clock import Clock
from duebox.worker.dispatch import FAILURES, by_policy
from duebox.worker.outside.desk import Bundle

ANSWERS = (type(None), Delivered, Snooze, Discard, Exception)


def carry(bundle: Bundle, clock: Clock) -> list[Ended]:
    """Deliver a bundle. Never raises: whatever goes wrong is the outcome of its events."""
    started, begun = clock.now(), time.perf_counter()
    desk = bundle.desk
    expired = {id(each): outcome for each in bundle.claims if (outcome := each.expired())}
    whole = [each for each in bundle.claims if not each.event_is_gone and id(each) not in expired]
    results = dict(zip(map(id, whole), _results(desk.name, desk.destination, whole), strict=True)) if whole else {}
    took = (time.perf_counter() - begun) * 1000
    gone = Discard("its event was deleted")
    return [
        Ended(
            each,
            expired.get(id(each)) or outcome_of(results.get(id(each), gone), each, desk.terms),
            started,
            took,
        )
        for each in bundle.claims
    ]


def _results(name: str, destination: Destination, claims: Sequence[Claim]) -> Sequence[Result]:
    facts = [claim.fact for claim in claims]
    try:
        results = list(_deliver(name, destination, facts))
    except FAILURES as error:
        return [_as_exception(error)] * len(facts)
    if len(results) != len(facts):
        wrong = InvalidDestination(
            f"{destination!r} gave {len(results)} answers for {len(facts)} events; deliver() owes one for each."
        )
        return [wrong] * len(facts)
    return [each if isinstance(each, ANSWERS) else _no_answer(destination, each) for each in results]


def _no_answer(destination: Destination, given: object) -> InvalidDestination:
    return InvalidDestination(
        f"{destination!r} answered with a {type(given).__name__}; deliver() gives None, Delivered, Snooze, Discard or "
        "an error for each event."
    )


def _deliver(name: str, destination: Destination, facts: Sequence[Fact]) -> Sequence[Result]:
    if len(facts) == 1 and is_watched():
        answers: Sequence[Result] = watched(lambda fact: destination.deliver([fact]), facts[0], name)
        return answers
    return destination.deliver(facts)


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else Undelivered(f"{type(error).__name__}: {error}")


def outcome_of(result: Result, claim: Claim, terms: Terms) -> Outcome:
    if result is None or isinstance(result, Delivered | Snooze | Discard):
        return result
    return by_policy(terms.retry, claim, result, on_dead=terms.on_dead)


def is_success(outcome: Outcome) -> bool:
    return outcome is None or isinstance(outcome, Delivered)


def seconds_asked(ended: Sequence[Ended]) -> float:
    """For how long the other side wants to be left alone."""
    errors = [failure_of(end.outcome) for end in ended]
    return max((error.seconds for error in errors if isinstance(error, Throttled)), default=0.0)


def failure_of(outcome: Outcome) -> BaseException | None:
    """The error that speaks against the destination; what is wrong with the event itself does not."""
    if isinstance(outcome, Retried | Dead) and not isinstance(outcome.error, Permanent):
        return outcome.error
    return None
