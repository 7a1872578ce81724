"""Who did it, and where it came from: what the code around already knows."""

from __future__ import annotations

from typing import NamedTuple

from duebox.auditing.text import cleaned
from duebox.context import Who, correlation_id, handling, origin

AGENT_LIMIT = 256


class Story(NamedTuple):
    actor: str = ""
    impersonator: str = ""
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
        actor=cleaned(who.actor),
        impersonator=cleaned(who.impersonator),
        correlation_id=cleaned(correlation_id()),
        ip=cleaned(here.ip) if here else "",
        user_agent=cleaned(here.user_agent, AGENT_LIMIT) if here else "",
    )
    if current is None:
        return known
    fact = current.fact
    return known._replace(actor=fact.actor or "", organization=organization_handled(), causation_id=str(fact.id))
