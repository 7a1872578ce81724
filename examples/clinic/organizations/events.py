"""The catalogue: what happens to an organization, its members and what they pay for.

`public` names the fields that partners may see. They get them as `public.member.invited` and so on, never more.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import duebox
from duebox.contracts import PII

Role = Annotated[Literal["owner", "doctor", "assistant"], "What the member may do"]
Plan = Annotated[Literal["solo", "team", "clinic"], "What was bought"]
Currency = Annotated[Literal["EUR", "CHF"], "Of the price"]
Seats = Annotated[int, "How many members there may be", {"minimum": 1}]


@duebox.event("organization.created", aggregate="organization", owner="platform", public={"name", "zone"})
class OrganizationCreated:
    """A practice signed up. Whoever did it is its first member."""

    name: Annotated[str, "As it stands on the door"]
    zone: Annotated[str, "The zone of its clocks, such as Europe/Zurich"]
    founder: Annotated[str, "Email of whoever signed it up", PII]


@duebox.event("organization.billing_updated", aggregate="organization", owner="billing")
class OrganizationBillingUpdated:
    """Invoices go to another place from now on."""

    email: Annotated[str, "Where invoices go", PII]
    address: Annotated[str, "What stands on them", PII]
    tax_number: Annotated[str, "Of the organization, where it has one"] = ""


# Members


@duebox.event("member.invited", aggregate="member", owner="platform", public={"role"})
class MemberInvited:
    """Somebody is asked to join an organization."""

    email: Annotated[str, "Where the invitation goes", PII]
    role: Role
    organization: Annotated[str, "Its name, for the invitation"]


@duebox.event("member.joined", aggregate="member", owner="platform", public={"role"})
class MemberJoined:
    """Whoever was invited has accepted."""

    name: Annotated[str, "What the new member is called", PII]
    role: Role


@duebox.event("member.role_changed", aggregate="member", owner="platform", public={"role", "before"})
class MemberRoleChanged:
    """A member may do other things from now on."""

    email: Annotated[str, "Of the member, who is told", PII]
    before: Annotated[Role, "What the member could do until now"]
    role: Role


@duebox.event("member.removed", aggregate="member", owner="platform", public={"role"})
class MemberRemoved:
    """Somebody belongs to an organization no longer."""

    email: Annotated[str, "Of the former member, who is told", PII]
    role: Role
    reason: Annotated[str, "For the file; never shown to others"] = ""


@duebox.event("user.phone_changed", aggregate="user", owner="platform")
class UserPhoneChanged:
    """A person has another phone number. The old one is told, in case it was not the person who changed it."""

    before: Annotated[str, "The old number", PII]
    after: Annotated[str, "The new number", PII]


# What they pay for


@duebox.event("subscription.activated", aggregate="subscription", owner="billing", public={"plan", "seats"})
class SubscriptionActivated:
    """An organization has paid for the first time; it may invite members."""

    plan: Plan
    seats: Seats
    price: Annotated[Decimal, "What it costs a month"]
    currency: Currency


@duebox.event("subscription.updated", version=1, aggregate="subscription", owner="billing", public={"plan", "seats"})
class SubscriptionUpdatedV1:
    """An organization has another plan. The price is in cents, of euros: there was nothing else."""

    plan: Plan
    seats: Seats
    cents: Annotated[int, "The price a month, in cents"]


def _with_currency(old: dict[str, Any]) -> dict[str, Any]:
    price = Decimal(old["cents"]) / 100
    return {"plan": old["plan"], "seats": old["seats"], "price": f"{price:.2f}", "currency": "EUR"}


@duebox.event(
    "subscription.updated", version=2, aggregate="subscription", owner="billing", public={"plan", "seats"},
    upcast=_with_currency,
)  # fmt: skip
class SubscriptionUpdated:
    """An organization has another plan, or another number of seats."""

    plan: Plan
    seats: Seats
    price: Annotated[Decimal, "What it costs a month"]
    currency: Currency


@duebox.event("subscription.canceled", aggregate="subscription", owner="billing", public={"ends_on"})
class SubscriptionCanceled:
    """An organization will not pay any more."""

    plan: Plan
    ends_on: Annotated[date, "The last day that is paid for"]
