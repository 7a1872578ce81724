"""Organizations sign up, and say where invoices go."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET, require_POST

import duebox
from examples.clinic import forms
from examples.clinic.organizations.events import OrganizationBillingUpdated, OrganizationCreated
from examples.clinic.organizations.models import Member, Organization, User
from examples.clinic.refusals import Refused


@require_POST
def sign_up(request: HttpRequest) -> HttpResponse:
    """The organization and its first member, who owns it."""
    founder = known_user(request)
    organization, created = Organization.objects.get_or_create(
        name=forms.field(request, "organization"),
        defaults={"zone": forms.zone(request), "billing_email": founder.email},
    )
    if not created:
        raise Refused(f"{organization} has signed up already")
    owner = organization.members.create(user=founder, role=Member.Role.OWNER, status=Member.Status.JOINED)
    fact = OrganizationCreated(name=organization.name, zone=organization.zone, founder=founder.email)
    duebox.emit(fact, about=organization, organization=organization, idempotency_key=forms.key(request))
    return forms.answer(request, {"organization": organization.pk, "user": founder.pk, "member": owner.pk})


@require_POST
def update_billing(request: HttpRequest, pk: int) -> HttpResponse:
    organization = get_object_or_404(Organization.objects.select_for_update(), pk=pk)
    organization.billing_email = forms.field(request, "email")
    organization.billing_address = forms.field(request, "address")
    organization.tax_number = request.POST.get("tax_number", "")
    organization.save(update_fields=["billing_email", "billing_address", "tax_number"])
    fact = OrganizationBillingUpdated(
        email=organization.billing_email, address=organization.billing_address, tax_number=organization.tax_number
    )
    duebox.emit(fact, about=organization, organization=organization, idempotency_key=forms.key(request))
    return forms.answer(request, {"organization": organization.pk})


@require_GET
def show(request: HttpRequest, pk: int) -> JsonResponse:
    found = get_object_or_404(Organization, pk=pk)
    feed = list(found.feed.order_by("id").values_list("text", flat=True))
    return JsonResponse({"name": found.name, "members": _roles(found), "feed": feed})


def known_user(request: HttpRequest) -> User:
    """By email; whoever is not known yet is from now on."""
    fields = {name: forms.field(request, name) for name in ("name", "phone")}
    return User.objects.get_or_create(email=forms.field(request, "email"), defaults=fields)[0]


def _roles(organization: Organization) -> dict[int, str]:
    return dict(organization.members.exclude(status=Member.Status.REMOVED).values_list("pk", "role"))
