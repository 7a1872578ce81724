"""Members are invited, join, get another role and are removed; a person has another phone number."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET, require_POST

import duebox
from duebox.models import AuditEntry
from examples.clinic import forms
from examples.clinic.organizations.events import (
    MemberInvited,
    MemberJoined,
    MemberRemoved,
    MemberRoleChanged,
    UserPhoneChanged,
)
from examples.clinic.organizations.models import Member, Organization, Subscription, User
from examples.clinic.organizations.views.accounts import known_user
from examples.clinic.refusals import Refused

INVITED, JOINED, REMOVED = Member.Status.INVITED, Member.Status.JOINED, Member.Status.REMOVED


@require_POST
def invite(request: HttpRequest, pk: int) -> HttpResponse:
    organization = get_object_or_404(Organization.objects.select_for_update(), pk=pk)
    _refuse_without_seat(organization)
    user, role = known_user(request), forms.choice(request, "role", Member.Role)
    try:
        with transaction.atomic():
            member = organization.members.create(user=user, role=role)
    except IntegrityError:
        raise Refused(f"{user} is a member of {organization} already") from None
    return _tell(request, MemberInvited(email=user.email, role=role, organization=organization.name), member)


@require_POST
def join(request: HttpRequest, pk: int) -> HttpResponse:
    member = _member(pk, INVITED)
    member.status = JOINED
    member.save(update_fields=["status"])
    return _tell(request, MemberJoined(name=member.user.name, role=member.role), member)


@require_POST
def change_role(request: HttpRequest, pk: int) -> HttpResponse:
    member = _member(pk, INVITED, JOINED)
    before, member.role = member.role, forms.choice(request, "role", Member.Role)
    member.save(update_fields=["role"])
    changes = {"role": (before, member.role)}
    duebox.audit("member.role_changed", member, changes=changes, organization=member.organization_id)
    return _tell(request, MemberRoleChanged(email=member.user.email, before=before, role=member.role), member)


@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    member = _member(pk, INVITED, JOINED)
    member.status = REMOVED
    member.save(update_fields=["status"])
    reason = request.POST.get("reason", "")
    return _tell(request, MemberRemoved(email=member.user.email, role=member.role, reason=reason), member)


@require_POST
def change_phone(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User.objects.select_for_update(), pk=pk)
    before, user.phone = user.phone, forms.field(request, "phone")
    user.save(update_fields=["phone"])
    duebox.emit(UserPhoneChanged(before=before, after=user.phone), about=user, idempotency_key=forms.key(request))
    return forms.answer(request, {"user": user.pk})


@require_GET
def history(request: HttpRequest, pk: int) -> JsonResponse:
    """Who changed the number of a person, and how."""
    entries = AuditEntry.objects.about("user", pk).order_by("id")
    return JsonResponse({"history": list(entries.values("action", "actor", "changes"))})


def _refuse_without_seat(organization: Organization) -> None:
    subscription = Subscription.objects.filter(organization=organization, ends_on=None).first()
    taken = organization.members.exclude(status=REMOVED).count()
    if subscription is None or taken >= subscription.seats:
        raise Refused(f"{organization} has no free seat: {taken} of {subscription.seats if subscription else 0} taken")


def _member(pk: int, *statuses: str) -> Member:
    rows = Member.objects.select_for_update(of=["self"]).select_related("user", "organization")
    member = get_object_or_404(rows, pk=pk)
    if member.status not in statuses:
        raise Refused(f"{member} has {member.status} already")
    return member


def _tell(request: HttpRequest, fact: object, member: Member) -> HttpResponse:
    duebox.emit(fact, about=member, organization=member.organization_id, idempotency_key=forms.key(request))
    return forms.answer(request, {"member": member.pk, "user": member.user_id})
