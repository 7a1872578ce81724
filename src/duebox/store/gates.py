"""What all workers know about a destination: how much it may be sent, whether it is left alone, since when it fails."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from duebox.store.deliveries import storable
from duebox.store.statements import execute, run

_ERROR_LIMIT = 500


class Bucket(NamedTuple):
    """Tokens: so many come in each second, and no more than `size` are kept."""

    rate: float
    size: float


class State(NamedTuple):
    """How a destination fares, for people."""

    name: str
    waiting: int = 0
    dead: int = 0
    paused_at: datetime | None = None
    paused_note: str = ""
    open_until: datetime | None = None
    failing_since: datetime | None = None
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in self._asdict().items()
        }


class Held(NamedTuple):
    tokens: dict[str, float]
    moment: float


def make(using: str, buckets: Mapping[str, Bucket]) -> None:
    execute("gate_make", using, {"name": list(buckets), "bucket": [each.size for each in buckets.values()]})


def hold(using: str, buckets: Mapping[str, Bucket]) -> Held:
    """What is in the buckets; held until the transaction ends. One that another worker holds is missing."""
    params = {
        "name": list(buckets),
        "rate": [each.rate for each in buckets.values()],
        "bucket": [each.size for each in buckets.values()],
    }
    rows = run("gate_hold", using, params)
    return Held({name: tokens for name, tokens, _ in rows}, rows[0][2] if rows else 0.0)


def spend(using: str, held: Held, taken: Mapping[str, int]) -> None:
    if not taken:
        return
    left = [held.tokens[name] - count for name, count in taken.items()]
    execute("gate_spend", using, {"name": list(taken), "tokens": left, "moment": held.moment})


def open(
    using: str, name: str, *, pause: float, longest: float, error: str, counts: bool, probed: bool
) -> float | None:
    """Leave it alone; gives the seconds, or None where somebody else has said so already. Each time in a row that
    `counts` doubles the pause."""
    params = {
        "name": name, "pause": pause, "longest": longest, "error": storable(error[:_ERROR_LIMIT]),
        "counts": int(counts), "probed": probed,
    }  # fmt: skip
    rows = run("gate_open", using, params)
    return rows[0][0] if rows else None


def probe(using: str, names: Collection[str], seconds: float) -> set[str]:
    """Those whose pause is over and that this worker may try, alone."""
    return {row[0] for row in run("gate_probe", using, {"name": list(names), "seconds": seconds})}


def probe_again(using: str, name: str, seconds: float) -> None:
    """Nothing came of it: nobody needs to wait for this worker."""
    execute("gate_probe_again", using, {"name": name, "seconds": seconds})


def shut(using: str, names: Collection[str]) -> set[str]:
    """Those that are paused or to be left alone."""
    return {row[0] for row in run("gate_shut", using, {"name": list(names)})}


def close(using: str, name: str, *, probed: bool) -> None:
    execute("gate_close", using, {"name": name, "probed": probed})


def failing(using: str, name: str, error: str, *, gap: float) -> float:
    """Since when, in seconds since 1970; after a gap of so many seconds it begins anew."""
    params = {"name": name, "error": storable(error[:_ERROR_LIMIT]), "gap": gap}
    since: float = run("gate_failing", using, params)[0][0]
    return since


def states(using: str) -> list[State]:
    return [State(*row) for row in run("gate_states", using, {})]


def pause(using: str, name: str, note: str) -> None:
    execute("gate_pause", using, {"name": name, "note": note})


def resume(using: str, name: str) -> bool:
    """False when it was not paused, nor left alone."""
    return bool(run("gate_resume", using, {"name": name}))
