"""The hot paths, each beside its reference in the same run: drain, emit, latency, lateness, claim and fire.

A path gives figures and ratios. A ratio compares Duebox with its reference so that more is better, for times too, and
hardly depends on how fast the machine is.
"""

from __future__ import annotations

import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from typing import NamedTuple


class Measured(NamedTuple):
    figures: dict[str, object]
    ratios: dict[str, float]


def measure(options: Namespace) -> Measured:
    """All paths, one after the other."""
    whole = Measured({"events": options.events, "future": options.future}, {})
    for name in PATHS:
        found = measure_path(name, options)
        whole.figures.update(found.figures)
        whole.ratios.update(found.ratios)
    return whole


def measure_path(name: str, options: Namespace) -> Measured:
    print(f"  {name} ...", end="", flush=True, file=sys.stderr)
    begun = time.monotonic()
    found = PATHS[name](options)
    shown = " ".join(f"{key}={value}" for key, value in found.ratios.items())
    print(f" {shown} ({time.monotonic() - begun:.0f} s)", file=sys.stderr)
    return found


def path_of(ratio: str) -> str:
    """The path that measures a ratio."""
    return "drain" if ratio in DRAINS else ratio


DRAINS = ("drain", "drain_two_workers", "two_workers")


def _drain(options: Namespace) -> Measured:
    from bench import drain

    turns = [
        {
            "drain_events_s": drain.drain("bench.plain", options.events),
            "limit_events_s": drain.limit(options.events),
            "drain_two_workers_events_s": drain.drain("bench.plain", options.events, 2),
            "limit_two_clients_events_s": drain.limit(options.events, 2),
        }
        for _ in range(options.repeat)
    ]
    figures = {name: round(statistics.median(turn[name] for turn in turns), 1) for name in turns[0]}

    def ratio(ours: str, reference: str) -> float:
        # Of each turn: the machine's speed varies by a quarter from one minute to the next.
        return round(statistics.median(turn[ours] / turn[reference] for turn in turns), 3)

    pairs = {
        "drain": ("drain_events_s", "limit_events_s"),
        "drain_two_workers": ("drain_two_workers_events_s", "limit_two_clients_events_s"),
        "two_workers": ("drain_two_workers_events_s", "drain_events_s"),
    }
    return Measured({**figures}, {name: ratio(*pair) for name, pair in pairs.items()})


def _emit(options: Namespace) -> Measured:
    from bench import emit

    ours, bare = emit.emit_and_limit(options.transactions)
    return Measured({"emit_tx_s": round(ours, 1), "emit_limit_tx_s": round(bare, 1)}, {"emit": round(ours / bare, 3)})


def _latency(options: Namespace) -> Measured:
    from bench import latency

    raw, ours = latency.raw_listen(options.samples), latency.latency(options.samples)
    return Measured({"latency_ms": ours, "latency_raw_listen_ms": raw}, {"latency": _times(ours, raw)})


def _lateness(options: Namespace) -> Measured:
    from bench import firing

    count, seconds = options.one_shots, options.one_shots / 200
    memory, bare, ours = (
        firing.in_memory(count, seconds),
        firing.bare_client(count, seconds),
        firing.lateness(count, seconds),
    )
    figures: dict[str, object] = {
        "lateness_ms": ours,
        "lateness_bare_client_ms": bare,
        "lateness_in_memory_ms": memory,
    }
    # A scheduler in memory waits for no disk, so its ratio would measure the disk.
    return Measured(figures, {"lateness": _times(ours, bare)})


def _times(ours: dict[str, float], reference: dict[str, float]) -> float:
    """A handler may start before the one that committed has looked at the clock, so a median may be zero or less."""
    return round(max(reference["p50"], 0.01) / max(ours["p50"], 0.01), 3)


def _claim(options: Namespace) -> Measured:
    from bench import claim

    few, many = claim.claim_at(10_000, options.future, rounds=options.rounds)
    return Measured({"claim_ms_at": {"10k": round(few, 3), "1m": round(many, 3)}}, {"claim": round(few / many, 3)})


def _fire(options: Namespace) -> Measured:
    from bench import firing

    few, many = firing.cost_at(10_000, options.future, rounds=options.rounds)
    return Measured({"fire_ms_at": {"10k": round(few, 2), "1m": round(many, 2)}}, {"fire": round(few / many, 3)})


PATHS: dict[str, Callable[[Namespace], Measured]] = {
    "drain": _drain,
    "emit": _emit,
    "latency": _latency,
    "lateness": _lateness,
    "claim": _claim,
    "fire": _fire,
}
