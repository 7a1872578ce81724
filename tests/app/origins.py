"""Views that tell where they think they were called from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse

from duebox.context import origin

logger = logging.getLogger("tests.origins")


def told() -> dict[str, Any]:
    here = origin.get()
    if here is None:
        return {}
    return {
        "correlation_id": here.correlation_id,
        "ip": here.ip,
        "user_agent": here.user_agent,
        "traceparent": here.traceparent,
        "who": here.who(),
    }


def tell(request: HttpRequest) -> JsonResponse:
    logger.info("told by %s", request.GET.get("name"))
    return JsonResponse(told())


async def atell(request: HttpRequest) -> JsonResponse:
    """Asks again after others had their turn."""
    before = told()
    for _ in range(3):
        await asyncio.sleep(0.001)
    logger.info("told by %s", request.GET.get("name"))
    assert told() == before
    return JsonResponse(before)


def fail(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("on purpose")


def stream(request: HttpRequest) -> StreamingHttpResponse:
    def parts() -> Iterator[str]:
        for _ in range(2):
            yield f"{told().get('correlation_id')} "

    return StreamingHttpResponse(parts())


async def astream(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[str]:
        for _ in range(2):
            await asyncio.sleep(0)
            yield f"{told().get('correlation_id')} "

    return StreamingHttpResponse(parts())
