"""The settings that the page about deployment prints, in the environment that the descriptions give."""

from __future__ import annotations

import re

import pytest

from duebox.destinations.registry import mistakes, subscriptions
from tests.deploy.commands import DEPLOY
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "deploy.md"
SHARED = {
    "DATABASE_HOST": "db.internal",
    "DATABASE_PORT": "5432",
    "DATABASE_NAME": "shop",
    "DUEBOX_BUS": "duebox",
    "DUEBOX_ORDERED_QUEUE": "https://sqs.eu-west-1.amazonaws.com/123456789012/ordered.fifo",
}
WORKER = {**SHARED, "AWS_DEFAULT_REGION": "eu-west-1", "DATABASE_USER": "duebox", "DATABASE_PASSWORD": "given"}


@pytest.fixture
def printed(monkeypatch):
    """The module of the page, as it comes out in an environment."""

    def run(environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        [block] = [block for block in blocks(PAGE) if block.language == "python"]
        module = {}
        exec(compile(block.text, str(PAGE), "exec", dont_inherit=True), module)
        return module

    return run


def test_they_name_destinations_that_there_are_and_route_to_them(printed, settings):
    settings.DUEBOX = printed(WORKER)["DUEBOX"]
    assert list(mistakes()) == []
    assert {alias: each.destination().alias for alias, each in subscriptions().items()} == {
        "bus": "bus",
        "ordered": "ordered",
    }


def test_a_worker_is_given_its_password_and_listens(printed):
    module = printed(WORKER)
    entry = module["DATABASES"]["default"]
    assert (entry["USER"], entry["PASSWORD"], entry["HOST"]) == ("duebox", "given", "db.internal")
    assert entry["OPTIONS"]["sslmode"] == "require"
    assert module["DUEBOX"]["LISTEN"] is True


def test_behind_the_proxy_nobody_listens(printed):
    assert printed({**WORKER, "DUEBOX_LISTEN": "0"})["DUEBOX"]["LISTEN"] is False


def test_the_app_gives_every_variable_that_they_read():
    [block] = [block for block in blocks(PAGE) if block.language == "python"]
    read = set(re.findall(r'"((?:DATABASE|DUEBOX)_[A-Z_]+)"', block.text))
    given = "".join(path.read_text() for path in (DEPLOY / "cdk" / "duebox_cdk").glob("*.py"))
    assert len(read) >= 8
    assert [name for name in sorted(read) if f'"{name}"' not in given] == []
