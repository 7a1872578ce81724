from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management.base import CommandError

from duebox.contracts import types
from tests.contracts.catalogue import declare_all


@pytest.fixture
def catalogue(declare: Any) -> None:
    declare_all(declare)


@pytest.fixture
def docs(manage, tmp_path):
    """Runs `duebox docs events --out` and gives what it said, the folder left out of the paths."""

    def run(*words: str) -> str:
        return manage("duebox", "events", "docs", "--out", str(tmp_path / "events"), *words).replace(f"{tmp_path}/", "")

    return run


def test_pages_are_written_once(catalogue, docs, tmp_path):
    assert docs() == (
        "written: events/index.md\n"
        "written: events/member.invited.md\n"
        "written: events/order.paid.md\n"
        "written: events/public/index.md\n"
        "written: events/public/member.invited.md\n"
        "0 in step already.\n"
    )
    assert (tmp_path / "events" / "member.invited.md").read_text().startswith("# member.invited\n")
    assert docs() == "All 5 are in step.\n"


def test_public_writes_only_what_others_read(catalogue, docs, tmp_path):
    docs("--public")
    assert sorted(path.name for path in (tmp_path / "events").rglob("*")) == ["index.md", "member.invited.md"]
    assert (tmp_path / "events" / "member.invited.md").read_text().startswith("# public.member.invited\n")


def test_check_writes_nothing_and_fails_until_all_is_in_step(catalogue, docs, tmp_path):
    with pytest.raises(CommandError, match="out of step with the event types; run it again without --check"):
        docs("--check")
    assert not (tmp_path / "events").exists()
    docs()
    assert docs("--check") == "All 5 are in step.\n"
    page = tmp_path / "events" / "order.paid.md"
    page.write_text(page.read_text() + "by hand\n")
    with pytest.raises(CommandError):
        docs("--check")


def test_a_page_of_a_type_that_is_gone_is_told_and_removed(catalogue, docs, tmp_path):
    docs()
    types.forget("order.paid")
    with pytest.raises(CommandError):
        docs("--check")
    assert "removed: events/order.paid.md\n" in docs()
    assert not (tmp_path / "events" / "order.paid.md").exists()


def test_a_page_that_somebody_wrote_is_in_nobodys_way(catalogue, docs, tmp_path):
    docs()
    (tmp_path / "events" / "task.closed.md").write_text("# Mine")
    assert docs("--check") == "not ours: events/task.closed.md\n5 in step already.\n"
    (tmp_path / "events" / "order.paid.md").write_text("# Mine too")
    with pytest.raises(CommandError, match=r"order\.paid\.md was not written by `duebox events docs`"):
        docs()


def test_an_asyncapi_document_is_written_beside_or_alone(catalogue, manage, tmp_path, settings):
    settings.DUEBOX = {**settings.DUEBOX, "PRODUCER": "shop"}
    path = tmp_path / "api" / "asyncapi.json"
    manage("duebox", "events", "docs", "--asyncapi", str(path))
    document = json.loads(path.read_text())
    assert (document["asyncapi"], document["info"]["title"]) == ("3.0.0", "Events of shop")
    assert manage("duebox", "events", "docs", "--asyncapi", str(path), "--check") == "All 1 are in step.\n"
    path.write_text("{}")
    with pytest.raises(CommandError, match="out of step"):
        manage("duebox", "events", "docs", "--asyncapi", str(path), "--check")
    assert path.read_text() == "{}"


def test_a_public_asyncapi_document_holds_public_events_only(catalogue, manage, tmp_path):
    path = tmp_path / "asyncapi.json"
    manage("duebox", "events", "docs", "--public", "--asyncapi", str(path))
    assert list(json.loads(path.read_text())["channels"]) == ["public.member.invited"]
    assert "email" not in path.read_text()


def test_json(catalogue, docs):
    told = json.loads(docs("--json"))
    assert told["missing"][:2] == ["events/index.md", "events/member.invited.md"]
    assert json.loads(docs("--json", "--check")) == {
        "missing": [],
        "changed": [],
        "stale": [],
        "foreign": [],
        "unchanged": 5,
    }


def test_it_wants_to_know_where(catalogue, manage):
    with pytest.raises(CommandError, match="Say where: --out FOLDER for pages"):
        manage("duebox", "events", "docs")


def test_without_types_there_is_nothing_to_write_about(docs, declare):
    with pytest.raises(CommandError, match="No event types are declared"):
        docs()
    declare("task.closed")(type("TaskClosed", (), {"__annotations__": {"reason": str}}))
    with pytest.raises(CommandError, match="No event type is public"):
        docs("--public")
