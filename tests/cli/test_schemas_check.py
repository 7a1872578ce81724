from __future__ import annotations

import json
import os
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from duebox.contracts import event_types
from duebox.management.commands.duebox import Command
from tests.contracts.compat.pairs import TEXT, WHOLE, event

V1 = event("number", number=TEXT)
BROKEN = event("number", "total", number=TEXT, total=WHOLE)
ADDED = event("number", number=TEXT, total=WHOLE)


class Told(Exception):
    """What was printed before the command failed."""


@pytest.fixture
def run():
    def run(*words):
        out = StringIO()
        try:
            call_command("duebox", "schemas", "check", *words, stdout=out)
        except CommandError as error:
            raise Told(out.getvalue(), str(error)) from error
        return out.getvalue()

    return run


@pytest.fixture
def project(tmp_path, settings):
    """A project in a git repository of its own, with the schemas of one commit on the branch main."""
    settings.BASE_DIR = tmp_path / "project"
    write(settings.BASE_DIR, V1)
    git(settings.BASE_DIR, "init", "--quiet", "--initial-branch", "main")
    commit(settings.BASE_DIR)
    return settings.BASE_DIR


def write(project: Path, schema, name="order.paid.v1.json"):
    folder = project / "schemas" / "events"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(schema))


def git(folder: Path, *words):
    # As on a machine where nobody has configured git.
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, env={**os.environ, **nobody})


def commit(project: Path):
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message", "schemas")


def test_nothing_changed_says_so(project, run):
    assert run("--against", "main") == "1 schema compared with schemas/events at main. Nothing breaks.\n"


def test_an_addition_passes(project, run):
    write(project, ADDED)
    assert run("--against", "HEAD").endswith("Nothing breaks.\n")


def test_a_break_fails_and_shows_what_an_event_and_the_repair(project, run):
    write(project, BROKEN)
    with pytest.raises(Told) as told:
        run("--against", "main")
    printed, error = told.value.args
    assert printed.splitlines() == [
        "order.paid v1",
        "  breaks backward: `total` is new and required; an old event without it is refused by the new schema",
        '    event: {"number": "a"}',
        "    repair: leave version 1 as it was; make this version 2 and give it an upcaster, or leave it optional or "
        "give it a default",
        "1 schema compared with schemas/events at main.",
    ]
    assert error == "Not allowed: 1 change; see the repair of each."


def test_the_exit_code_is_1(project, declare, capsys):
    write(project, BROKEN)
    with pytest.raises(SystemExit) as end:
        Command().run_from_argv(["manage.py", "duebox", "schemas", "check", "--against", "main"])
    assert end.value.code == 1
    assert "Not allowed: 1 change" in capsys.readouterr().err


def test_a_long_list_is_cut_and_says_so(project, run):
    names = [f"p{number:02}" for number in range(20)]
    write(project, event("number", *names, number=TEXT, **dict.fromkeys(names, TEXT)))
    with pytest.raises(Told) as told:
        run("--against", "main")
    printed, error = told.value.args
    assert printed.count("breaks backward") == 12
    assert "  and 8 more; --json lists all\n" in printed
    assert error.startswith("Not allowed: 20 changes")


def test_the_mode_is_obeyed(project, run):
    write(project, BROKEN)
    assert run("--against", "main", "--mode", "forward").endswith("Nothing breaks.\n")


def test_json_is_one_document_with_the_witness(project, run):
    write(project, BROKEN)
    with pytest.raises(Told) as told:
        run("--against", "main", "--json")
    document = json.loads(told.value.args[0])
    assert (document["ok"], document["mode"], document["compared"]) == (False, "full", 1)
    [found] = document["findings"]
    assert (found["type"], found["version"], found["path"], found["direction"]) == (
        "order.paid",
        1,
        "total",
        "backward",
    )
    assert found["witness"] == {"number": "a"}


def test_json_of_a_check_that_passes(project, run):
    document = json.loads(run("--against", "main", "--json"))
    assert (document["ok"], document["findings"]) == (True, [])


def test_what_is_worth_a_look_is_told_and_passes(project, run):
    write(project, V1, "order.paid.v3.json")
    printed = run("--against", "main")
    assert "look: version 3 follows version 1" in printed
    assert printed.endswith("Nothing breaks. 1 thing to look at.\n")


def test_a_schema_that_was_deleted_fails(project, run):
    (project / "schemas" / "events" / "order.paid.v1.json").unlink()
    with pytest.raises(Told, match="the version was removed"):
        run("--against", "main")


def test_the_whole_folder_deleted_fails_too(project, run):
    (project / "schemas" / "events" / "order.paid.v1.json").unlink()
    (project / "schemas" / "events").rmdir()
    with pytest.raises(Told, match="the version was removed"):
        run("--against", "main")


def test_an_older_commit_can_be_named(project, run):
    write(project, BROKEN)
    commit(project)
    assert run("--against", "main").endswith("Nothing breaks.\n")
    with pytest.raises(Told, match=r"order\.paid v1"):
        run("--against", "HEAD~1")


def test_a_commit_without_the_folder_is_nothing_to_compare_with(project, run, settings):
    settings.DUEBOX = {**settings.DUEBOX, "SCHEMAS": "contracts"}
    assert run("--against", "main") == ("Nothing to compare with: contracts at main has no schemas. There are 0 now.\n")


