"""What a look at a chain finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Flaw(NamedTuple):
    """Something that is not as Duebox wrote it. Without an `id` it is about entries that are not there."""

    sequence: int
    id: int | None
    what: str

    def __str__(self) -> str:
        which = f"entry {self.sequence}" if self.id is None else f"entry {self.sequence} (id {self.id})"
        return f"{which} {self.what}"


def missing(first: int, last: int) -> Flaw:
    return Flaw(first, None, "is missing" if first == last else f"and all up to {last} are missing")


def unsealed(sequence: int) -> Flaw:
    return Flaw(sequence, None, "ends a chain whose head was changed")


@dataclass(slots=True)
class Verdict:
    """On one organization: how many entries were read, where its chain ends, what is wrong with it."""

    organization: str
    sequence: int
    hash: bytes
    entries: int = 0
    flaws: int = 0
    first: Flaw | None = None

    def note(self, flaw: Flaw) -> None:
        """Of all that is wrong the first is kept, and the number."""
        self.flaws += 1
        if self.first is None or flaw.sequence < self.first.sequence:
            self.first = flaw

    def as_dict(self) -> dict[str, Any]:
        return {
            "organization": self.organization,
            "entries": self.entries,
            "sequence": self.sequence,
            "hash": self.hash.hex(),
            "flaws": self.flaws,
            "first": None if self.first is None else self.first._asdict(),
        }
