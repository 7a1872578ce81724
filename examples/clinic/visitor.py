"""Who is at the keyboard. Nobody logs in here: visitors say in `by` who they are, and are believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse


class Visitor(NamedTuple):
    pk: str

    @property
    def is_authenticated(self) -> bool:
        return bool(self.pk)


class VisitorMiddleware:
    """Stands where Django's authentication would: with it events and the audit log know who acts."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.user = Visitor(request.POST.get("by", ""))
        return self.get_response(request)
