"""How often a mail about deaths of one cause is sent."""

from __future__ import annotations

from duebox.store.statements import run


def may_mail(using: str, fingerprint: str, subscriber: str, *, seconds: float) -> bool:
    """Whether a mail about deaths of this cause may be sent now; true once in so many seconds, for all workers."""
    params = {"fingerprint": fingerprint, "subscriber": subscriber, "seconds": seconds, "now": None}
    return bool(run("dead_mail", using, params))
