"""What organizations pay for: activated, updated, canceled."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_POST

import duebox
from examples.clinic import forms
from examples.clinic.organizations.events import (
    SubscriptionActivated,
    SubscriptionCanceled,
    SubscriptionUpdated,
    SubscriptionUpdatedV1,
)
from examples.clinic.organizations.models import Organization, Subscription
from examples.clinic.refusals import Refused


class Offer(NamedTuple):
    seats: int
    price: Decimal


OFFERS = {
    "solo": Offer(1, Decimal("29.00")),
    "team": Offer(10, Decimal("119.00")),
    "clinic": Offer(40, Decimal("390.00")),
}
NOTICE = timedelta(days=30)


@require_POST
def activate(request: HttpRequest, pk: int) -> HttpResponse:
    organization = get_object_or_404(Organization, pk=pk)
    plan = forms.choice(request, "plan", Subscription.Plan)
    subscription, created = Subscription.objects.get_or_create(
        organization=organization, defaults={"plan": plan, **OFFERS[plan]._asdict()}
    )
    if not created:
        raise Refused(f"{organization} has a subscription already")
    fact = SubscriptionActivated(
        plan=plan, seats=subscription.seats, price=subscription.price, currency=subscription.currency
    )
    return _tell(request, fact, subscription)


@require_POST
def update(request: HttpRequest, pk: int) -> HttpResponse:
    subscription = _active(pk)
    offer = _put(subscription, forms.choice(request, "plan", Subscription.Plan))
    fact = SubscriptionUpdated(
        plan=subscription.plan, seats=offer.seats, price=offer.price, currency=subscription.currency
    )
    return _tell(request, fact, subscription)


@require_POST
def update_as_before(request: HttpRequest, pk: int) -> HttpResponse:
    """Called by the old billing program, which knows version 1 only. Handlers see version 2 all the same."""
    subscription = _active(pk)
    offer = _put(subscription, forms.choice(request, "plan", Subscription.Plan))
    fact = SubscriptionUpdatedV1(plan=subscription.plan, seats=offer.seats, cents=int(offer.price * 100))
    return _tell(request, fact, subscription)


@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    subscription = _active(pk)
    subscription.ends_on = timezone.localdate() + NOTICE
    subscription.save(update_fields=["ends_on"])
    return _tell(request, SubscriptionCanceled(plan=subscription.plan, ends_on=subscription.ends_on), subscription)


def _active(organization: int) -> Subscription:
    rows = Subscription.objects.select_for_update()
    subscription = get_object_or_404(rows, organization_id=organization)
    if subscription.ends_on:
        raise Refused(f"the subscription was canceled already and ends on {subscription.ends_on}")
    return subscription


def _put(subscription: Subscription, plan: str) -> Offer:
    offer = OFFERS[plan]
    subscription.plan, (subscription.seats, subscription.price) = plan, offer
    subscription.save(update_fields=["plan", "seats", "price"])
    return offer


def _tell(request: HttpRequest, fact: object, subscription: Subscription) -> HttpResponse:
    duebox.emit(fact, about=subscription, organization=subscription.organization_id, idempotency_key=forms.key(request))
    return forms.answer(request, {"subscription": subscription.pk})
