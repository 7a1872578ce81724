"""What the clinic declares: complete, in step with its files, and used. Asked in the clinic's own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.support import connection_params

CLINIC = Path(__file__).resolve().parents[2] / "examples" / "clinic"
ASKED_FOR = {
    "organization.created", "organization.billing_updated", "member.invited", "member.joined", "member.removed",
    "member.role_changed", "subscription.activated", "subscription.updated", "subscription.canceled",
    "user.phone_changed",
}  # fmt: skip
PERSONAL = {"name", "email", "phone", "founder", "address", "doctor"}

QUESTION = """
import django, json
django.setup()
from duebox.contracts import declared
from duebox.contracts import schema_files
kinds = [
    {"key": [kind.name, kind.version], "schema": kind.schema, "aggregate": kind.aggregate, "owner": kind.owner,
     "purpose": kind.purpose, "public": sorted(kind.public), "upcast": kind.upcast is not None, "origin": kind.origin}
    for kind in declared()
]
wrong = [[each.path.name, each.what] for each in schema_files.differences(schema_files.folder(), declared())]
found = [list(key) for key in schema_files.read(schema_files.folder())]
print(json.dumps({"kinds": kinds, "wrong": wrong, "files": found}))
"""


def clinic(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {"DJANGO_SETTINGS_MODULE": "examples.clinic.settings", **environment}
    return subprocess.run(
        [sys.executable, *command], cwd=CLINIC.parents[1], env={**os.environ, **environment},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def told():
    done = clinic("-c", QUESTION, DATABASE_URL="dbname=nowhere")  # which is never connected to
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def kinds(told):
    return [kind for kind in told["kinds"] if not kind["key"][0].startswith("public.")]


def test_the_whole_catalogue_is_declared(kinds):
    assert {kind["key"][0] for kind in kinds} >= ASKED_FOR


def test_every_type_is_declared_by_a_class_and_says_its_purpose_owner_and_aggregate(kinds):
    for kind in kinds:
        assert all(kind[word] for word in ("purpose", "owner", "aggregate")), kind["key"]
        assert kind["origin"].startswith("examples.clinic."), kind["key"]


def test_every_field_says_what_it_is(kinds):
    silent = [(kind["key"], name) for kind in kinds for name, part in properties(kind) if "description" not in part]
    assert silent == []


def test_what_is_personal_is_marked_and_never_public(kinds):
    for kind in kinds:
        is_personal = {name for name, part in properties(kind) if part.get("x-pii")}
        names = {name for name, _ in properties(kind)}
        if not kind["key"][0].startswith("organization.created"):  # its name is that of a house
            assert names & PERSONAL <= is_personal, kind["key"]
        assert not is_personal & set(kind["public"]), kind["key"]
    [phone] = [kind for kind in kinds if kind["key"][0] == "user.phone_changed"]
    assert {name for name, part in properties(phone) if part.get("x-pii")} == {"before", "after"}
    assert phone["public"] == []


def test_some_types_have_a_public_twin_and_one_has_two_versions_with_a_way_between(kinds):
    assert len({kind["key"][0] for kind in kinds if kind["public"]}) >= 3
    assert [kind["key"] for kind in kinds if kind["upcast"]] == [["subscription.updated", 2]]


def test_the_schema_files_are_in_step_with_the_classes(told):
    assert told["wrong"] == []
    assert sorted(told["files"]) == sorted(kind["key"] for kind in told["kinds"])


def test_the_project_knows_all_its_migrations():
    done = clinic(str(CLINIC / "manage.py"), "makemigrations", "--check", "--dry-run", "clinic", "organizations",
                  DATABASE_URL=make_conninfo(**connection_params()))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.django_db
def test_the_tests_of_the_project_itself_pass(tmp_path):
    done = clinic(str(CLINIC / "manage.py"), "test", "--noinput", "examples.clinic",
                  DATABASE_URL=make_conninfo(**connection_params()), CLINIC_FOLDER=str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Ran 0 tests" not in done.stderr


def properties(kind):
    return kind["schema"]["properties"].items()
