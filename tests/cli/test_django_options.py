"""The options that every command of Django has may stand anywhere, as they may for Django's own commands."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from duebox.management.commands.duebox import GROUPS, RUNNING, Command

GIVEN = ["--settings", "tests.settings", "--pythonpath", ".", "-v", "2", "--traceback", "--no-color", "--skip-checks"]
READ = {
    "settings": "tests.settings", "pythonpath": ".", "verbosity": 2, "traceback": True, "no_color": True,
    "force_color": False, "skip_checks": True,
}  # fmt: skip


def parsed(*words):
    options = vars(Command().create_parser("manage.py", "duebox").parse_args(words))
    return {name: options[name] for name in READ}


def every_way(parser, words=()):
    """All verbs, with those below them."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield words, parser
    for action in below:
        for name, each in action.choices.items():
            yield from every_way(each, (*words, name))


WAYS = dict(every_way(Command().create_parser("manage.py", "duebox")))


def test_there_are_verbs_below_verbs():
    assert {words[0] for words in WAYS} == {*RUNNING, *GROUPS}
    assert ("schemas", "write") in WAYS


@pytest.mark.parametrize("words", WAYS, ids=" ".join)
def test_each_verb_takes_them(words):
    known = WAYS[words]._option_string_actions
    named = {"--settings", "--pythonpath", "-v", "--traceback", "--no-color", "--force-color", "--skip-checks"}
    assert named <= {*known}


@pytest.mark.parametrize("words", [("once",), ("schemas", "write"), ("events", "replay", "resend", "7", "--to", "bus")])
def test_they_mean_the_same_before_the_verb_and_after_it(words):
    assert parsed(*GIVEN, *words) == parsed(*words, *GIVEN) == READ
    assert parsed("-v", "2", *words)["verbosity"] == 2


def test_what_is_not_given_is_as_django_has_it():
    assert parsed("once") == {
        "settings": None, "pythonpath": None, "verbosity": 1, "traceback": False, "no_color": False,
        "force_color": False, "skip_checks": False,
    }  # fmt: skip


def test_a_verb_that_has_an_option_of_that_name_keeps_its_own():
    options = Command().create_parser("manage.py", "duebox").parse_args(["schemas", "code", "a.b", "--version", "3"])
    assert options.event_version == 3


def test_the_help_of_a_verb_is_about_the_verb():
    text = WAYS["once",].format_help()
    assert "--json" in text
    assert "--pythonpath" not in text


@pytest.mark.django_db(transaction=True)
def test_code_can_pass_them_too(capsys):
    call_command("duebox", "once", "--skip-checks", "--json", verbosity=0)
    assert '"delivered": 0' in capsys.readouterr().out


def test_what_is_no_option_is_still_refused():
    with pytest.raises(CommandError, match="unrecognized arguments: --setting"):
        call_command("duebox", "once", "--setting", "x")


def test_settings_that_are_named_after_the_verb_are_used():
    words = [sys.executable, "tests/manage.py", "duebox", "events", "routes", "a.b", "--settings", "tests.of_nobody"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={"PYTHONPATH": "src:."})
    assert "No module named 'tests.of_nobody'" in done.stderr
