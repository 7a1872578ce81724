"""Schemas as files: a class writes its file, a file declares its type."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pytest

from duebox.contracts import PII, event_types, schema_files
from duebox.exceptions import InvalidContract


@pytest.fixture
def folder(tmp_path, settings):
    settings.BASE_DIR = tmp_path
    return schema_files.folder()


@pytest.fixture
def invited(declare: Any) -> Any:
    @declare("member.invited", aggregate="member", owner="people", public={"role"})
    class MemberInvited:
        """Somebody asked a person to join."""

        email: Annotated[str, PII]
        role: str

    return event_types.type_of(MemberInvited)


def of(*kinds):
    return [each for kind in kinds for each in (kind, kind.public_event) if each]


def test_the_folder_is_beside_the_project_unless_a_setting_says_otherwise(tmp_path, settings):
    settings.BASE_DIR = tmp_path
    assert schema_files.folder() == tmp_path / "schemas" / "events"
    settings.DUEBOX = {"SCHEMAS": "contracts"}
    assert schema_files.folder() == tmp_path / "contracts"
    settings.DUEBOX = {"SCHEMAS": "/elsewhere/contracts"}
    assert str(schema_files.folder()) == "/elsewhere/contracts"


def test_a_class_writes_its_file_and_that_of_its_public_twin(folder, invited):
    written = schema_files.write(folder, of(invited))
    assert {each.path.name for each in written} == {
        "member.invited.v1.json", "public.member.invited.v1.json", "envelope.v1.json", "public_envelope.v1.json",
    }  # fmt: skip
    assert json.loads((folder / "member.invited.v1.json").read_text()) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "member.invited",
        "description": "Somebody asked a person to join.",
        "x-event": {
            "type": "member.invited", "version": 1, "aggregate": "member", "owner": "people", "public": ["role"],
        },
        "type": "object",
        "properties": {"email": {"type": "string", "x-pii": True}, "role": {"type": "string"}},
        "required": ["email", "role"],
    }  # fmt: skip
    assert schema_files.write(folder, of(invited)) == []


def test_what_is_out_of_step_is_named_and_brought_back(folder, invited):
    schema_files.write(folder, of(invited))
    path = folder / "member.invited.v1.json"
    path.write_text(path.read_text().replace('"role"', '"rank"'))
    (folder / "public.member.invited.v1.json").unlink()
    assert {(each.path.name, each.what) for each in schema_files.differences(folder, of(invited))} == {
        ("member.invited.v1.json", "out of date"),
        ("public.member.invited.v1.json", "missing"),
    }
    schema_files.write(folder, of(invited))
    assert schema_files.differences(folder, of(invited)) == []


def test_layout_is_not_a_difference(folder, invited):
    schema_files.write(folder, of(invited))
    path = folder / "member.invited.v1.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert schema_files.differences(folder, of(invited)) == []


def test_a_file_declares_its_type(folder, invited, declare):
    schema_files.write(folder, of(invited))
    event_types.forget("member.invited")
    schema_files.load(folder)
    loaded = event_types.latest("member.invited")
    assert (loaded.version, loaded.aggregate, loaded.owner, loaded.public) == (1, "member", "people", {"role"})
    assert (loaded.schema, loaded.purpose, loaded.public_event.schema) == (
        invited.schema,
        invited.purpose,
        invited.public_event.schema,
    )
    assert schema_files.document(loaded) == schema_files.document(invited)
    assert schema_files.differences(folder, of(loaded)) == []


def test_a_class_wins_over_its_file(folder, invited):
    schema_files.write(folder, of(invited))
    (folder / "member.invited.v1.json").write_text('{"type": "object"}')
    schema_files.load(folder)
    assert event_types.latest("member.invited") == invited


def test_a_class_that_is_imported_after_its_file_wins_as_well(folder, invited, declare):
    schema_files.write(folder, of(invited))
    event_types.forget("member.invited")
    schema_files.load(folder)  # before handlers.py, where the class may be

    @declare("member.invited")
    class MemberInvited:
        email: str

    latest = event_types.latest("member.invited")
    assert latest.shape is MemberInvited
    assert set(latest.schema["properties"]) == {"email"}
    assert event_types.latest("public.member.invited") is None, "the public event of the file is gone with it"
    assert event_types.type_of(MemberInvited) == latest


def test_without_a_folder_there_is_nothing(folder):
    assert schema_files.read(folder) == {}
    schema_files.load(folder)


def test_other_files_are_left_alone(folder, invited):
    schema_files.write(folder, of(invited))
    (folder / "README.md").write_text("read me")
    (folder / "package.json").write_text("no schema")
    assert set(schema_files.read(folder)) == {("member.invited", 1), ("public.member.invited", 1)}


GOOD = '{"type": "object", "properties": {"number": {"type": "string"}}}'
BROKEN = {
    "cut": (b"{", r"is not JSON"),
    "latin-1": ('{"description": "caf\xe9"}'.encode("latin-1"), r"is not JSON .*0xe9"),
    "too deep": (b"[" * 100_000, r"is not JSON"),
    "a list": (b"[]", r"contains a list"),
    "no object": (b'{"type": "string"}', r"must be of type 'object'"),
    "no schema": (b'{"type": "object", "properties": []}', r"cannot be used"),
    "no text": (b'{"type": "object", "description": 5}', r"cannot be used"),
    "remote": (b'{"type": "object", "$ref": "https://example.org/a.json"}', r"only local references"),
    "a circle": (
        b'{"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}, '
        b'"x-event": {"public": ["a"]}}',
        r"cannot be used",
    ),
    "unknown field": (b'{"type": "object", "x-event": {"public": ["rank"]}}', r"rank"),
    "words as a list": (b'{"type": "object", "x-event": []}', r"x-event is \[\]; write an object"),
    "public as text": (
        b'{"type": "object", "x-event": {"public": "role"}}',
        r"public is 'role'; write a list of texts",
    ),
    "public of numbers": (b'{"type": "object", "x-event": {"public": [1]}}', r"public is \[1\]; write a list of texts"),
    "owner as a number": (b'{"type": "object", "x-event": {"owner": 5}}', r"owner is 5; write a text"),
}


@pytest.mark.parametrize(("content", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_and_the_others_are_declared(folder, declare, content, why):
    folder.mkdir(parents=True)
    for name in ("member.invited", "order.sent"):
        (folder / f"{name}.v1.json").write_text(GOOD)
    (folder / "order.paid.v1.json").write_bytes(content)
    [error] = schema_files.load(folder)
    assert isinstance(error, InvalidContract)
    assert re.search(rf"order\.paid\.v1\.json .*{why}", str(error)), error
    assert len(str(error)) < 500
    assert [event_types.latest(name) is not None for name in ("member.invited", "order.paid", "order.sent")] == [
        True, False, True,
    ]  # fmt: skip


def test_every_broken_file_is_named(folder, declare):
    folder.mkdir(parents=True)
    (folder / "order.paid.v1.json").write_text("{")
    (folder / "orders.v1.json").write_text(GOOD)
    (folder / "order.sent.v40000.json").write_text(GOOD)
    (folder / "order.lost.v1.json").symlink_to(folder / "nothing.json")
    (folder / "public.order.paid.v1.json").mkdir()
    assert [str(error).partition(" ")[0].rpartition("/")[2] for error in schema_files.load(folder)] == [
        "order.lost.v1.json", "order.paid.v1.json", "order.sent.v40000.json", "orders.v1.json",
        "public.order.paid.v1.json",
    ]  # fmt: skip


def test_a_broken_file_of_a_class_is_named_and_written_anew(folder, invited):
    schema_files.write(folder, of(invited))
    (folder / "member.invited.v1.json").write_text("{")
    assert [str(error).partition(" (")[0] for error in schema_files.load(folder)] == [
        f"{folder / 'member.invited.v1.json'} is not JSON"
    ]
    assert [each.what for each in schema_files.write(folder, of(invited))] == ["broken"]
    assert schema_files.load(folder) == []


def test_a_byte_order_mark_is_taken(folder, declare):
    folder.mkdir(parents=True)
    (folder / "order.sent.v1.json").write_text(GOOD, encoding="utf-8-sig")
    assert schema_files.load(folder) == []
    assert event_types.latest("order.sent") is not None
    assert schema_files.read(folder) == {("order.sent", 1): json.loads(GOOD)}


def test_files_whose_name_is_no_type_and_version_are_told_apart(folder, invited):
    assert schema_files.misnamed(folder) == []
    schema_files.write(folder, of(invited))
    wrong = ["Order.Sent.v1.json", "order.sent.V2.json", "order.sent.json", "order.sent.v0.json", "order.sent.v3.JSON"]
    for name in [*wrong, "README.md"]:
        (folder / name).write_text(GOOD)
    (folder / "old.json").mkdir()
    assert [path.name for path in schema_files.misnamed(folder)] == wrong


def test_a_name_that_was_left_as_it_is_stays_so_in_the_file(folder, declare):
    declare("member.invite", check_name=False)(type("Invite", (), {"__annotations__": {"role": str}}))
    kind = event_types.latest("member.invite")
    schema_files.write(folder, [kind])
    event_types.forget("member.invite")
    schema_files.load(folder)
    assert not event_types.latest("member.invite").check_name
    assert schema_files.differences(folder, [kind]) == []
