"""Names of events: `{aggregate}.{action}`, in lower snake case and in the past tense.

System checks verify spelling and grammar, and propose a better name for known verbs. An event whose name has another
spelling cannot be emitted. One with another grammar can; `check_name=False` turns that check off for a type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from duebox.exceptions import InvalidContract

_SPELLING = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_LONGEST = 200
_RESERVED = ("duebox", "periodic", "public")
# These do not describe what happened, so a receiver would have to query for it.
_VAGUE = frozenset({"changed", "modified", "processed", "handled", "happened", "touched", "managed", "done", "edited"})
_STORAGE = frozenset({"database", "db", "orm", "sql", "table"})
_STATES = frozenset({"due", "overdue", "came", "became"})  # a time that has come is a fact too
_IRREGULAR_VERBS = """
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
    checkin:checked_in checkout:checked_out login:logged_in logon:logged_on logout:logged_out rollback:rolled_back
    signin:signed_in signout:signed_out signup:signed_up timeout:timed_out
"""
# Without verbs that are as often nouns ("report", "order", "plan"): what they mean in a name is not clear.
_REGULAR_VERBS = """
    abandon abort accept achieve acknowledge acquire activate add adjust agree allocate allow amend anonymize
    answer append apply appoint approve archive arrive ask assign attach attempt attend authenticate authorize ban
    block book bounce calculate call cancel capture change charge check claim clean clear click clone close
    collect commit compare complete compute configure confirm connect consume convert copy correct create
    deactivate decline decrease deduct defer define delay delete deliver deny deploy deposit destroy detach detect
    disable discard disconnect dismiss dispatch dispute distribute donate downgrade download drop duplicate earn
    elapse empty enable end enforce enrol enroll enter escalate exceed exchange execute exhaust expire export
    extend fail fetch fill finish fix flag follow forward fulfil fulfill generate grant hire ignore import improve
    increase inform initialize insert inspect install invalidate invite invoke issue join launch like load lock
    log mark match measure mention merge migrate miss modify move mute need notify observe obtain offer omit open
    pack park pass pause permit persist pick pin place play postpone prepare print process produce promote propose
    provide provision publish pull purchase purge push raise reach react reactivate reassign reauthorize receive
    recommend reconcile recover redeem reduce refer refill refresh refund refuse register reinstate reject release
    remind remove rename renew reopen reorder repair replace replicate reply request require reschedule reserve
    resolve respond restart restock restore restrict resume retire retrieve retry return reverse revert review
    revise revoke rotate save scan schedule seal search select share ship sign skip sort start stop store submit
    subscribe succeed suggest suspend swap switch sync tag terminate toggle track transfer transform translate
    transmit trash trigger trim turn unarchive unassign unblock uncancel unfollow uninstall unlink unlock unmute
    unpause unpublish unsubscribe unsuspend update upgrade upload upsert use validate verify view visit void vote
    waive warn watch wrap
"""
_IRREGULAR = dict(pair.split(":") for pair in _IRREGULAR_VERBS.split())
_REGULAR = frozenset(_REGULAR_VERBS.split())
_NOT_PAST = frozenset(
    {"bleed", "breed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
)
_DOUBLES = frozenset(
    {"ban", "commit", "defer", "drop", "enrol", "flag", "fulfil", "log", "omit", "permit", "pin", "refer"}
    | {"scan", "ship", "skip", "stop", "submit", "swap", "tag", "transfer", "transmit", "trim", "wrap"}
)
_PAST = frozenset(word for past in _IRREGULAR.values() for word in past.split("_")[:1]) | _STATES


def refuse_spelling(name: str) -> None:
    """Raise `InvalidContract` for a name that cannot be stored or is reserved, with the right spelling if known."""
    if text := misspelling_text(name):
        raise InvalidContract(text)
    refuse_reserved(name)


def refuse_reserved(name: str) -> None:
    """Raise `InvalidContract` for a name with a prefix of Duebox's own events."""
    first = name.partition(".")[0]
    if first in _RESERVED:
        raise InvalidContract(
            f"Event type {name!r} begins with {first!r}, which is reserved for Duebox; leave it out"
            + (", and declare the public fields with public={...}." if first == "public" else ".")
        )