def test_another_folder_can_be_named(project, run, tmp_path):
    write(tmp_path / "release", V1)
    write(project, BROKEN)
    with pytest.raises(Told, match="breaks backward"):
        run("--against", str(tmp_path / "release" / "schemas" / "events"))


def test_a_folder_will_do_without_git(tmp_path, run, settings):
    settings.BASE_DIR = tmp_path / "project"
    write(settings.BASE_DIR, ADDED)
    write(tmp_path / "release", V1)
    assert run("--against", str(tmp_path / "release" / "schemas" / "events")).endswith("Nothing breaks.\n")


def test_a_commit_outside_of_a_git_repository_is_refused(tmp_path, run, settings):
    settings.BASE_DIR = tmp_path
    with pytest.raises(Told, match=r"neither a commit nor a folder .*not a git repository"):
        run("--against", "main")


@pytest.mark.parametrize("unknown", ["nowhere", "--upload-pack=x", "main:schemas"])
def test_an_unknown_commit_is_refused_with_what_to_do(project, run, unknown):
    with pytest.raises(Told, match=r"is neither a commit nor a folder .*; name a branch, a tag or a folder.*git fetch"):
        run(f"--against={unknown}")


def test_a_file_that_is_not_json_is_named(project, run):
    (project / "schemas" / "events" / "order.paid.v1.json").write_text("{")
    commit(project)
    write(project, V1)
    with pytest.raises(Told, match=r"order.paid.v1.json at main is not JSON"):
        run("--against", "main")


def test_other_files_are_left_alone(project, run):
    (project / "schemas" / "events" / "README.json").write_text("not a schema")
    commit(project)
    assert run("--against", "main").startswith("1 schema compared")


def test_the_variables_of_a_git_hook_do_not_mislead(project, run, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "elsewhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "elsewhere")
    assert run("--against", "main").endswith("Nothing breaks.\n")


@pytest.fixture
def code(project, declare):
    """The project, whose code declares `order.sent`, written and committed."""
    declare("order.sent")(type("OrderSent", (), {"__annotations__": {"number": str}}))
    call_command("duebox", "schemas", "write", stdout=StringIO())
    commit(project)
    return project


def change_the_class(declare):
    event_types.forget("order.sent")
    declare("order.sent")(type("OrderSent", (), {"__annotations__": {"number": int}}))


def test_files_that_are_in_step_with_the_code_pass(code, run):
    assert run("--against", "HEAD") == "2 schemas compared with schemas/events at HEAD. Nothing breaks.\n"


def test_a_class_that_changed_without_its_file_does_not_pass(code, run, declare):
    change_the_class(declare)
    with pytest.raises(Told) as told:
        run("--against", "HEAD")
    printed, error = told.value.args
    assert printed == "2 schemas compared with schemas/events at HEAD.\n"
    assert error == (
        "The schema files are not what the code declares: order.sent.v1.json is out of date. "
        "Run: manage.py duebox schemas write"
    )


def test_a_class_without_a_file_does_not_pass(code, run):
    (code / "schemas" / "events" / "order.sent.v1.json").unlink()
    commit(code)
    with pytest.raises(Told, match=r"order\.sent\.v1\.json is missing"):
        run("--against", "HEAD")


def test_what_breaks_and_what_is_out_of_step_are_both_told(code, run, declare):
    change_the_class(declare)
    write(code, BROKEN)
    with pytest.raises(Told) as told:
        run("--against", "HEAD")
    printed, error = told.value.args
    assert "breaks backward: `total`" in printed
    assert error.startswith("Not allowed: 1 change; see the repair of each. The schema files are not what")


def test_json_lists_what_is_out_of_step(code, run, declare):
    assert json.loads(run("--against", "HEAD", "--json"))["out_of_step"] == []
    change_the_class(declare)
    with pytest.raises(Told) as told:
        run("--against", "HEAD", "--json")
    document = json.loads(told.value.args[0])
    assert (document["ok"], document["findings"]) == (False, [])
    assert document["out_of_step"] == [{"file": "order.sent.v1.json", "what": "out of date"}]


@pytest.mark.parametrize("nothing", ["", "  "])
def test_an_empty_name_is_refused(project, run, monkeypatch, nothing):
    monkeypatch.chdir(project / "schemas" / "events")
    with pytest.raises(Told, match=r"--against is empty; name a branch, a tag or a folder"):
        run(f"--against={nothing}")


def test_a_folder_without_schemas_is_refused(project, run, tmp_path):
    (tmp_path / "release").mkdir()
    with pytest.raises(Told, match=r"release has no schemas to compare with; name the folder that contains"):
        run("--against", str(tmp_path / "release"))


def test_a_file_of_a_commit_that_is_not_utf_8_is_named(project, run):
    path = project / "schemas" / "events" / "order.paid.v1.json"
    path.write_bytes('{"title": "caf\xe9"}'.encode("latin-1"))
    commit(project)
    write(project, V1)
    with pytest.raises(Told, match=r"order.paid.v1.json at main is not JSON"):
        run("--against", "main")


def test_a_file_of_a_commit_may_begin_with_a_byte_order_mark(project, run):
    path = project / "schemas" / "events" / "order.paid.v1.json"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    commit(project)
    assert run("--against", "main").endswith("Nothing breaks.\n")
