"""Who reacts to what organizations do: mail and text messages, the feed of an organization, and what partners see."""

from __future__ import annotations

import duebox
from duebox.contracts import read
from examples.clinic import outside
from examples.clinic.handlers.notifications import SOON
from examples.clinic.organizations import events
from examples.clinic.organizations.models import FeedEntry, Organization


@duebox.on("organization.created", name="mail.founder", atomic=False)
def greet_founder(event: duebox.Fact) -> None:
    """Greets whoever signed up."""
    outside.mail(event, to=event.data["founder"], text=f"Welcome, {event.data['name']}. Choose a plan to begin.")


@duebox.on(events.MemberInvited, name="mail.member", atomic=False)
def invite(event: duebox.Fact, invited: events.MemberInvited) -> None:
    """Sends the invitation."""
    outside.mail(event, to=invited.email, text=f"{invited.organization} would like to have you as {invited.role}.")


@duebox.on("member.role_changed", name="mail.role", atomic=False)
def tell_role(event: duebox.Fact) -> None:
    """Tells the member."""
    outside.mail(event, to=event.data["email"], text=f"You are {event.data['role']} now.")


@duebox.on("member.removed", name="mail.farewell", atomic=False)
def say_goodbye(event: duebox.Fact) -> None:
    """Tells the former member."""
    outside.mail(event, to=event.data["email"], text="You are no longer a member.")


@duebox.on("user.phone_changed", name="sms.old_number", atomic=False, retry=SOON)
def warn_old_number(event: duebox.Fact) -> None:
    """Tells the old number, in case it was somebody else."""
    outside.sms(event, to=event.data["before"], text="This is no longer your number with us. Was that you?")


@duebox.on("organization.billing_updated", name="mail.billing", atomic=False)
def confirm_billing(event: duebox.Fact) -> None:
    """Writes to the new place."""
    outside.mail(event, to=event.data["email"], text=f"Invoices go here from now on: {event.data['address']}")


@duebox.on("subscription.activated", name="mail.plan", atomic=False)
@duebox.on("subscription.updated", name="mail.new_plan", atomic=False)
def confirm_plan(event: duebox.Fact) -> None:
    """Writes down plan and price. An update of version 1 had no currency; here it is of version 2 already."""
    told = read(event)
    organization = Organization.objects.get(pk=event.organization)
    text = f"{told.plan}: {told.seats} seats for {told.price} {told.currency} a month"
    outside.mail(event, to=organization.billing_email, text=text)


@duebox.on("organization.*", name="feed")
@duebox.on("member.*", name="feed.members", ordered=True)
@duebox.on("subscription.*", name="feed.plan", ordered=True)
def write_feed(event: duebox.Fact) -> None:
    """Adds a line that the members read, in which nobody is named."""
    FeedEntry.objects.create(organization_id=event.organization, event_id=event.id, text=_sentence(read(event)))


def _sentence(told: object) -> str:
    match told:
        case events.OrganizationCreated():
            return f"{told.name} signed up"
        case events.OrganizationBillingUpdated():
            return "invoices go to another place"
        case events.MemberInvited():
            return f"a new {told.role} is invited"
        case events.MemberJoined():
            return f"a new {told.role} has joined"
        case events.MemberRoleChanged():
            return f"a member is {told.role} now, no longer {told.before}"
        case events.MemberRemoved():
            return f"the {told.role} has left"
        case events.SubscriptionActivated() | events.SubscriptionUpdated():
            return f"plan {told.plan}: {told.seats} seats, {told.price} {told.currency} a month"
        case events.SubscriptionCanceled():
            return f"plan {told.plan} ends on {told.ends_on}"
    raise ValueError(f"No sentence for {told!r}; add one.")


@duebox.on("public.organization.*", name="partners", atomic=False)
@duebox.on("public.member.*", name="partners.members", atomic=False)
@duebox.on("public.subscription.*", name="partners.plan", atomic=False)
def tell_partners(event: duebox.Fact) -> None:
    """Passes on what is allowed to leave: a public event holds no more than that."""
    outside.publish(event)
