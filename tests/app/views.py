"""Views that change something and say so; `?fail` raises after both."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import HttpRequest, JsonResponse

import duebox
from tests.app.models import Account


def open_account(request: HttpRequest) -> JsonResponse:
    account = Account.objects.create(counter=1)
    fact = duebox.emit("account.opened", {"counter": 1}, about=account)
    if "fail" in request.GET:
        raise RuntimeError("after the emit")
    return JsonResponse({"id": str(fact.id)})


async def aopen_account(request: HttpRequest) -> JsonResponse:
    account = await Account.objects.acreate(counter=1)
    fact = await duebox.aemit("account.opened", {"counter": 1}, about=account)
    return JsonResponse({"id": str(fact.id)})


async def aopen_account_in_transaction(request: HttpRequest) -> JsonResponse:
    """Django has no async atomic() yet, so the transaction is opened and closed by hand around async calls."""
    block = transaction.atomic()
    await sync_to_async(block.__enter__)()
    failure: Exception | None = None
    try:
        response = await aopen_account(request)
        if "fail" in request.GET:
            raise RuntimeError("after the emit")
    except RuntimeError as error:
        failure = error
    await sync_to_async(block.__exit__)(type(failure) if failure else None, failure, None)
    if failure:
        raise failure
    return response