def misspelling(name: str) -> tuple[str, str] | None:
    """The problem with the spelling of a name, and the repair; None for a name that can be stored."""
    if not isinstance(name, str) or not _SPELLING.fullmatch(name):
        better = _respelled(str(name)) or "member.invited"
        return "is not lower snake case with a dot", f"name it {{aggregate}}.{{action}}, such as {better!r}."
    if len(name) > _LONGEST:
        return f"has {len(name)} characters", f"use {_LONGEST} at most."
    return None


def misspelling_text(name: str) -> str:
    """The same in one sentence; empty for a name that can be stored."""
    wrong = misspelling(name)
    return f"Event type {name!r} {wrong[0]}; {wrong[1]}" if wrong else ""


def complaint(name: str) -> tuple[str, str] | None:
    """The problem with the grammar of a name, and the repair; None for a good one."""
    aggregate, _, action = name.rpartition(".")
    if aggregate in _STORAGE:
        return "names where it is stored, not what happened", "Name the fact, as in 'time_entry.created'."
    if action in _VAGUE:
        return "does not say what happened", "Name what changed, as in 'member.role_changed'."
    if any(_is_past(word) for word in action.split("_")):
        return None
    better = _first_good([_in_past(name)])
    hint = f"Call it {better!r}." if better else "Name the fact in the past tense, as in 'member.invited'."
    return "is not in the past tense; an event is a fact, not a command", hint


def _is_past(word: str) -> bool:
    return word in _PAST or (word.endswith("ed") and len(word) > 3 and word not in _NOT_PAST)


def _in_past(name: str) -> str:
    """`member.invite` → `member.invited`, `email.send_receipt` → `email.receipt_sent`; empty for unknown verbs."""
    aggregate, _, action = name.rpartition(".")
    others, past = _verb_in(action.split("_"))
    return f"{aggregate}.{'_'.join([*others, past])}" if past else ""


def _respelled(name: str) -> str:
    """`MemberInvited` → `member.invited`, `update_time_entry` → `time_entry.updated`; empty where that is unclear."""
    found = [re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", part) for part in name.split(".")]
    parts = [[word.lower() for word in part] for part in found if part]
    if len(parts) > 1:
        near = ".".join("_".join(part) for part in parts)
        return _first_good([near, _in_past(near)])
    if not parts or len(parts[0]) < 2:
        return ""
    *rest, last = parts[0]
    others, past = _verb_in(parts[0])
    return _first_good([f"{'_'.join(rest)}.{last}" if _is_past(last) else "", f"{'_'.join(others)}.{past}"])


def _verb_in(words: list[str]) -> tuple[list[str], str]:
    """The other words and the verb in the past tense, when the verb is first or last; empty if both may be the verb."""
    first, last = past_of(words[0]), past_of(words[-1])
    if len(words) == 1:
        return [], first
    if first and last:
        return [], ""
    return (words[1:], first) if first else (words[:-1], last)


def _first_good(names: list[str]) -> str:
    """The first of these names without a problem."""
    for name in names:
        is_valid = _SPELLING.fullmatch(name) and len(name) <= _LONGEST and name.partition(".")[0] not in _RESERVED
        if is_valid and not complaint(name):
            return name
    return ""


def past_of(word: str) -> str:
    """The past participle of a known verb in any of its forms; empty for any other word."""
    verb = next((each for each in _infinitives(word) if each in _IRREGULAR or each in _REGULAR), "")
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return verb and verb + (verb[-1] if verb in _DOUBLES else "") + "ed"


def _infinitives(word: str) -> Iterator[str]:
    """`invites`, `inviting`, `shipping`: the verbs that the form may be of."""
    yield word
    if word.endswith("s"):
        yield from (word[:-1], word.removesuffix("es"), word.removesuffix("ies") + "y")
    if word.endswith("ing"):
        stem = word.removesuffix("ing")
        yield from (stem, stem + "e", stem[:-1])
