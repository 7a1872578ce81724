"""A mail to the administrators about dead letters: at most one per hour for each cause and each subscriber, so that
many failures send few mails, and one failing endpoint does not hide another."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings as django_settings
from django.core.mail import EmailMessage, mail_admins

from duebox.conf import conf
from duebox.context.current import handling
from duebox.dead_letters.notify import EVENT
from duebox.events.address import Address
from duebox.events.fact import Fact
from duebox.events.identities import printable
from duebox.events.outcomes import Discard
from duebox.events.subscribers import Subscriber, add
from duebox.store import operations
from duebox.store.operations import may_mail

NAME = "duebox.dead_letter_mail"
EVERY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterMailer(Subscriber):
    """Always registered, so that deliveries from before it was switched off are still processed."""

    def receives(self, event_type: str) -> bool:
        return event_type == EVENT and bool(conf().DEAD_LETTER_MAIL)


def send(event: Fact) -> Discard | None:
    here, wanted = handling.get(), conf().DEAD_LETTER_MAIL
    assert here is not None, "sent by a worker"
    if not wanted:
        return Discard("DEAD_LETTER_MAIL is off")
    cause, subscriber = event.data["fingerprint"], event.data["subscriber"]
    if not may_mail(here.using, cause, subscriber, seconds=EVERY_SECONDS):
        return Discard("a mail about this cause was sent within the last hour")
    subject = f"Dead letter: {event.data['event_type']} to {subscriber}"
    body = _body(event, operations.count(here.using, states=["dead"], fingerprint=cause, subscriber=subscriber))
    if isinstance(wanted, list):
        title = f"{django_settings.EMAIL_SUBJECT_PREFIX}{subject}"
        EmailMessage(title, body, django_settings.SERVER_EMAIL, wanted).send()
    else:
        mail_admins(subject, body)
    return None


def _body(event: Fact, alike: int) -> str:
    data = event.data
    return (
        f"{data['event_type']} to {data['subscriber']} is dead after {data['attempts']} "
        f"attempt{'s' if data['attempts'] != 1 else ''}:\n\n"
        f"    {printable(data['error'])}\n\n"
        f"Dead letters of this cause to {data['subscriber']} now: {alike}. "
        f"The next mail about them comes in an hour at the earliest.\n\n"
        f"Look at it:      manage.py duebox deliveries show {data['delivery_id']}\n"
        f"Others like it:  manage.py duebox deliveries groups {_option(data['subscriber'])}\n"
        f"Retry them:      manage.py duebox deliveries retry --group {data['group']}\n\n"
        f"event {data['event_id']}, fingerprint {data['fingerprint']}\n"
    )


def _option(subscriber: str) -> str:
    address = Address.parse(subscriber)
    return f"--destination {address.plain}" if address.kind == "destination" else f"--handler {subscriber}"


def register() -> None:
    # alone=True: if another handler in the same transaction failed, the mail would be sent twice.
    add(DeadLetterMailer(name=NAME, pattern=EVENT, handler=send, alone=True))
