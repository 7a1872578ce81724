"""Metrics of settled deliveries, a batch at a time: at 10,000 deliveries a second, a lock for each costs too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from duebox import clock
from duebox.context import metrics
from duebox.context.metrics import Labels
from duebox.events.address import Address, is_outside
from duebox.events.outcomes import Dead, Retried, outcome_name
from duebox.events.subscribers import Subscriber, receivers_for, receivers_of
from duebox.exceptions import Throttled
from duebox.store.deliveries import Claim, Ended

SUCCESSFUL = ("delivered", "discarded")
GONE = (None,)
"""The type of an event that was deleted."""


Kind = tuple[str, str, str]
"""Subscriber, event type and outcome."""


def measure(ended: Sequence[Ended]) -> None:
    """Add these deliveries to the counters and histograms of this process."""
    kinds = Counter([(end.claim.subscriber, end.claim.fact.type, outcome_name(end.outcome)) for end in ended])
    outcomes: Counter[Labels] = Counter()
    successes: Counter[Labels] = Counter()
    for (subscriber, _, outcome), count in kinds.items():
        outcomes[outcome,] += count
        # Also where it is 0: the share of failures cannot be computed from a series that is not there.
        successes[consumer_of(subscriber),] += count if outcome in SUCCESSFUL else 0
    metrics.SETTLED.add_many(outcomes)
    metrics.SUCCESS.add_many(successes)
    metrics.PUBLISHED.add_many(_published(kinds, ended))
    if ("retried",) in outcomes or ("dead",) in outcomes:
        metrics.FAILURE.add_many(_failures(ended))
    _measure_times(ended)


def consumer_of(subscriber: str) -> str:
    """A handler, or a destination without its endpoint: there may be one for each customer."""
    return str(Address.parse(subscriber).whole) if is_outside(subscriber) else subscriber


def _failures(ended: Sequence[Ended]) -> Counter[Labels]:
    found: Counter[Labels] = Counter()
    for claim, outcome, _, _ in ended:
        if isinstance(outcome, Retried | Dead) and not isinstance(outcome.error, Throttled):
            found[consumer_of(claim.subscriber), type(outcome.error).__name__] += 1
    return found


def _published(kinds: Counter[Kind], ended: Sequence[Ended]) -> Counter[Labels]:
    """Each event counts once: with its delivery to the first of its subscribers."""
    found: Counter[Labels] = Counter()
    for kind, count in kinds.items():
        subscriber, event_type, outcome = kind
        if outcome not in SUCCESSFUL or event_type in GONE:
            continue
        receivers = receivers_of(event_type)
        first = receivers[0] if len(receivers) == 1 else next((each for each in receivers if not each.picky), None)
        if first is not None or not receivers:
            found[event_type,] += count if _is_first(subscriber, first) else 0
        else:  # which of them an event goes to depends on the event
            alike = [
                each for each in ended if each.claim.subscriber == subscriber and each.claim.fact.type == event_type
            ]
            found[event_type,] += sum(
                outcome_name(each.outcome) == outcome and _is_first_of_its_own(each.claim) for each in alike
            )
    return +found


def _is_first(subscriber: str, first: Subscriber | None) -> bool:
    """Also true if the type has no subscriber: the event was stored for this one alone."""
    return first is None or subscriber in (first.name, *first.aliases)


def _is_first_of_its_own(claim: Claim) -> bool:
    return _is_first(claim.subscriber, next(iter(receivers_for(claim.fact.row)), None))


def _measure_times(ended: Sequence[Ended]) -> None:
    took: dict[str, list[float]] = {}
    waited: list[float] = []
    late: list[float] = []
    for claim, _, started, took_ms in ended:
        try:
            took[claim.subscriber].append(took_ms / 1000)
        except KeyError:
            took[claim.subscriber] = [took_ms / 1000]
        if claim.attempt > 1 or claim.event_is_gone:
            continue
        if (moment := claim.fact.scheduled_for) is None:
            waited.append(max(0.0, started - claim.due))
        else:
            late.append(max(0.0, started - moment.timestamp()))
    for subscriber, seconds in took.items():
        metrics.HANDLER_DURATION.observe(seconds, (consumer_of(subscriber),))
    if clock.override() is None:  # else what is due is not on the clock that they were measured with
        metrics.COMMIT_TO_START.observe(waited)
        if late:
            metrics.LATENESS.observe(late)
