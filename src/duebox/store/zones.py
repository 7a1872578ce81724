"""The zone database that PostgreSQL brings along; only ever asked for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from duebox.store.statements import number_array, run, text_array


class ZoneProbe(NamedTuple):
    """The UTC offset in seconds that a zone should have at an instant."""

    zone: str
    at: datetime
    seconds: int


def disagreements(using: str, probes: Sequence[ZoneProbe]) -> list[str]:
    """The zones for which PostgreSQL has another offset; those that it does not know are not among them.

    Not for names like CET: where one is also an abbreviation, PostgreSQL reads it as that.
    """
    params = {
        "zone": text_array(probe.zone for probe in probes),
        "at": text_array(probe.at.isoformat() for probe in probes),
        "seconds": number_array(probe.seconds for probe in probes),
    }
    return [row[0] for row in run("zone_disagreements", using, params)]
