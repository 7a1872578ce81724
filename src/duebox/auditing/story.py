"""Who did it, and where it came from: what the code around already knows."""

from __future__ import annotations

from typing import NamedTuple

from duebox.auditing.text import cleaned
from duebox.context import Who, correlation_id, handling, origin
from duebox.fact import Actor

AGENT_LIMIT = 256


class Story(NamedTuple):
    actor: str | None = None
    """As JSON, as is the next."""
    impersonator: str | None = None
    organization: str = ""
    correlation_id: str = ""
    ip: str = ""
    user_agent: str = ""
    causation_id: str = ""


def organization_handled() -> str:
    """Of the event that is being handled."""
    current = handling.get()
    return (current.fact.organization or "") if current else ""


def story() -> Story:
    """Of the event that is being handled, else of the request or job."""
    current, here = handling.get(), origin.get()
    who = here.who() if here else Who()
    known = Story(
        actor=_written(who.actor),
        impersonator=_written(who.impersonator),
        correlation_id=cleaned(correlation_id()),
        ip=cleaned(here.ip) if here else "",
        user_agent=cleaned(here.user_agent, AGENT_LIMIT) if here else "",
    )
    if current is None:
        return known
    fact = current.fact
    return known._replace(actor=fact.row.actor, organization=organization_handled(), causation_id=str(fact.id))


def _written(who: Actor | None) -> str | None:
    """What comes from a session or a token may hold anything."""
    return Actor(cleaned(who.type), cleaned(who.id), cleaned(who.email or "")).to_json() if who else None
