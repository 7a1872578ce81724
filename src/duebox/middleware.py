"""Every request gets a correlation id: its own if it brought a good one, otherwise a fresh one.

Put it first, so that the answers of the others pass it too:

    MIDDLEWARE = ["duebox.middleware.CorrelationMiddleware", ...]
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from duebox.context.current import Origin
from duebox.context.origins import CORRELATION_ID, entered, of_request

__all__ = ["CorrelationMiddleware"]

_ALLOW_ORIGIN = "Access-Control-Allow-Origin"
_EXPOSE = "Access-Control-Expose-Headers"
_END = object()


class CorrelationMiddleware:
    """Binds the origin of the request while it is answered, and returns the correlation id with the answer."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(cast(Any, self))

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._answer(request)
        here = of_request(request)
        with entered(here):
            response = self.get_response(request)
        return _marked(response, here)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        here = of_request(request)
        with entered(here):
            response = await self.get_response(request)
        return _marked(response, here)


def _marked(response: HttpResponseBase, here: Origin) -> HttpResponseBase:
    response.headers[CORRELATION_ID] = here.correlation_id
    if _ALLOW_ORIGIN in response.headers or _EXPOSE in response.headers:
        # A script of another origin sees only the headers that are named here; those that others named stay.
        named = [name.strip() for name in response.headers.get(_EXPOSE, "").split(",") if name.strip()]
        if CORRELATION_ID.lower() not in (name.lower() for name in named):
            response.headers[_EXPOSE] = ", ".join([*named, CORRELATION_ID])
    if isinstance(response, StreamingHttpResponse) and not isinstance(response, FileResponse):
        carried = _carried_async if response.is_async else _carried
        response.streaming_content = cast(Any, carried)(response.streaming_content, here)
    return response


def _carried(parts: Iterator[bytes], here: Origin) -> Iterator[bytes]:
    """A stream is made after the middleware has returned; each part of it still belongs to the request."""
    while True:
        with entered(here):
            part = next(parts, _END)
        if part is _END:
            return
        yield cast(bytes, part)


async def _carried_async(parts: AsyncIterator[bytes], here: Origin) -> AsyncIterator[bytes]:
    while True:
        with entered(here):
            part = await anext(parts, _END)
        if part is _END:
            return
        yield cast(bytes, part)
