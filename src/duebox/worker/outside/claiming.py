"""What to take from the database: for each destination as much as can be carried soon, and as it may be sent."""

from __future__ import annotations

import time
from collections import Counter

from duebox.store import gates, outside
from duebox.store.deliveries import Claim
from duebox.store.outside import Ready
from duebox.worker.crew import Crew
from duebox.worker.crowds import Crowds
from duebox.worker.outside.desk import QUICK
from duebox.worker.outside.desks import Desks
from duebox.worker.outside.health import PROBE_AGAIN_SECONDS, PROBE_SECONDS

RATE_SECONDS = 0.02
CROWD = 200
# Of an ordered destination the oldest events may stand behind others; so many are looked at to find one to try.
PROBES = 20


class Claiming:
    def __init__(self, crew: Crew, desks: Desks) -> None:
        self._crew = crew
        self._desks = desks
        self._crowds = Crowds(crew.using)

    def claim(self, names: list[Ready], lease: int) -> list[Claim]:
        due = [each for each in names if each.due_in <= 0 and not each.paused]
        many = self._rooms([each for each in due if each.opens_in is None])
        probed = self._probed([each.name for each in due if each.opens_in is not None and each.opens_in <= 0])
        claims = self._take({**many, **dict.fromkeys(probed, PROBES)}, lease)
        return self._one_for_each_probe(claims, probed) if probed else claims

    def _rooms(self, due: list[Ready]) -> dict[str, int]:
        rooms: dict[str, int] = {}
        due = self._soon(due)
        self._desks.prepare([each.name for each in due])
        for each in due:
            desk = self._desks.open(each.name)
            if desk is None or (desk.bucket and time.monotonic() < desk.look_at):
                continue
            desk.failing_since = each.failing_since
            if (room := desk.room()) > 0:
                rooms[each.name] = room
        return rooms

    def _soon(self, due: list[Ready]) -> list[Ready]:
        """Of those that are slow, or that nobody knows yet, no more than can be carried soon: the others may be carried
        by another worker."""
        held = self._desks.waiting()
        chosen = []
        for each in due:
            kind = self._desks.kind(each.name)
            if kind == QUICK or held[kind] < CROWD:
                held[kind] += 1
                chosen.append(each)
        return chosen

    def _probed(self, names: list[str]) -> set[str]:
        """Those whose pause is over and that this worker tries with one event."""
        ready = [name for name in names if self._desks.open(name) is not None]
        won = gates.probe(self._crew.using, ready, PROBE_SECONDS) if ready else set()
        for name in won:
            self._desks[name].probing = True
        return won

    def _take(self, many: dict[str, int], lease: int) -> list[Claim]:
        using = self._crew.using
        metered = {name: bucket for name in many if (bucket := self._desks[name].bucket)}
        plain = {name: count for name, count in many.items() if name not in metered}
        claims: list[Claim] = []
        parked: Counter[tuple[str, str]] = Counter()
        past = self._crowds.streams
        if plain:
            claims, parked = outside.claim(using, lease, plain, past=past)
        if metered:
            more = outside.claim_metered(using, lease, {name: many[name] for name in metered}, metered, past=past)
            claims, parked = claims + more.claims, parked + more.parked
            for name, bucket in metered.items():
                self._desks[name].look_at = time.monotonic() + max(RATE_SECONDS, 1 / bucket.rate)
        self._crowds.see(parked, many.__getitem__)
        return claims

    def _one_for_each_probe(self, claims: list[Claim], probed: set[str]) -> list[Claim]:
        kept: list[Claim] = []
        spare: list[Claim] = []
        tried: set[str] = set()
        for each in claims:
            (spare if each.subscriber in tried else kept).append(each)
            tried |= {each.subscriber} & probed
        if spare:
            self._crew.give_back(spare, "one is tried first")
        for name in probed - tried:
            self._desks[name].probing = False
            gates.probe_again(self._crew.using, name, PROBE_AGAIN_SECONDS)
        return kept
