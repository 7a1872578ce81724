"""Who is at the keyboard. Nobody logs in to the clinic: visitors say in `by` who they are, and are believed.

The dashboard needs a user: a browser on this machine is signed in as `demo`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.contrib.auth import get_user_model, login
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden

LOOPBACK = {"127.0.0.1", "::1"}


class Visitor(NamedTuple):
    pk: str

    @property
    def is_authenticated(self) -> bool:
        return bool(self.pk)


class VisitorMiddleware:
    """With a user, events and the audit log know who acts."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/admin/"):
            if _is_local(request) and not request.user.is_authenticated:
                login(request, _demo_user())
        elif request.method == "POST" and request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return HttpResponseForbidden("The clinic takes forms from its own pages only.")
        else:
            request.user = Visitor(request.POST.get("by", ""))
        return self.get_response(request)


def _is_local(request: HttpRequest) -> bool:
    """False behind a proxy, which may stand for anybody."""
    return request.META["REMOTE_ADDR"] in LOOPBACK and "X-Forwarded-For" not in request.headers


def _demo_user():  # type: ignore[no-untyped-def]
    user, _ = get_user_model().objects.get_or_create(username="demo", defaults={"is_staff": True, "is_superuser": True})
    return user
