"""The world outside the database, played by a folder: mail and text messages become files in `OUTBOX`.

A message carries an id made of the event and the kind. Sending the same one again replaces it, so that a handler
that runs twice, which no outbox can rule out, still sends one message.
"""

from __future__ import annotations

import json
from pathlib import Path

from django.conf import settings

from duebox import Fact


class GatewayBusy(Exception):
    """The SMS gateway has no room; ask again in a moment."""


class GatewayDown(Exception):
    """The SMS gateway does not answer, because somebody has switched it off."""


def mail(event: Fact, *, to: str, text: str) -> None:
    _post(f"mail-{event.id}.txt", f"To: {to}\n\n{text}\n")


def sms(event: Fact, *, to: str, text: str) -> None:
    must_be_up()
    if to.endswith("7") and not _knocked_before(event):
        raise GatewayBusy(f"no free line to {to}")
    _post(f"sms-{event.id}.txt", f"To: {to}\n\n{text}\n")


def must_be_up() -> None:
    if not gateway_is_up():
        raise GatewayDown("the SMS gateway does not answer")


def gateway_is_up() -> bool:
    return not _switch().exists()


def switch_gateway(*, up: bool) -> None:
    """For all processes at once: a file says that it is down."""
    settings.OUTBOX.mkdir(parents=True, exist_ok=True)
    if up:
        _switch().unlink(missing_ok=True)
    else:
        _switch().touch()


def _switch() -> Path:
    return Path(settings.OUTBOX) / "gateway.down"


def publish(event: Fact) -> None:
    """To whoever listens from outside."""
    _post(f"partners-{event.id}.json", f"{json.dumps({'type': event.type, 'data': event.data})}\n")


def _post(name: str, text: str) -> None:
    settings.OUTBOX.mkdir(parents=True, exist_ok=True)
    (settings.OUTBOX / name).write_text(text)


def _knocked_before(event: Fact) -> bool:
    """This gateway is busy the first time it hears of a message, for numbers that end in 7."""
    knock = settings.OUTBOX / f"busy-{event.id}"
    if knock.exists():
        return True
    settings.OUTBOX.mkdir(parents=True, exist_ok=True)
    knock.touch()
    return False
