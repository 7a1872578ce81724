"""The other side, for Django: a view that gets each webhook once, and only those that are signed.

    @receive(secrets=[settings.ACME_SECRET], source="acme")
    def acme(request, event):
        Order.objects.filter(number=event["data"]["number"]).update(paid=True)

What the view writes and the note that the webhook was received commit together. A view that fails, or answers with
anything but 2xx, leaves no note: the sender tries again, and the next try runs the view. A redirect is such an answer:
to the sender it is a failure. A repeat is answered with 200 and runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.http.request import UnreadablePostError

from duebox.conf import conf
from duebox.destinations.webhooks.keys import verifying_keys
from duebox.destinations.webhooks.verifying import TOLERANCE, Received, verify
from duebox.exceptions import InvalidSignature
from duebox.store import webhooks as store

LARGEST = 1024 * 1024

View = Callable[..., Any]
Secrets = Sequence[str] | Callable[[HttpRequest], Sequence[str]]
Source = str | Callable[[HttpRequest], str]


def receive(
    *,
    secrets: Secrets,
    source: Source,
    tolerance: int = TOLERANCE,
    largest: int = LARGEST,
    using: str | None = None,
) -> Callable[[View], View]:
    """For a view, sync or async, that takes the request and the body as JSON. `secrets` and `source` may be functions
    of the request, where several senders come by one URL; an id is looked for among those of its source."""
    if not callable(secrets):
        verifying_keys(secrets)  # a mistake in them is told where the view is made, not to the first sender
    desk = _Desk(secrets, source, tolerance, largest, using)

    def decorate(view: View) -> View:
        called = async_to_sync(view) if iscoroutinefunction(view) else view

        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return desk.answer(request, lambda event: called(request, event, *args, **kwargs))

        @wraps(view)
        async def answer_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            # In the thread that has the connection; what the view awaits of the database runs there too.
            return await sync_to_async(answer)(request, *args, **kwargs)

        chosen: Any = answer_async if iscoroutinefunction(view) else answer
        chosen.csrf_exempt = True  # a signature instead of a cookie
        return chosen  # type: ignore[no-any-return]

    return decorate


class _Desk:
    """Where webhooks of some kind are received."""

    def __init__(self, secrets: Secrets, source: Source, tolerance: int, largest: int, using: str | None) -> None:
        self.secrets, self.source, self.tolerance, self.largest = secrets, source, tolerance, largest
        self.using = using

    def answer(self, request: HttpRequest, view: Callable[[Any], Any]) -> HttpResponseBase:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        body = _body(request, self.largest)
        if body is None:
            return _plain(413, f"A webhook has at most {self.largest:,} bytes.")
        try:
            received = self._verified(request, body)
        except InvalidSignature as error:
            return _plain(401, str(error))
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            return _plain(400, "The body is not JSON.")
        return self._once(request, received, lambda: view(event))

    def _verified(self, request: HttpRequest, body: bytes) -> Received:
        secrets = self.secrets(request) if callable(self.secrets) else self.secrets
        if not secrets and callable(self.secrets):
            raise InvalidSignature("nobody known sends here")
        return verify(request.headers, body, secrets, tolerance=self.tolerance)

    def _once(self, request: HttpRequest, received: Received, view: Callable[[], Any]) -> HttpResponseBase:
        using = self.using or conf().DATABASE
        source = self.source(request) if callable(self.source) else self.source
        with transaction.atomic(using=using):
            if not store.receive(using, source, received.id):
                return _plain(200, "Received before.")
            response: HttpResponseBase = view() or HttpResponse(status=204)
            if not 200 <= response.status_code < 300:
                transaction.set_rollback(True, using=using)
        return response


def _body(request: HttpRequest, largest: int) -> bytes | None:
    """The bytes as they came; None if there are too many, of which no more than one too many is read into memory. Under
    ASGI all of them have come by now, and Django has put them into a file."""
    try:
        if int(request.META.get("CONTENT_LENGTH") or 0) > largest:
            return None
        if not hasattr(request, "_body"):
            # Not request.body, which reads whatever comes where no length was said.
            request._body = request.read(largest + 1)
    except (UnreadablePostError, ValueError):
        return b""  # which nobody has signed
    return request.body if len(request.body) <= largest else None


def _plain(status: int, text: str) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain")
