"""What a good name for an event is: `{aggregate}.{action}` in the past tense, lower snake case.

A refusal comes with the better name. `named_as_is=True` at the declaration turns the grammar off, never the spelling.
"""

from __future__ import annotations

import re

from duebox.exceptions import InvalidContract

_SPELLING = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_RESERVED = ("duebox", "public")
# Says that something happened and not what: whoever receives it has to go and look.
_VAGUE = frozenset({"changed", "modified", "processed", "handled", "happened", "touched", "managed", "done", "edited"})
_STATES = frozenset({"due", "overdue", "came", "became"})  # a moment that has come is a fact too
_VERBS = """
arise:arisen become:became begin:begun bind:bound break:broken bring:brought build:built buy:bought
catch:caught choose:chosen come:came cut:cut deal:dealt do:done draw:drawn drive:driven fall:fallen feed:fed
feel:felt find:found forget:forgotten freeze:frozen get:got give:given go:gone grow:grown hear:heard
hide:hidden hit:hit hold:held hurt:hurt keep:kept know:known lay:laid lead:led leave:left lend:lent let:let
lose:lost make:made meet:met override:overridden overrun:overrun pay:paid put:put quit:quit read:read
rebuild:rebuilt repay:repaid reset:reset resend:resent rewrite:rewritten ride:ridden ring:rung rise:risen
run:run say:said see:seen sell:sold send:sent set:set shake:shaken show:shown shut:shut sing:sung sink:sunk
speak:spoken spend:spent split:split spread:spread stand:stood steal:stolen stick:stuck strike:struck
swear:sworn sweep:swept take:taken teach:taught tear:torn tell:told think:thought throw:thrown
understand:understood undo:undone upset:upset wake:woken wear:worn win:won withdraw:withdrawn write:written
"""
_IRREGULAR = dict(pair.split(":") for pair in _VERBS.split())
_PAST = frozenset(_IRREGULAR.values()) | _STATES
_NOT_PAST = frozenset(
    {"bleed", "breed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
)
_DOUBLES = frozenset(
    {"ban", "commit", "defer", "drop", "flag", "log", "omit", "permit", "pin", "plan", "refer", "scan", "ship", "skip"}
    | {"stop", "submit", "swap", "tag", "transfer", "trim", "wrap"}
)


def refuse_bad_name(name: str, *, as_is: bool = False) -> None:
    """Raise `InvalidContract` with a better name, unless the name is good."""
    if not _SPELLING.fullmatch(name) or len(name) > 200:
        raise InvalidContract(
            f"Event type {name!r} is not lower snake case with a dot; name it {{aggregate}}.{{action}}{_like(name)}."
        )
    first, *_, action = name.split(".")
    if first in _RESERVED:
        raise InvalidContract(
            f"Event type {name!r} begins with {first!r}, which Duebox keeps for itself; leave it out"
            + (", and declare what others may see with public={...}." if first == "public" else ".")
        )
    if not as_is:
        _refuse_grammar(name, action)


def _refuse_grammar(name: str, action: str) -> None:
    words = action.split("_")
    if action in _VAGUE:
        raise InvalidContract(
            f"Event type {name!r} does not say what happened; name the fact, as in "
            f"{name.rpartition('.')[0]}.email_changed, or pass named_as_is=True."
        )
    if not any(_is_past(word) for word in words):
        raise InvalidContract(
            f"Event type {name!r} is not in the past tense, and an event is a fact, not a command; "
            f"call it {_in_past(name, words)!r}, or pass named_as_is=True if that is wrong."
        )


def _is_past(word: str) -> bool:
    return word in _PAST or (word.endswith("ed") and len(word) > 3 and word not in _NOT_PAST)


def _in_past(name: str, words: list[str]) -> str:
    """`member.invite` → `member.invited`, `email.send_receipt` → `email.receipt_sent`."""
    aggregate = name.rpartition(".")[0]
    verb, *object = words
    return f"{aggregate}.{'_'.join([*object, past_of(verb)])}"


def past_of(verb: str) -> str:
    """The past participle of a verb in any of its forms, as well as a few rules can tell."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("ing") and len(verb) > 5:
        return past_of(verb.removesuffix("ing"))
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in _DOUBLES else "") + "ed"


def _like(name: str) -> str:
    """The same words as they should be written, where words can be found."""
    name = name.strip()
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    if len(words) < 2:
        return ", such as 'member.invited'"
    parts = [word.lower() for word in words]
    dotted = re.sub(r"[^A-Za-z0-9.]", "_", name)
    if "." in name and _SPELLING.fullmatch(near := re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", dotted).lower()):
        return f", such as {near!r}"
    return f", such as '{'_'.join(parts[:-1])}.{parts[-1]}'"
