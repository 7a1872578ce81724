"""A few event types to write documents about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from duebox.contracts import PII


@dataclass(frozen=True, kw_only=True)
class Line:
    sku: Annotated[str, "What was bought", {"minLength": 2, "maxLength": 20}]
    price: Decimal


def declare_all(event: Callable[..., Any]) -> None:
    @event("member.invited", aggregate="member", owner="people@inside.example", public={"role"})
    class MemberInvitedV1:
        """Somebody asked a person to join."""

        email: Annotated[str, "Where the invitation went", PII]
        role: Annotated[str, "What the person may do"]
        seats: int = 1

    @event(
        "member.invited",
        version=2,
        aggregate="member",
        owner="people@inside.example",
        public={"roles", "expires_at"},
        upcast=lambda data: {"email": data["email"], "roles": [data["role"]]},
    )
    class MemberInvited:
        """Somebody asked a person to join. No answer yet."""

        email: Annotated[str, "Where the invitation went", PII]
        roles: Annotated[list[Literal["admin", "guest"]], "What the person may do", {"minItems": 1}]
        expires_at: datetime | None = None

    @event("order.paid")
    class OrderPaid:
        lines: list[Line]
