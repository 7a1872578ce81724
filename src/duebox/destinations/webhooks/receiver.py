"""A decorator for Django views that receive webhooks: each one once, and only with a valid signature.

    @receive(secrets=[settings.ACME_SECRET], source="acme")
    def acme(request, event):
        Order.objects.filter(number=event["data"]["number"]).update(paid=True)

The writes of the view and the record that the webhook was received commit together. If the view fails, or responds with
anything but 2xx, there is no record: the sender tries again, and the next attempt runs the view. A redirect counts as a
failure too. A repeated webhook gets a 200 response without running the view.
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
from duebox.destinations.webhooks.signatures import TOLERANCE, Received, verify, verifying_keys
from duebox.exceptions import InvalidSignature
from duebox.store import destinations as store

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
    """Decorate a view, sync or async, that takes the request and the parsed body. `secrets` and `source` may be
    functions of the request if several senders use one URL; ids are unique for each source."""
    if not callable(secrets):
        verifying_keys(secrets)  # an invalid secret raises an error here, and not for the first request
    desk = _Receiver(secrets, source, tolerance, largest, using)

    def decorate(view: View) -> View:
        called = async_to_sync(view) if iscoroutinefunction(view) else view

        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return desk.answer(request, lambda event: called(request, event, *args, **kwargs))

        @wraps(view)
        async def answer_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            # In the thread with the database connection; async database calls of the view run there too.
            return await sync_to_async(answer)(request, *args, **kwargs)

        chosen: Any = answer_async if iscoroutinefunction(view) else answer
        chosen.csrf_exempt = True  # a signature instead of a cookie
        return chosen  # type: ignore[no-any-return]

    return decorate


class _Receiver:
    """The receiver of one view."""

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
            raise InvalidSignature("there is no secret for this request")
        return verify(request.headers, body, secrets, tolerance=self.tolerance)

    def _once(self, request: HttpRequest, received: Received, view: Callable[[], Any]) -> HttpResponseBase:
        using = self.using or conf().DATABASE
        source = self.source(request) if callable(self.source) else self.source
        with transaction.atomic(using=using):
            if not store.record_webhook(using, source, received.id):
                return _plain(200, "Received before.")
            response: HttpResponseBase = view() or HttpResponse(status=204)
            if not 200 <= response.status_code < 300:
                transaction.set_rollback(True, using=using)
        return response


def _body(request: HttpRequest, largest: int) -> bytes | None:
    """The unchanged bytes of the body; None if there are too many. At most one byte over the limit is read into memory.
    Under ASGI, Django has already received all of them into a file."""
    try:
        if int(request.META.get("CONTENT_LENGTH") or 0) > largest:
            return None
        if not hasattr(request, "_body"):
            # Not request.body, which reads everything if there is no Content-Length.
            request._body = request.read(largest + 1)
    except (UnreadablePostError, ValueError):
        return b""  # an empty body never has a valid signature
    return request.body if len(request.body) <= largest else None


def _plain(status: int, text: str) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain")
