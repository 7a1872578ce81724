"""Signals to observe with; to act, subscribe with `@duebox.on`. A receiver that fails is logged, never felt.

`emitted`    an event was stored; not yet committed. Arguments: fact, using.
`settled`    deliveries were settled. Arguments: ended, a list of (claim, outcome, started, took_ms).
`died`       a delivery went to the dead letters. Arguments: claim, error.
"""

from __future__ import annotations

from django.dispatch import Signal

__all__ = ["died", "emitted", "settled"]

emitted = Signal()
settled = Signal()
died = Signal()
