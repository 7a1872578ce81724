"""Conditions that must hold together, and in the same element where they pass through the same list.

Conditions come sorted by path, so those that share a list are neighbours. After each of them the elements are known in
which all so far hold; of those only what the next condition shares is kept. So the work grows with the event, not with
the number of combinations in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from duebox.destinations.patterns.finding import Chain
from duebox.destinations.patterns.values import Condition


def hold_together(conditions: Sequence[Condition], event: Any) -> bool:
    reached: set[Chain] = {()}
    for at, condition in enumerate(conditions):
        shared = _shared_steps(condition, conditions[at + 1]) if at + 1 < len(conditions) else -1
        reached = {_cut(chain, shared) for chain in _next(condition, event, reached)}
        if not reached:
            return False
    return True


def _next(condition: Condition, event: Any, reached: set[Chain]) -> Iterator[Chain]:
    found = condition.search(event)
    taken = _Elements(chain for value, chain in found if condition.accepts(value))
    for chain in reached:
        yield from taken.joined(chain)
    if condition.absent:
        # A field is absent from an element that is already chosen; before one is, it must be absent from all.
        present = _Elements(chain for _, chain in found)
        yield from (chain for chain in reached if not present.touch(chain))


class _Elements:
    """Chains of elements, found by how they begin."""

    def __init__(self, chains: Iterable[Chain]) -> None:
        self.chains = set(chains)
        self.beginning: dict[Chain, list[Chain]] = {}
        for chain in self.chains:
            for length in range(len(chain) + 1):
                self.beginning.setdefault(chain[:length], []).append(chain)

    def joined(self, chain: Chain) -> Iterator[Chain]:
        """What comes of going on from a chain: the longer one of each two that do not contradict each other."""
        yield from self.beginning.get(chain, ())
        if any(chain[:length] in self.chains for length in range(len(chain))):
            yield chain

    def touch(self, chain: Chain) -> bool:
        return next(self.joined(chain), None) is not None


def _shared_steps(one: Condition, other: Condition) -> int:
    count = 0
    for mine, theirs in zip(one.steps, other.steps, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _cut(chain: Chain, steps: int) -> Chain:
    return tuple(element for element in chain if element[0] <= steps)
