from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect


class Refused(Exception):
    """Raise it in a view: the transaction rolls back, its events with it, and the visitor is told why."""

    def __init__(self, reason: str, *, status: int = 409) -> None:
        self.status = status
        super().__init__(reason)


class RefusalMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, Refused):
            if request.accepts("text/html"):
                messages.error(request, f"Refused: {exception}.")
                return redirect(f"/?{urlencode({'appointment': request.POST.get('appointment', '')})}")
            return JsonResponse({"refused": str(exception)}, status=exception.status)
        return None
