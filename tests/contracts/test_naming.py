from __future__ import annotations

import pytest

from duebox.contracts.naming import past_of, refuse_bad_name
from duebox.exceptions import InvalidContract

CATALOGUE = [
    "organization.created", "member.invited", "member.joined", "member.removed", "member.role_changed",
    "subscription.activated", "subscription.updated", "subscription.canceled", "user.phone_changed",
    "organization.billing_updated", "invoice.paid", "mail.sent", "task.due", "order.line.added", "door.left_open",
]  # fmt: skip


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_fact_in_the_past_tense_is_a_good_name(name):
    refuse_bad_name(name)


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("member.invite", "member.invited"),
        ("order.creating", "order.created"),
        ("email.send_receipt", "email.receipt_sent"),
        ("invoice.pay", "invoice.paid"),
        ("order.copy", "order.copied"),
        ("form.submit", "form.submitted"),
        ("parcel.need", "parcel.needed"),
    ],
)
def test_a_command_is_refused_with_the_fact_it_leads_to(name, better):
    with pytest.raises(InvalidContract, match=rf"not in the past tense.*call it '{better}'"):
        refuse_bad_name(name)


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("MemberInvited", "member.invited"),
        ("MEMBER.INVITED", "member.invited"),
        ("member-invited", "member.invited"),
        ("Order.lineAdded", "order.line_added"),
        ("member invited", "member.invited"),
        ("member", "member.invited"),
        ("member..invited", "member.invited"),
        ("member.invited\n", "member.invited"),
        ("", "member.invited"),
    ],
)
def test_another_spelling_is_refused_with_the_right_one(name, better):
    with pytest.raises(InvalidContract, match=rf"not lower snake case.*'{better}'"):
        refuse_bad_name(name)


@pytest.mark.parametrize("name", ["user.changed", "order.processed", "user.modified", "thing.happened"])
def test_a_vague_verb_is_refused(name):
    with pytest.raises(InvalidContract, match="does not say what happened"):
        refuse_bad_name(name)


@pytest.mark.parametrize("name", ["public.member.invited", "duebox.thing.happened"])
def test_names_that_duebox_keeps_for_itself_are_refused_even_as_they_are(name):
    with pytest.raises(InvalidContract, match="keeps for itself"):
        refuse_bad_name(name, as_is=True)


def test_grammar_can_be_turned_off_and_spelling_cannot():
    refuse_bad_name("member.invite", as_is=True)
    refuse_bad_name("user.changed", as_is=True)
    with pytest.raises(InvalidContract):
        refuse_bad_name("MemberInvite", as_is=True)


def test_participles():
    verbs = ["send", "cancel", "plan", "apply", "play", "close", "ship", "withdraw", "sending"]
    assert [past_of(verb) for verb in verbs] == [
        "sent", "canceled", "planned", "applied", "played", "closed", "shipped", "withdrawn", "sent",
    ]  # fmt: skip
