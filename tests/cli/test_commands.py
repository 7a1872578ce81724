"""The commands as a whole: their help, what was probably meant, and a reader that goes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.core.management.base import CommandError
from django.db import connections

import duebox
from duebox.cli.output import Group
from duebox.management.commands.duebox import GROUPS, RUNNING, Command
from tests.cli.conftest import MANAGE


def help_of(*words):
    parser = Command().create_parser("manage.py", "duebox")
    for word in words:
        [below] = [action for action in parser._actions if action.choices and word in {*action.choices}]
        parser = below.choices[word]
    return parser.format_help()


def test_the_help_has_one_line_for_each_command_and_a_heading_for_each_group():
    lines = help_of().splitlines()
    assert lines[0] == "usage: manage.py duebox COMMAND ..."
    names = [*RUNNING, *(f"{name} {verb}" for name, group in GROUPS.items() for verb in group.verbs)]
    listed = [line.strip().partition("  ")[0] for line in lines if line.startswith("  ") and "--help" not in line]
    assert listed == names
    assert {group.title for group in GROUPS.values()} <= {*lines}
    assert max(map(len, lines)) <= 120


def test_the_help_of_a_group_lists_its_verbs():
    text = help_of("deliveries")
    assert text.startswith("usage: manage.py duebox deliveries [-h]")
    assert "retry               Make deliveries due now" in text


LISTINGS = [
    (name, verb)
    for name, group in GROUPS.items()
    for verb, each in group.verbs.items()
    if not isinstance(each, Group) and each.help.startswith(("List", "Show"))
]


@pytest.mark.parametrize("words", [*LISTINGS, ("status",), ("health",), ("preview",), ("plan",)], ids=" ".join)
def test_every_listing_can_be_printed_as_json(words):
    assert "--json" in help_of(*words)


def test_there_are_listings():
    assert {("deliveries", "list"), ("schedules", "list"), ("endpoints", "show")} <= {*LISTINGS}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["deliverys", "list"], "There is no command 'deliverys'; did you mean 'deliveries'?"),
        (["deliveries", "lst"], "There is no command 'lst'; did you mean 'list'?"),
        (["events", "replay", "resent"], "There is no command 'resent'; did you mean 'resend'?"),
        (["retry"], "There is no command 'retry'; did you mean 'deliveries retry'?"),
        (["pause", "bus"], "There is no command 'pause'; did you mean 'schedules pause' or 'destinations pause'?"),
        (["deliveries", "xyz"], "There is no command 'xyz'; there are: list, show, groups, retry"),
        ([], "Name a command; `manage.py duebox --help` lists them."),
    ],
)
def test_a_command_that_is_not_there_is_answered_with_what_may_be_meant(manage, words, said):
    with pytest.raises(CommandError) as caught:
        manage("duebox", *words)
    assert str(caught.value).removeprefix("Error: ").startswith(said)


# A reader that goes away


def piped(*words, reader):
    """Runs `manage.py ... | reader` in a shell that tells the exit code of the first."""
    name = connections["default"].settings_dict["NAME"]
    command = f'{sys.executable} {MANAGE} {" ".join(words)} | {reader}; echo "code ${{PIPESTATUS[0]}}"'
    return subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "DUEBOX_TEST_NAME": name},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("words", [["deliveries", "list", "--limit", "2000"], ["deliveries", "list", "--json"]])
def test_a_reader_that_goes_away_gets_no_traceback(on, words):
    on("a.came", name="it")(lambda event: None)
    duebox.emit_many(
        duebox.NewEvent(type="a.came", data={"text": "x" * 3000}) for _ in range(2000)
    )  # more than a pipe holds
    done = piped("duebox", *words, "--limit", "2000", reader="head -1")
    assert done.stderr == ""
    assert done.stdout.endswith("code 141\n")
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("words", [["duebox", "--help"], ["duebox", "status", "--json"], ["publish_events", "--once"]])
def test_a_reader_that_is_gone_before_anything_is_written_gets_no_traceback(words):
    done = piped(*words, reader="exec 0<&-; sleep 0.1")
    assert "Traceback" not in done.stderr
    assert "BrokenPipeError" not in done.stderr


@pytest.mark.django_db(transaction=True)
def test_a_reader_that_stays_gets_everything():
    done = piped("duebox", "status", "--json", reader="cat")
    told, code = done.stdout.splitlines()
    assert json.loads(told)["due"] == 0
    assert code == "code 0"
