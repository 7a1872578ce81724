"""Commands below commands, as in `duebox deliveries list`: their parsers, their help, and what was probably meant."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandParser

Options = dict[str, Any]


class Verb(NamedTuple):
    """Something that a command does. The docstring of `run` is its help."""

    run: Callable[[BaseCommand, Options], None]
    add_options: Callable[[CommandParser], None] = lambda parser: None

    @property
    def help(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


class Group(NamedTuple):
    """Verbs about one thing."""

    title: str
    help: str
    verbs: Mapping[str, Verb | Group]


def add_verbs(parser: CommandParser, verbs: Mapping[str, Verb | Group], *, dest: str, listed: bool = True) -> None:
    """A parser for each verb; the one that was chosen is found as `options["run"]`."""
    told: Any = {"metavar": "|".join(verbs)} if listed else {"metavar": "COMMAND", "help": argparse.SUPPRESS}
    below = parser.add_subparsers(dest=dest, required=True, prog=parser.prog, **told)
    for name, verb in verbs.items():
        told = {"help": summary(verb)} if listed else {}
        # No abbreviations: the supervisor must recognise --processes to leave it out for its children.
        each = below.add_parser(name, **told, description=verb.help, allow_abbrev=False)
        if isinstance(verb, Group):
            add_verbs(each, verb.verbs, dest=f"{dest}_below")
        else:
            each.set_defaults(run=verb.run)
            verb.add_options(each)
    below.choices = _Known(below.choices, verbs)


def summary(verb: Verb | Group) -> str:
    """The first sentence of its help."""
    first, dot, _ = verb.help.partition(". ")
    return first + "." if dot else verb.help


def overview(running: Mapping[str, Verb], groups: Mapping[str, Group]) -> str:
    """All commands, one a line."""
    sections: dict[str, Mapping[str, Verb | Group]] = {"Run": running}
    for name, group in groups.items():
        sections[group.title] = {f"{name} {verb}": each for verb, each in group.verbs.items()}
    width = max(len(name) for verbs in sections.values() for name in verbs)
    return "\n\n".join(
        "\n".join([title, *(f"  {name:<{width}}  {summary(each)}" for name, each in verbs.items())])
        for title, verbs in sections.items()
    )


class _Known(dict[str, Any]):
    """Verbs by name. argparse asks whether a word is one of them; one that is not is answered with what is like it."""

    def __init__(self, parsers: Mapping[str, Any], verbs: Mapping[str, Verb | Group]) -> None:
        super().__init__(parsers)
        self._verbs = verbs

    def __contains__(self, word: object) -> bool:
        if super().__contains__(word):
            return True
        below = [
            f"{name} {word}" for name, each in self._verbs.items() if isinstance(each, Group) and word in each.verbs
        ]
        near = below or get_close_matches(str(word), self, n=1)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are: {', '.join(self)}."
        raise argparse.ArgumentError(None, f"There is no command {word!r}; {hint}")
