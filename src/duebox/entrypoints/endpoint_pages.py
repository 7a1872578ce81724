"""Endpoints as text and as JSON. Secrets, headers and the path of a URL stay out of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from duebox.auditing.text import printable
from duebox.entrypoints.endpoint_states import State
from duebox.entrypoints.terminal import aligned
from duebox.models import WebhookEndpoint

_LINE = 100


def as_dict(row: WebhookEndpoint, state: State) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "organization": row.organization,
        "host": row.host,
        "types": row.types,
        "description": row.description,
        "rate": row.rate,
        "created_at": row.created_at.isoformat(),
        "disabled_at": row.disabled_at.isoformat() if row.disabled_at else None,
        "disabled_reason": row.disabled_reason,
        "two_secrets_until": row.previous_until.isoformat() if row.previous_until else None,
        **state.as_dict(),
    }


def listed(found: Iterable[tuple[WebhookEndpoint, State]]) -> list[str]:
    cells = [
        (
            str(row.pk),
            *map(printable, (row.organization, row.host, ",".join(row.types), _told(row, state), row.description)),
        )
        for row, state in found
    ]
    if not cells:
        return ["No endpoints."]
    return aligned(("id", "organization", "host", "types", "state", "description"), cells)


def page(row: WebhookEndpoint, state: State, attempts: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{row.pk}  {printable(str(row))}"
    yield f"types: {', '.join(row.types)}"
    if row.description:
        yield f"description: {printable(row.description)}"
    if row.rate:
        yield f"at most {row.rate:g} events a second"
    if row.previous_until:
        yield f"two secrets sign until {row.previous_until:%Y-%m-%d %H:%M} UTC"
    yield printable(_told(row, state))
    yield from map(_line, attempts)
    if not attempts:
        yield "Nothing was sent yet."


def _line(attempt: dict[str, Any]) -> str:
    took = f"{attempt['took_ms']:.0f} ms" if attempt["took_ms"] is not None else ""
    first = printable(attempt["note"].strip())[:_LINE]
    parts = (attempt["settled_at"][:19], attempt["outcome"], str(attempt["status"] or ""), took, attempt["type"], first)
    return "  ".join(part for part in parts if part)


def _told(row: WebhookEndpoint, state: State) -> str:
    return f"disabled: {row.disabled_reason}" if row.disabled_at else "; ".join(["enabled", *state.words()])
