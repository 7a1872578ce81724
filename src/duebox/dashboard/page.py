"""What all pages have in common: who may see one, how long its statements may take, and what is sent with it.

A page is a Django view under `@page("permission")`. It works without JavaScript. With it, htmx asks for the page again
every two seconds and gets only its block `live`, or 204 where that has not changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect

from duebox.conf import conf
from duebox.context.current import origin
from duebox.context.origins import entered, of_request
from duebox.exceptions import DueboxError
from duebox.observe.browse import BadCursor
from duebox.store.run_sql import TooSlow, statement_timeout
from duebox.when import WhenError

View = Callable[..., HttpResponse]

PAGES = [
    ("overview", "Overview", "view_events"),
    ("events", "Events", "view_events"),
    ("explain", "Explain", "view_events"),
    ("dead_letters", "Dead letters", "view_events"),
    ("schedules", "Schedules", "view_events"),
    ("destinations", "Destinations", "view_events"),
    ("workers", "Workers", "view_events"),
    ("catalogue", "Catalogue", "view_events"),
    ("audit", "Audit", "view_audit"),
]
PAGE_SECONDS = 2.0
"""A statement of a page that takes longer is cancelled."""
ACTION_SECONDS = 20.0
REFRESH_SECONDS = 2


def page(permission: str, *, seconds: float | None = None, atomic: bool = True) -> Callable[[View], View]:
    """For staff with this permission. Others are sent to the login of the admin, or get 403. A page that is not
    `atomic` has no transaction and no limit for its statements: it waits for something else than the database."""

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            user: Any = request.user
            if not (user.is_active and user.is_staff):
                return _refresh() if is_fragment(request) else redirect_to_login(request.get_full_path(), _login_url())
            if not may(request, permission):
                return _refresh() if is_fragment(request) else forbidden(request, permission)
            limit = ACTION_SECONDS if request.method == "POST" else seconds or PAGE_SECONDS
            return _limited(view, request, limit if atomic else None, *args, **kwargs)

        protected: View = never_cache(csrf_protect(_with_headers(answer)))
        return protected if atomic else transaction.non_atomic_requests(protected)

    return decorate


def _limited(view: View, request: HttpRequest, seconds: float | None, *args: Any, **kwargs: Any) -> HttpResponse:
    if any("\0" in each for each in _texts(request, kwargs)):
        return show(request, "refused", {"error": "The character NUL is in no text that is stored."}, status=400)
    here = origin.get() or of_request(request)  # who does it, for the audit log and the history
    try:
        with entered(here), statement_timeout(conf().DATABASE, seconds) if seconds else nullcontext():
            return view(request, *args, **kwargs)
    except BadCursor as error:
        raise Http404(str(error)) from error
    except TooSlow:
        return show(request, "too_slow", {"seconds": seconds}, status=503)
    except (DueboxError, WhenError) as error:
        return show(request, "refused", {"error": str(error)}, status=400)


def _texts(request: HttpRequest, kwargs: Mapping[str, Any]) -> Iterator[str]:
    """All that is sent with a request: by its URL, its query and its form."""
    for given in (request.GET, request.POST):
        for _, values in given.lists():
            yield from map(str, values)
    yield from (each for each in kwargs.values() if isinstance(each, str))


def _with_headers(view: View) -> View:
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response.headers["Content-Security-Policy"] = content_security_policy()
        response.headers["Referrer-Policy"] = "same-origin"
        response.headers["X-Content-Type-Options"] = "nosniff"
        patch_vary_headers(response, ["HX-Request"])
        return response

    return answer


def content_security_policy() -> str:
    """Nothing inline, and nothing from elsewhere; only static files may come from the host of STATIC_URL."""
    place = urlsplit(static("duebox_dashboard/dashboard.css"))
    files = f"'self' {place.scheme}://{place.netloc}" if place.scheme and place.netloc else "'self'"
    return (
        f"default-src 'self'; script-src {files}; style-src {files}; img-src {files} data:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def may(request: HttpRequest, permission: str) -> bool:
    user: Any = request.user
    return bool(user.has_perm(f"duebox_dashboard.{permission}"))


def is_fragment(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"


def show(
    request: HttpRequest, name: str, context: Mapping[str, Any], *, live: bool = False, status: int = 200
) -> HttpResponse:
    """Render the template of a page: all of it, or for htmx only what is live."""
    fragment = is_fragment(request)
    found = {
        "section": name,
        **context,
        "base": f"duebox_dashboard/{'fragment' if fragment else 'base'}.html",
        "page": name,
        "pages": [(each, title) for each, title, permission in PAGES if may(request, permission)],
        "may": {each: may(request, each) for each in ("view_payloads", "redrive", "pause", "manage_destinations")},
        "live": live,
        "refresh": REFRESH_SECONDS,
        "admin_url": _admin_url(),
    }
    response = render(request, f"duebox_dashboard/{name}.html", found, status=status)
    if fragment and status == 200:
        tag = f'"{hashlib.sha256(response.content).hexdigest()[:20]}"'
        if request.headers.get("If-None-Match") == tag:
            return HttpResponse(status=204)
        response.headers["ETag"] = tag
    return response


def done(request: HttpRequest, text: str, to: str, *args: Any) -> HttpResponse:
    """After an action: say what was done, on the page where its effect is seen."""
    messages.success(request, text)
    return redirect(f"duebox_dashboard:{to}", *args)


def forbidden(request: HttpRequest, permission: str) -> HttpResponse:
    return show(request, "forbidden", {"permission": f"duebox_dashboard.{permission}"}, status=403)


def _refresh() -> HttpResponse:
    """For htmx: load the whole page again, which then redirects to the login."""
    return HttpResponse(status=200, headers={"HX-Refresh": "true"})


def _login_url() -> str:
    try:
        return reverse("admin:login")
    except NoReverseMatch:
        return resolve_url(settings.LOGIN_URL)


def _admin_url() -> str:
    try:
        return reverse("admin:index")
    except NoReverseMatch:
        return ""
