from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management.base import CommandError

from duebox.contracts import event_types
from tests.contracts.catalogue import declare_all


@pytest.fixture(autouse=True)
def folder(tmp_path, settings):
    settings.BASE_DIR = tmp_path
    return tmp_path / "schemas" / "events"


@pytest.fixture
def catalogue(declare: Any) -> None:
    declare_all(declare)


def changed(folder, name: str, **words: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **words}))


def test_write_makes_a_file_for_each_version_and_says_so(manage, catalogue, folder):
    said = manage("duebox", "schemas", "write")
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "envelope.v1.json",
        "member.invited.v1.json",
        "member.invited.v2.json",
        "order.paid.v1.json",
        "public.member.invited.v1.json",
        "public.member.invited.v2.json",
        "public_envelope.v1.json",
    ]
    assert [line.partition(": ")[0] for line in said.splitlines()] == ["new"] * 7
    assert manage("duebox", "schemas", "write") == "All 5 schemas are up to date.\n"


def test_write_says_what_changed_in_a_file_and_what_to_run_next(manage, catalogue, folder):
    manage("duebox", "schemas", "write")
    changed(folder, "order.paid.v1.json", properties={"number": {"type": "string"}})
    said = manage("duebox", "schemas", "write").splitlines()
    assert said[0].startswith("changed: ")
    assert said[1:3] == ["  `number` was removed", "  `lines` is new, and required: list of objects"]
    assert said[3].endswith("manage.py duebox schemas check --against main")
    assert "lines" in (folder / "order.paid.v1.json").read_text()


def test_write_tells_apart_what_is_no_field(manage, catalogue, folder):
    manage("duebox", "schemas", "write")
    changed(folder, "order.paid.v1.json", description="Something else")
    assert "  no field, but the description of the type\n" in manage("duebox", "schemas", "write")


def test_a_dry_run_writes_nothing(manage, catalogue, folder):
    assert manage("duebox", "schemas", "write", "--dry-run").endswith("\nDry run: nothing was changed.\n")
    assert not folder.exists()


def test_write_as_json(manage, catalogue, folder):
    told = json.loads(manage("duebox", "schemas", "write", "--json"))
    assert told["dry_run"] is False
    assert told["written"][0] == {"path": str(folder / "member.invited.v1.json"), "new": True, "changes": []}


def test_files_of_versions_that_the_code_has_no_more_stay(manage, catalogue, folder):
    manage("duebox", "schemas", "write")
    event_types.forget("member.invited")
    manage("duebox", "schemas", "write")
    assert (folder / "member.invited.v1.json").exists()


def test_without_types_write_says_how_to_declare_one(manage, folder):
    assert "put @duebox.event above a class" in manage("duebox", "schemas", "write")
    assert not folder.exists()


def test_code_prints_the_class_of_the_newest_file(manage, catalogue):
    manage("duebox", "schemas", "write")
    said = manage("duebox", "schemas", "code", "member.invited")
    assert "\nclass MemberInvited:\n" in said
    assert "    expires_at: datetime | None = None\n" in said
    compile(said, "printed", "exec")


def test_code_prints_the_class_of_an_older_version_under_another_name(manage, catalogue):
    manage("duebox", "schemas", "write")
    said = manage("duebox", "schemas", "code", "member.invited", "--version", "1")
    assert "\nclass MemberInvitedV1:\n" in said
    assert "    seats: int = 1\n" in said


def test_code_keeps_a_name_that_the_file_allows(manage, folder):
    folder.mkdir(parents=True)
    words = {"type": "order.pay", "version": 1, "check_name": False}
    (folder / "order.pay.v1.json").write_text(json.dumps({"x-event": words, "type": "object", "properties": {}}))
    assert '@duebox.event("order.pay", check_name=False)' in manage("duebox", "schemas", "code", "order.pay")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["member.invite"], r"has no schema of 'member\.invite'; did you mean 'member\.invited'\?"),
        (["zebra"], r"has no schema of 'zebra'; there are: member\.invited, order\.paid, public\.member\.invited\."),
        (["member.invited", "--version", "9"], r"member\.invited has no version 9; there are: 1, 2\."),
        (["public.member.invited"], r"public\.member\.invited comes from member\.invited"),
    ],
)
def test_code_refuses_what_is_not_there_with_what_is(manage, catalogue, words, message):
    manage("duebox", "schemas", "write")
    with pytest.raises(CommandError, match=message):
        manage("duebox", "schemas", "code", *words)


def test_a_file_that_cannot_be_read_is_one_sentence(manage, catalogue, folder):
    manage("duebox", "schemas", "write")
    (folder / "order.paid.v1.json").write_text("{")
    with pytest.raises(CommandError, match=r"order\.paid\.v1\.json is not JSON"):
        manage("duebox", "schemas", "code", "order.paid")


@pytest.mark.parametrize("text", ["{", '{"x-event": []}', '{"type": "object", "properties": []}'])
def test_write_repairs_a_file_that_cannot_be_read(manage, catalogue, folder, text):
    manage("duebox", "schemas", "write")
    (folder / "order.paid.v1.json").write_text(text)
    said = manage("duebox", "schemas", "write").splitlines()
    assert said[0] == f"changed: {folder / 'order.paid.v1.json'}"
    assert said[1].startswith("  it could not be read before: ")
    assert manage("duebox", "schemas", "write") == "All 5 schemas are up to date.\n"


def test_code_says_what_is_wrong_with_a_file_in_one_sentence(manage, folder):
    folder.mkdir(parents=True)
    (folder / "order.paid.v1.json").write_text('{"type": "object", "x-event": []}')
    with pytest.raises(CommandError, match=r"x-event is \[\]; write an object"):
        manage("duebox", "schemas", "code", "order.paid")


def test_check_compares_what_was_written_with_another_folder(manage, catalogue, folder):
    manage("duebox", "schemas", "write")
    assert "Nothing breaks." in manage("duebox", "schemas", "check", "--against", str(folder))
