"""What observing costs a drain: metrics for Prometheus, JSON logs and the rollup, with them and without, in turns.

The minutes of a drain are counted when they are over. Their time is measured after the drain and added to it, as if the
worker had no other core for that.
"""

from __future__ import annotations

import os
import statistics
import time
from datetime import timedelta

from bench import stage
from bench.drain import run_workers

VARIABLE = "DUEBOX_BENCH_OBSERVED"
PAIRS = 6


def measure(events: int, pairs: int = PAIRS) -> dict[str, object]:
    """The median share of the drain rate that is left, of so many pairs."""
    shares, bare, observed, counting = [], [], [], []
    for number in range(pairs):
        seconds = {}
        for name in ("off", "on") if number % 2 else ("on", "off"):
            stage.fill("bench.plain", events)
            os.environ[VARIABLE] = name
            seconds[name] = events / run_workers(events)
            if name == "on":
                counting.append(_count())
        shares.append(seconds["off"] / (seconds["on"] + counting[-1]))
        bare.append(events / seconds["off"])
        observed.append(events / (seconds["on"] + counting[-1]))
    del os.environ[VARIABLE]
    return {
        "observed_pairs": pairs,
        "observed_drain_s": round(statistics.median(observed), 1),
        "not_observed_drain_s": round(statistics.median(bare), 1),
        "observed_share": round(statistics.median(shares), 3),
        "observed_shares": [round(each, 3) for each in sorted(shares)],
        "rollup_us": round(1e6 * statistics.median(counting) / events, 2),
    }


def _count() -> float:
    """The seconds that the rollup takes for what was drained just now."""
    from duebox.observe.rollup import roll_up
    from duebox.store.run_sql import now

    later = now("default") + timedelta(minutes=3)
    begun = time.perf_counter()
    while roll_up("default", now=later):
        pass
    return time.perf_counter() - begun
