"""Schemas as files: a class writes its file, a file declares its type."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from duebox.contracts import PII, files, types
from duebox.exceptions import InvalidContract


@pytest.fixture
def folder(tmp_path, settings):
    settings.BASE_DIR = tmp_path
    return files.folder()


@pytest.fixture
def invited(declare: Any) -> Any:
    @declare("member.invited", aggregate="member", owner="people", public={"role"})
    class MemberInvited:
        """Somebody asked a person to join."""

        email: Annotated[str, PII]
        role: str

    return types.type_of(MemberInvited)


def of(*kinds):
    return [each for kind in kinds for each in (kind, kind.twin) if each]


def test_the_folder_is_beside_the_project_unless_a_setting_says_otherwise(tmp_path, settings):
    settings.BASE_DIR = tmp_path
    assert files.folder() == tmp_path / "schemas" / "events"
    settings.DUEBOX = {"SCHEMAS": "contracts"}
    assert files.folder() == tmp_path / "contracts"
    settings.DUEBOX = {"SCHEMAS": "/elsewhere/contracts"}
    assert str(files.folder()) == "/elsewhere/contracts"


def test_a_class_writes_its_file_and_that_of_its_public_twin(folder, invited):
    written = files.write(folder, of(invited))
    assert {each.path.name for each in written} == {"member.invited.v1.json", "public.member.invited.v1.json"}
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
    assert files.write(folder, of(invited)) == []


def test_what_is_out_of_step_is_named_and_brought_back(folder, invited):
    files.write(folder, of(invited))
    path = folder / "member.invited.v1.json"
    path.write_text(path.read_text().replace('"role"', '"rank"'))
    (folder / "public.member.invited.v1.json").unlink()
    assert {(each.path.name, each.what) for each in files.differences(folder, of(invited))} == {
        ("member.invited.v1.json", "out of date"),
        ("public.member.invited.v1.json", "missing"),
    }
    files.write(folder, of(invited))
    assert files.differences(folder, of(invited)) == []


def test_layout_is_not_a_difference(folder, invited):
    files.write(folder, of(invited))
    path = folder / "member.invited.v1.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert files.differences(folder, of(invited)) == []


def test_a_file_declares_its_type(folder, invited, declare):
    files.write(folder, of(invited))
    types.forget("member.invited")
    files.load(folder)
    loaded = types.latest("member.invited")
    assert (loaded.version, loaded.aggregate, loaded.owner, loaded.public) == (1, "member", "people", {"role"})
    assert (loaded.schema, loaded.purpose, loaded.twin.schema) == (invited.schema, invited.purpose, invited.twin.schema)
    assert files.document(loaded) == files.document(invited)
    assert files.differences(folder, of(loaded)) == []


def test_a_class_wins_over_its_file(folder, invited):
    files.write(folder, of(invited))
    (folder / "member.invited.v1.json").write_text('{"type": "object"}')
    files.load(folder)
    assert types.latest("member.invited") == invited


def test_without_a_folder_there_is_nothing(folder):
    assert files.read(folder) == {}
    files.load(folder)


def test_other_files_are_left_alone(folder, invited):
    files.write(folder, of(invited))
    (folder / "README.md").write_text("read me")
    (folder / "package.json").write_text("no schema")
    assert set(files.read(folder)) == {("member.invited", 1), ("public.member.invited", 1)}


@pytest.mark.parametrize(("text", "why"), [("{", "is not JSON"), ("[]", "holds a list")])
def test_a_broken_file_is_named(folder, text, why):
    folder.mkdir(parents=True)
    (folder / "member.invited.v1.json").write_text(text)
    with pytest.raises(InvalidContract, match=rf"member\.invited\.v1\.json {why}"):
        files.load(folder)


def test_a_name_that_was_left_as_it_is_stays_so_in_the_file(folder, declare):
    declare("member.invite", named_as_is=True)(type("Invite", (), {"__annotations__": {"role": str}}))
    kind = types.latest("member.invite")
    files.write(folder, [kind])
    types.forget("member.invite")
    files.load(folder)
    assert types.latest("member.invite").named_as_is
    assert files.differences(folder, [kind]) == []
