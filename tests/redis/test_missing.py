"""REDIS_URL is set, and the package that talks to Redis is not installed."""

from __future__ import annotations

import sys
import threading

import pytest
from django.core.checks import run_checks

from duebox.redis.connection import client
from duebox.redis.wakeup import tier_of

pytestmark = pytest.mark.django_db  # for other checks

SENTENCE = "The Python package 'redis' is not installed; run: pip install 'duebox[redis]'."


@pytest.fixture
def missing(settings, monkeypatch):
    settings.DUEBOX = {"UNDECLARED": "allow", "REDIS_URL": "redis://:hunter2@localhost:6379/0"}
    for name in ("redis", "redis.retry", "redis.backoff"):
        monkeypatch.setitem(sys.modules, name, None)
    client.cache_clear()


def found():
    return [each for each in run_checks(tags=["duebox"], databases=[]) if each.id == "duebox.E016"]


def test_the_check_says_what_to_install(missing):
    [error] = found()
    assert error.msg == f"DUEBOX['REDIS_URL'] is set, but Redis cannot be used. {SENTENCE}"
    assert "REDIS_URL" in error.hint
    assert "hunter2" not in str(error)


def test_a_worker_says_it_once_and_polls(missing, caplog):
    assert tier_of(lambda: None, "default") is None
    assert caplog.text.count(SENTENCE) == 1
    assert "Traceback" not in caplog.text
    assert not [each for each in threading.enumerate() if each.name in ("duebox-redis-listener", "duebox-mirror")]


def test_without_a_redis_nobody_misses_the_package(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    settings.DUEBOX = {"UNDECLARED": "allow"}
    assert found() == []
    assert tier_of(lambda: None, "default") is None


def test_where_it_is_installed_nothing_is_said(settings):
    settings.DUEBOX = {"UNDECLARED": "allow", "REDIS_URL": "redis://localhost:6379/0"}
    assert found() == []
