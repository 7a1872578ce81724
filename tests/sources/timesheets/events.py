from __future__ import annotations

from typing import Annotated, Any

import duebox
from duebox.contracts import PII


@duebox.event("time_entry.created", public={"id", "description", "minutes"})
class TimeEntryCreated:
    id: str
    description: str
    minutes: int
    email: Annotated[str, PII] = ""
    internal_rate: float | None = None


@duebox.event("time_entry.submitted")
class TimeEntrySubmitted:
    number: int


@duebox.event("time_entry.approved", public={"id"})
class TimeEntryApproved:
    id: str


@duebox.event("time_entry.rejected")
class TimeEntryRejected:
    reason: str


@duebox.event("organization.created")
class OrganizationCreated:
    name: str


@duebox.event("organization.billing_updated")
class OrganizationBillingUpdated: ...


@duebox.event("member.invited")
class MemberInvited:
    email: Annotated[str, PII]
    role: str


@duebox.event("member.joined")
class MemberJoined:
    role: str


@duebox.event("member.removed")
class MemberRemoved: ...


@duebox.event("member.role_changed")
class MemberRoleChanged:
    role: str


@duebox.event("user.phone_number_changed")
class PhoneNumberChanged:
    verified: bool


@duebox.event("subscription.activated")
class SubscriptionActivated:
    plan: str


@duebox.event("subscription.canceled")
class SubscriptionCanceled: ...


@duebox.event("page.printed")
class PagePrinted:
    title: str


@duebox.event("page.lost")
class PageLost:
    title: str


@duebox.event("project.assigned")
class ProjectAssignedV1:
    project_id: str


def _nested(data: dict[str, Any]) -> dict[str, Any]:
    return {"project": {"id": data["project_id"]}}


@duebox.event("project.assigned", version=2, upcast=_nested)
class ProjectAssigned:
    project: dict[str, str]
