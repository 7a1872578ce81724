"""What exists is in the reference: a new setting, check, option, column or name fails here until it is written down."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management.base import CommandParser

import duebox
from duebox import audit_log, checks, embedded, exceptions, fields, signals, testing, when
from duebox.cli.output import Group
from duebox.conf import NAMES, Settings
from duebox.management.commands import publish_events
from duebox.management.commands.duebox import GROUPS, RUNNING
from duebox.schedules import sweeps
from tests.docs.pages import REFERENCE, ROOT, name_of, pages

MODELS = [model for model in apps.get_app_config("duebox").get_models() if not model._meta.proxy]


def reference(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text()


def section(text: str, title: str) -> str:
    """From the heading that names `title` to the next one of its level."""
    found = re.search(rf"^(#+) [^\n]*`{re.escape(title)}`[^\n]*$", text, flags=re.MULTILINE)
    assert found, f"no heading names `{title}`"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, flags=re.MULTILINE)
    return rest[: end.start()] if end else rest


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_explained_with_its_default(name):
    assert repr(getattr(Settings(), name)).replace("'", '"') in section(reference("settings"), name)


def test_no_setting_is_explained_that_does_not_exist():
    assert set(re.findall(r"^## `([A-Z_]+)`", reference("settings"), flags=re.MULTILINE)) == set(NAMES)


def test_every_check_is_explained():
    source = "".join(path.read_text() for path in (ROOT / "src" / "duebox").rglob("*.py"))
    ids = set(re.findall(r"\"(duebox\.[A-Z]\d+)\"", source))
    assert checks.__doc__
    assert ids == set(re.findall(r"^## `(duebox\.[A-Z]\d+)`", reference("checks"), flags=re.MULTILINE))


def options_of(parser: CommandParser) -> set[str]:
    flags = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
    return flags - {"--help"}


COMMANDS = RUNNING | {f"{name} {verb}": each for name, group in GROUPS.items() for verb, each in group.verbs.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_explained_with_all_its_options(name):
    command, page = COMMANDS[name], reference("commands")
    text = section(page, f"duebox {name}") + introduction(page, f"duebox {name.partition(' ')[0]}")
    for verb in command.verbs.values() if isinstance(command, Group) else [command]:
        parser = CommandParser(prog=name)
        verb.add_options(parser)
        assert [option for option in sorted(options_of(parser)) if f"`{option}" not in text] == []


def test_no_command_is_explained_that_does_not_exist():
    titles = re.findall(r"^#+ `duebox ([\w -]+)`$", reference("commands"), flags=re.MULTILINE)
    assert set(titles) == {*COMMANDS, *GROUPS}


def introduction(text: str, title: str) -> str:
    """What is said about a group of commands before the first of them."""
    return section(text, title).partition("\n### ")[0]


def test_the_publish_events_command_is_explained_with_all_its_options():
    parser = CommandParser(prog="publish_events")
    publish_events.Command().add_arguments(parser)
    text = section(reference("commands"), "publish_events")
    assert [option for option in sorted(options_of(parser)) if f"`{option}" not in text] == []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.db_table)
def test_every_column_index_and_constraint_of_a_table_is_explained(model):
    text = section(reference("tables"), model._meta.db_table)
    names = [field.column for field in model._meta.concrete_fields if field.column]  # a composite key has none
    names += [index.name for index in model._meta.indexes]
    names += [constraint.name for constraint in model._meta.constraints]
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", duebox.__all__)
def test_every_public_name_is_explained(name):
    assert section(reference("api"), f"duebox.{name}").strip()


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_of_the_test_kit_is_explained(name):
    assert section(reference("api"), f"duebox.testing.{name}").strip()


def test_every_field_for_time_zones_is_explained():
    own = [name for name, thing in vars(fields).items() if getattr(thing, "__module__", "") == fields.__name__]
    text = section(reference("api"), "duebox.fields")
    assert [name for name in own if not name.startswith("_") and f"`{name}" not in text] == []


@pytest.mark.parametrize("name", audit_log.__all__)
def test_every_name_of_the_audit_log_is_explained(name):
    assert re.search(rf"`(duebox\.audit_log\.)?{name}\b", reference("api"))


def test_every_name_of_the_embedded_database_is_explained():
    text = reference("api")
    own = [name for name, thing in vars(embedded).items() if getattr(thing, "__module__", "") == embedded.__name__]
    for name in [name for name in own if not name.startswith("_")] + ["SETTINGS"]:
        assert section(text, f"duebox.embedded.{name}").strip()
    members = [name for name in vars(embedded.Embedded) if not name.startswith("_")]
    assert [name for name in members if f"`{name}" not in section(text, "duebox.embedded.Embedded")] == []


FUNCTIONS = (
    duebox.emit, duebox.emit_many, duebox.on, duebox.schedule, duebox.reschedule, duebox.cancel, duebox.pause,
    duebox.resume, duebox.restore, duebox.upcoming, duebox.upcoming_of, duebox.upcoming_schedules, duebox.periodic,
    duebox.atomically, duebox.audit, testing.drain, testing.assert_emitted, testing.travel,
)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_parameter_of_the_public_functions_is_explained(function):
    room = "duebox.testing" if function.__name__ in testing.__all__ else "duebox"
    text = section(reference("api"), f"{room}.{function.__name__}")
    names = [name for name in inspect.signature(function).parameters if not name.startswith("_")]
    assert [name for name in names if f"`{name}`" not in text] == []


CLASSES = {
    "duebox.Plan": duebox.Plan,
    "duebox.Sweep": sweeps.Sweep,
    "duebox.testing.Outbox": testing.Outbox,
    "duebox.testing.Traveller": testing.Traveller,
}


@pytest.mark.parametrize("path", CLASSES)
def test_everything_that_a_public_class_offers_is_explained(path):
    text = section(reference("api"), path)
    inner = {"aggregate_type", "draft", "wanted"}  # asked by the engine
    names = {*vars(CLASSES[path]), *inspect.get_annotations(CLASSES[path])}
    offered = {name for name in names if not name.startswith("_")}
    assert [name for name in sorted(offered - inner) if f"`{name}" not in text] == []


@pytest.mark.parametrize("name", when.__all__)
def test_every_name_of_the_rules_of_time_is_explained(name):
    assert re.search(rf"`{name}\b", reference("when"))


RULES = (when.once, when.daily, when.weekly, when.monthly, when.anniversary, when.every, when.cron, when.rrule)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_is_explained_with_its_parameters(rule):
    [line] = [line for line in reference("when").splitlines() if line.startswith(f"| `{rule.__name__}(")]
    call = line.split("`")[1]
    assert [name for name in inspect.signature(rule).parameters if not re.search(rf"\b{name}\b", call)] == []


def test_every_field_of_a_timetable_is_explained_with_its_default():
    text = section(reference("when"), "Timetable")
    for field in dataclasses.fields(when.Timetable):
        assert f"| `{field.name}` |" in text
        if isinstance(field.default, str):
            assert f'| `"{field.default}"` |' in text


@pytest.mark.parametrize("policy", [when.Gap, when.Fold, when.Leap, when.Closed, when.Late, when.CatchUpMode])
def test_every_policy_is_explained_with_all_its_values(policy):
    [line] = [line for line in reference("when").splitlines() if line.startswith(f"| `{policy.__name__}` | ")]
    assert [value for value in policy if f"`{value}`" not in line] == []


def test_every_signal_is_explained():
    names = [name for name, thing in vars(signals).items() if type(thing).__name__ == "Signal" and name != "Signal"]
    assert names
    for name in names:
        assert section(reference("signals"), name).strip()


def test_every_error_about_a_time_is_explained():
    tree = [name for name, thing in vars(when).items() if isinstance(thing, type) and issubclass(thing, when.WhenError)]
    assert [name for name in tree if f"| `{name}` |" not in reference("when")] == []


def test_every_error_is_explained():
    tree = [
        name
        for name, thing in vars(exceptions).items()
        if isinstance(thing, type) and issubclass(thing, exceptions.DueboxError)
    ]
    assert [name for name in tree if f"`{name}`" not in reference("errors")] == []


def test_every_log_line_is_explained():
    said = []
    for file in (ROOT / "src" / "duebox").rglob("*.py"):
        calls = re.findall(r'logger\.(?:log|\w+)\(\s*(?:level,\s*)?"([^"]+)"', file.read_text())
        said += [re.split(r"[%:;,]", message)[0].strip() for message in calls]
    assert len(said) > 10
    assert [words for words in said if words not in reference("logs")] == []


def told(page: Path) -> list[tuple[str, set[str]]]:
    """The commands of Duebox that a page names, in its prose or to be typed, each with its options."""
    text = page.read_text().replace("\\\n", " ")
    lines = [*re.findall(r"`(?:(?:python )?manage\.py |python -m )?duebox (\w[^`\n]*)`", text)]
    lines += re.findall(r"(?:manage\.py|python -m) duebox (\w[^`\n]*)", text)
    return [(line, set(re.findall(r"(?<=\s)--[\w-]+", line))) for line in lines]


def named(line: str) -> str:
    """The command that a line begins with, or what stands in its place."""
    words = re.match(r"\w*(?: [\w-]+)?", line)[0].split()
    return " ".join(words) if " ".join(words) in COMMANDS else words[0]


# The changelog says what commands were called before.
PAGES = [page for page in pages() if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_a_page_names_exists_with_its_options(page):
    wrong = []
    for line, options in told(page):
        name = named(line)
        if name not in {*COMMANDS, *GROUPS} or options - known_options(name):
            wrong.append(line)
    assert wrong == []


def known_options(name: str) -> set[str]:
    """Of a command, or of all in a group."""
    commands = [COMMANDS[name]] if name in COMMANDS else list(GROUPS[name].verbs.values())
    found = set()
    for command in commands:
        for verb in command.verbs.values() if isinstance(command, Group) else [command]:
            parser = CommandParser(prog=name)
            verb.add_options(parser)
            found |= options_of(parser)
    return found | {"--settings", "--verbosity", "--help"}
