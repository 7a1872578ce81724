"""Pages about event types."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from duebox.contracts import event_types
from duebox.contracts.documents import Folder, block, change_log, changes, code, fields, pages, public_pages, table
from duebox.contracts.event_types import EventType
from duebox.exceptions import InvalidContract
from tests.contracts.catalogue import declare_all


@pytest.fixture
def written(declare: Any) -> dict[str, str]:
    declare_all(declare)
    return pages(event_types.declared())


def of(required: Any = (), **properties: Any) -> Any:
    return {"type": "object", "properties": properties, "required": list(required)}


def row(schema: Any, path: str = "thing") -> Any:
    return next(each for each in fields(of(thing=schema)) if each.path == path)


def kind(schema: Any, version: int = 1, **words: Any) -> EventType:
    return EventType(name="order.paid", version=version, schema=schema, **words)


def said(old: Any, new: Any) -> list[str]:
    return [what for _, what in changes(kind(old), kind(new))]


# The page of a type


def test_there_is_a_page_for_each_type_and_a_folder_for_those_that_others_read(written):
    assert sorted(written) == [
        "index.md",
        "member.invited.md",
        "order.paid.md",
        "public/index.md",
        "public/member.invited.md",
    ]


def test_a_page_says_what_the_event_means_whose_it_is_and_where_it_is_declared(written):
    page = written["member.invited.md"]
    assert page.startswith("# member.invited\n\n<!-- Written by `manage.py duebox events docs`.")
    assert "\nSomebody asked a person to join. No answer yet.\n" in page
    assert "- **About:** `member`\n" in page
    assert "- **Owner:** people@inside.example\n" in page
    assert "declare_all.<locals>.MemberInvited`\n" in page


def test_the_newest_version_comes_first(written):
    headings = re.findall("^##+ .+", written["member.invited.md"], flags=re.MULTILINE)
    assert headings == [
        "## Version 2",
        "## Who receives it",
        "## Public event",
        "## Version 1",
        "## Changes",
        "### From version 1 to version 2",
    ]


def test_fields_stand_in_a_table(written):
    assert (
        "| `roles` | list of `admin` or `guest` | yes | What the person may do | at least 1 item |  |"
        in written["member.invited.md"]
    )
    assert "| `lines[].sku` | text | yes | What was bought | 2 to 20 characters |" in written["order.paid.md"]
    assert "| `lines[].price` | decimal number as text | yes |  |  |" in written["order.paid.md"]


def test_personal_data_is_marked(written):
    assert "| `email` | text | yes | Where the invitation went |  | yes |" in written["member.invited.md"]
    assert "- **Personal data:** yes" in written["member.invited.md"]
    assert "Personal data" not in written["order.paid.md"]


def test_each_version_has_an_example_that_may_be_emitted(written):
    examples = re.findall(r"```json\n(.+?)\n```", written["member.invited.md"], flags=re.DOTALL)
    newest, oldest = map(json.loads, examples)
    versions = event_types.versions_of("member.invited")
    versions[2].check(newest)
    versions[1].check(oldest)


def test_the_handlers_are_named_with_what_they_ask_for_and_do(declare, on):
    declare_all(declare)

    @on("member.*", name="shop.greet")
    def greet(event):
        """Write a letter. Post it."""

    page = pages(event_types.declared())["member.invited.md"]
    assert "| `shop.greet` | `member.*` | Write a letter. |" in page


def test_a_destination_is_named_with_the_routes_that_take_the_event(declare, settings):
    declare_all(declare)
    pattern = {"event_type": [{"prefix": "member."}], "data": {"role": ["admin"]}}
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {"post": {"BACKEND": "tests.app.outside.Post"}},
        "ROUTES": [{"match": match, "to": "post"} for match in ("*.invited", "order.*", pattern)],
    }
    page = pages(event_types.declared())["member.invited.md"]
    assert f"| `to:post` | `*.invited`, `{json.dumps(pattern)}` |" in page
    assert "| `to:post` | `order.*` |" in pages(event_types.declared())["order.paid.md"]


def test_what_is_not_there_is_said(declare):
    @declare("task.forgotten")
    class TaskForgotten:
        pass

    lonely = [each for each in event_types.declared() if each.name == "task.forgotten"]
    page = pages(lonely)["task.forgotten.md"]
    assert "It has no description yet." in page
    assert "It has no data." in page
    assert "No handler of this project." in page


def test_versions_say_which_of_them_are_upcast(written):
    page = written["member.invited.md"]
    assert "Stored events of version 1 are upcast to it before a handler sees them." in page
    assert "Upcast to version 2 before a handler sees it." in page


def test_versions_without_a_way_between_them_say_that_too(declare):
    for version in (1, 2):
        declare("task.closed", version=version)(
            type("TaskClosed", (), {"__annotations__": {"n": int}, "__qualname__": f"V{version}"})
        )
    page = pages(event_types.versions_of("task.closed").values())["task.closed.md"]
    assert "There is no upcast from version 1" in page
    assert "There is no upcast to version 2: a handler has to check `event.version`." in page
    assert "The fields are the same." in page


# What others read


def test_the_page_of_an_event_leads_to_its_public_twin_and_says_what_that_carries(written):
    assert (
        "[public.member.invited](public/member.invited.md), which webhooks of the same organization may receive. Its "
        "data contains only these fields of version 2: `roles`, `expires_at`."
    ) in written["member.invited.md"]


def test_public_pages_mention_nothing_of_the_inside(declare, on):
    declare_all(declare)
    on("*", name="shop.secret_handler")(lambda event: None)
    found = public_pages(event_types.declared())
    assert sorted(found) == ["index.md", "member.invited.md"]
    text = "\n".join(found.values())
    for inside in ("secret_handler", "inside.example", "email", "seats", "order.paid", "catalogue", "../"):
        assert inside not in text
    assert "Somebody asked a person to join." in text
    assert '"roles"' in text


def test_public_pages_are_the_same_alone_and_among_the_others(written):
    alone = public_pages(event_types.declared())
    assert {f"public/{name}": text for name, text in alone.items()} == {
        name: text for name, text in written.items() if name.startswith("public/")
    }


def test_the_public_changes_speak_of_readers_only(written):
    assert "| `role` was removed | readers of version 1 |" in written["public/member.invited.md"]
    assert "stored events" not in written["public/member.invited.md"]


# The index


def test_the_index_groups_by_what_events_are_about(written):
    index = written["index.md"]
    assert re.findall("^## .+", index, flags=re.MULTILINE) == [
        "## member",
        "## order",
        "## Public event",
        "## What every event has",
    ]
    assert (
        "| [member.invited](member.invited.md) | Somebody asked a person to join. | 2 | people@inside.example "
        "| [yes](public/member.invited.md) |"
    ) in index


def test_every_link_leads_to_a_page_and_a_heading(written):
    for name, text in written.items():
        for target in re.findall(r"\]\(([^)]+)\)", text):
            path, _, anchor = target.partition("#")
            folder = name.rpartition("/")[0]
            there = "/".join(filter(None, (folder, path))) if path else name
            assert there in written
            slugs = [
                heading.lower().replace(" ", "-") for heading in re.findall("^##+ (.+)", written[there], re.MULTILINE)
            ]
            assert not anchor or anchor in slugs


# Fields in people's words


@pytest.mark.parametrize(
    ("schema", "words", "rules"),
    [
        ({"type": "string"}, "text", ""),
        ({"type": ["null", "integer"], "minimum": 3}, "whole number or null", "3 or more"),
        ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "number", "0 or more; below 1"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "whole number", "from 1 to 9"),
        ({"type": "string", "format": "date-time"}, "date and time", ""),
        ({"type": "string", "format": "color"}, "text", "format `color`"),
        ({"enum": ["a", 1, None]}, "`a`, `1` or `null`", ""),
        ({"const": "a"}, "always `a`", ""),
        ({"type": "string", "minLength": 1}, "text", "at least 1 character"),
        ({"type": "string", "minLength": 4, "maxLength": 4}, "text", "exactly 4 characters"),
        ({"type": "string", "maxLength": 9, "pattern": "^a|b$"}, "text", "at most 9 characters; matches `^a|b$`"),
        ({"type": "array", "items": {"type": "string", "format": "email"}}, "list of e-mail addresses", ""),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "list of (text or null)", ""),
        ({"type": "array", "uniqueItems": True}, "list", "nothing twice"),
        ({"type": "array", "prefixItems": [{}, {}], "items": False, "minItems": 2}, "list", "exactly 2 items"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "whole numbers, by name", ""),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, "object", "may have other fields"),
        ({"type": "boolean", "default": False}, "true or false", "by default `false`"),
        ({"type": "string", "not": {"const": ""}}, "text", '`not`: `{"const": ""}`'),
        ({}, "anything", ""),
    ],
)  # fmt: skip
def test_a_field_is_told_in_plain_words(schema, words, rules):
    assert (row(schema).kind, row(schema).rules) == (words, rules)


def test_what_is_in_a_list_has_a_line_of_its_own_only_if_there_is_more_to_say():
    assert [each.path for each in fields(of(tags={"type": "array", "items": {"type": "string"}}))] == ["tags"]
    found = row({"type": "array", "items": {"type": "string", "maxLength": 5}}, "thing[]")
    assert (found.kind, found.required, found.rules) == ("text", None, "at most 5 characters")


def test_definitions_and_combinations_are_looked_through():
    line = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    schema = {
        **of(["lines"], lines={"type": "array", "items": {"$ref": "#/$defs/line"}}, one={"$ref": "#/$defs/line"}),
        "$defs": {"line": line},
    }
    assert [(each.path, each.required) for each in fields(schema)] == [
        ("lines", True), ("lines[].sku", True), ("one", False), ("one.sku", True),
    ]  # fmt: skip


def test_the_forms_of_a_field_are_told_apart():
    card, iban = of(["card"], card={"type": "string", "x-pii": True}), of(iban={"type": "string"})
    assert row({"oneOf": [card, iban]}).kind == "one of 2 forms"
    assert row({"oneOf": [card, iban]}, "thing.card").rules == "in form 1 of 2"
    assert row({"oneOf": [card, iban]}, "thing.card").personal


def test_what_is_inside_personal_data_is_personal():
    assert row({**of(street={"type": "string"}), "x-pii": True}, "thing.street").personal


def test_a_thing_that_holds_itself_is_told_once():
    node = of(["name"], name={"type": "string"}, inner={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    schema = {**of(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    assert [(each.path, each.kind) for each in fields(schema)] == [
        ("root", "object"),
        ("root.name", "text"),
        ("root.inner", "list of objects"),
        ("root.inner[]", "object, like `root`"),
    ]


# Changes


def test_what_changed_is_told_field_by_field():
    old = of(["email", "role"], email={"type": "string"}, role={"type": "string"}, seats={"type": "integer"})
    new = of(
        ["email", "roles", "seats"],
        email={"type": "string", "maxLength": 200, "x-pii": True},
        roles={"type": "array"},
        seats={"type": "number"},
    )
    assert said(old, new) == [
        "`email` has other rules: at most 200 characters, where it had none",
        "`email` is now marked as personal data",
        "`role` was removed",
        "`seats` was whole number, and is number now",
        "`seats` became required",
        "`roles` is new, and required: list",
    ]


def test_of_a_part_that_came_or_went_as_a_whole_only_the_whole_is_told():
    address = of(street={"type": "string"}, city=of(name={"type": "string"}))
    assert said(of(), of(address=address)) == ["`address` is new: object"]
    assert said(of(address=address), of()) == ["`address` was removed"]


def test_a_change_says_whom_it_breaks(written):
    page = written["member.invited.md"]
    assert "| `role` was removed | readers of version 1 |" in page
    assert (
        "| `roles` is new, and required: list of `admin` or `guest` | stored events of version 1, which are upcast |"
        in page
    )
    assert "| `expires_at` is new: date and time or null |  |" in page


def test_what_breaks_as_a_whole_is_told_though_no_field_changed():
    fields = {"a": {"type": "string"}, "b": {"type": "string"}}
    log = "\n".join(change_log([kind(of(**fields)), kind({**of(**fields), "minProperties": 2}, version=2)]))
    (row,) = [line for line in log.splitlines() if "minProperties" in line]
    assert row.endswith("| stored events of version 1 |")


# Markdown


def test_nothing_breaks_out_of_its_cell():
    text = table(("a", "b"), [("x|y", "two\nlines"), (code("a`|b"), "")])
    assert text.splitlines()[2:] == [r"| x\|y | two lines |", r"| ``a`\|b`` |  |"]


def test_columns_with_nothing_in_them_are_left_out():
    assert table(("a", "b"), [("1", ""), ("2", "")]).splitlines()[0] == "| a |"


def test_a_fence_is_longer_than_any_inside():
    assert block("```\nx\n```").startswith("````\n")


# The folder


def test_a_folder_is_brought_in_step_once(tmp_path):
    folder = Folder(tmp_path / "events", {"index.md": "# a\n", "public/b.c.md": "# b\n"}, inner=["public"])
    assert folder.compared().missing == ("index.md", "public/b.c.md")
    assert not folder.compared().in_step
    folder.write()
    assert folder.compared().in_step
    assert (tmp_path / "events" / "public" / "b.c.md").read_text() == "# b\n"


def test_pages_of_types_that_are_gone_are_removed_but_only_ours(written, tmp_path):
    Folder(tmp_path, written, inner=["public"]).write()
    (tmp_path / "task.closed.md").write_text("# By hand")
    (tmp_path / "notes.md").write_text("# By hand")
    left = {"index.md": written["index.md"]}
    report = Folder(tmp_path, left, inner=["public"]).write()
    assert report.stale == ("member.invited.md", "order.paid.md", "public/index.md", "public/member.invited.md")
    assert report.foreign == ("task.closed.md",)
    assert sorted(path.name for path in tmp_path.rglob("*.md")) == ["index.md", "notes.md", "task.closed.md"]


def test_a_page_that_somebody_wrote_is_not_written_over(written, tmp_path):
    (tmp_path / "index.md").write_text("# My own")
    with pytest.raises(InvalidContract, match=r"index\.md was not generated by `duebox events docs`; move it,"):
        Folder(tmp_path, written).write()
    assert [path.name for path in tmp_path.iterdir()] == ["index.md"]
