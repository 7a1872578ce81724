"""A mail to the administrators when deliveries die: one an hour for each cause, so that a storm does not flood, and for
each subscriber, so that one endpoint's trouble does not hide another's."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings as django_settings
from django.core.mail import EmailMessage, mail_admins

from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.context import handling
from duebox.fact import Fact
from duebox.notices.deaths import EVENT
from duebox.outcome import Discard
from duebox.store import operations
from duebox.store.dead_mail import may_mail
from duebox.subscribers import OUTSIDE, Subscriber, add

NAME = "duebox.dead_letter_mail"
EVERY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Postman(Subscriber):
    """Known always, so that what was stored for it before it was switched off is not left lying about."""

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
    told = event.data
    return (
        f"{told['event_type']} to {told['subscriber']} was given up after {told['attempts']} "
        f"attempt{'s' if told['attempts'] != 1 else ''}:\n\n"
        f"    {printable(told['error'])}\n\n"
        f"Dead letters of this cause to {told['subscriber']} now: {alike}. "
        f"The next mail about them comes in an hour at the earliest.\n\n"
        f"Look at it:      manage.py duebox deliveries show {told['delivery_id']}\n"
        f"Others like it:  manage.py duebox deliveries groups {_option(told['subscriber'])}\n"
        f"Retry them:      manage.py duebox deliveries retry --group {told['group']}\n\n"
        f"event {told['event_id']}, fingerprint {told['fingerprint']}\n"
    )


def _option(subscriber: str) -> str:
    outside = subscriber.removeprefix(OUTSIDE)
    return f"--handler {subscriber}" if outside == subscriber else f"--destination {outside}"


# Alone: a neighbour that fails would have it sent twice.
add(Postman(name=NAME, pattern=EVENT, handler=send, alone=True))
