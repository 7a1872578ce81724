from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from duebox.dashboard.snapshot import forget_all
from tests.dashboard.browser import Browser, start

READ_ONLY = ("view_events",)
FULL = ("view_events", "view_payloads", "redrive", "pause", "manage_destinations", "view_audit")


@pytest.fixture(autouse=True)
def _fresh_snapshots() -> None:
    forget_all()


@pytest.fixture(autouse=True)
def _permissions(request: pytest.FixtureRequest) -> None:
    """Tests that truncate the tables remove them; Django makes them with `migrate`."""
    if "transactional_db" in request.fixturenames or "live_server" in request.fixturenames:
        request.getfixturevalue("transactional_db")
        make_permissions()


def make_permissions() -> None:
    from django.apps import apps
    from django.contrib.auth.management import create_permissions

    create_permissions(apps.get_app_config("duebox_dashboard"), verbosity=0)


def make_user(*permissions: str, name: str = "olga", staff: bool = True) -> User:
    user = User.objects.create(username=name, is_staff=staff)  # without a password, which takes long to hash
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="duebox_dashboard", codename__in=permissions)
    )
    return user


@pytest.fixture
def client_with(db: None) -> Callable[..., Client]:
    """A client of a staff user with these permissions of the dashboard."""

    def make(*permissions: str, staff: bool = True) -> Client:
        client = Client()
        client.force_login(make_user(*permissions, name=f"user{User.objects.count()}", staff=staff))
        return client

    return make


@pytest.fixture
def reader(client_with: Callable[..., Client]) -> Client:
    return client_with(*READ_ONLY)


@pytest.fixture
def operator(client_with: Callable[..., Client]) -> Client:
    return client_with(*FULL)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests."""
    found, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (found and driver):
        pytest.skip("no chromium and chromedriver on the PATH; install: apt-get install chromium chromium-driver")
    with start(found, driver) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Any, live_server: Any) -> Iterator[Browser]:
    """The browser of a person who may do everything."""
    one = Browser(chromium, live_server.url)
    one.sign_in(make_user(*FULL))
    yield one
    one.leave()
