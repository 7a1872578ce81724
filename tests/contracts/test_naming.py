from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

import duebox
from duebox.checks import check_event_names, check_event_spelling
from duebox.contracts import declared
from duebox.contracts.naming import complaint, past_of, refuse_spelling
from duebox.events.subscribers import receivers_of
from duebox.exceptions import InvalidContract, InvalidEvent
from duebox.testing import assert_emitted
from tests.app import planned as plans
from tests.app.people import Person

CATALOGUE = [
    "organization.created", "member.invited", "member.joined", "member.removed", "member.role_changed",
    "subscription.activated", "subscription.updated", "subscription.canceled", "user.phone_changed",
    "organization.billing_updated", "invoice.paid", "mail.sent", "task.due", "order.line.added", "door.left_open",
    "time_entry.description_updated", "user.phone_number_changed", "workspace.member_invited", "user.logged_in",
    "contact.upserted",
]  # fmt: skip


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_fact_in_the_past_tense_is_a_good_name(name):
    refuse_spelling(name)
    assert complaint(name) is None


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("member.invite", "member.invited"),
        ("member.invites", "member.invited"),
        ("order.creating", "order.created"),
        ("order.shipping", "order.shipped"),
        ("email.send_receipt", "email.receipt_sent"),
        ("member.role_change", "member.role_changed"),
        ("invoice.pay", "invoice.paid"),
        ("order.copy", "order.copied"),
        ("form.submit", "form.submitted"),
        ("parcel.need", "parcel.needed"),
        ("user.login", "user.logged_in"),
        ("user.signup", "user.signed_up"),
        ("cart.timeout", "cart.timed_out"),
    ],
)
def test_a_command_is_told_with_the_fact_it_leads_to(name, better):
    what, hint = complaint(name)
    assert what == "is not in the past tense; an event is a fact, not a command"
    assert hint == f"Call it {better!r}."


@pytest.mark.parametrize(
    "name",
    ["report.nightly", "stock.low", "payment.success", "order.shipment", "appointment.reminder", "digest.daily",
     "order.process_start", "order.processing", "blog.post", "subscription.plan"],
)  # fmt: skip
def test_nothing_is_made_up_from_words_that_are_no_known_verbs(name):
    assert complaint(name)[1] == "Name the fact in the past tense, as in 'member.invited'."


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("update_time_entry", "time_entry.updated"),
        ("TIME_ENTRY_CREATED", "time_entry.created"),
        ("MemberInvited", "member.invited"),
        ("SendEmail", "email.sent"),
        ("MEMBER.INVITED", "member.invited"),
        ("member-invited", "member.invited"),
        ("Order.lineAdded", "order.line_added"),
        ("Order.Ship", "order.shipped"),
        ("member invited", "member.invited"),
        ("member", "member.invited"),
        ("nightlyReport", "member.invited"),
        ("member..invited", "member.invited"),
        ("member.invited\n", "member.invited"),
        ("", "member.invited"),
    ],
)
def test_another_spelling_is_refused_with_the_right_one(name, better):
    with pytest.raises(InvalidContract, match=rf"not lower snake case.*such as '{re.escape(better)}'"):
        refuse_spelling(name)


WORDS = st.sampled_from(
    ["update", "time", "entry", "Member", "INVITED", "ship", "report", "login", "public", "db", "é"]
)


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from(["_", ".", "-", "", " "]))
def test_whatever_is_proposed_is_a_name_that_passes(words, between):
    name = between.join(words)
    try:
        refuse_spelling(name)
        told = (complaint(name) or ("", ""))[1]
    except InvalidContract as error:
        told = str(error)
    for proposed in re.findall(r"(?:Call it|such as) '(.*?)'", told):
        refuse_spelling(proposed)
        assert complaint(proposed) is None


@pytest.mark.parametrize("name", ["user.changed", "order.processed", "user.modified", "thing.happened"])
def test_a_vague_verb_is_told(name):
    assert complaint(name) == ("does not say what happened", "Name what changed, as in 'member.role_changed'.")


def test_the_place_where_it_is_stored_is_no_business_of_readers():
    assert complaint("db.write")[0] == "names where it is stored, not what happened"


@pytest.mark.parametrize("name", ["public.member.invited", "duebox.thing.happened"])
def test_names_that_duebox_keeps_for_itself_are_refused(name):
    with pytest.raises(InvalidContract, match="is reserved for Duebox"):
        refuse_spelling(name)


def test_participles():
    verbs = ["send", "cancel", "apply", "play", "close", "ship", "withdraw", "sending", "transmit", "blorp"]
    assert [past_of(verb) for verb in verbs] == [
        "sent", "canceled", "applied", "played", "closed", "shipped", "withdrawn", "sent", "transmitted", "",
    ]  # fmt: skip


@pytest.mark.django_db
def test_a_badly_named_event_can_be_declared_and_emitted(declare: Any):
    @declare("report.nightly")
    class Nightly:
        pages: int

    duebox.emit(Nightly(pages=3))
    assert_emitted("report.nightly", data={"pages": 3})


def test_the_check_tells_of_it_once_with_the_way_out(declare: Any):
    for version in (1, 2):
        declare("member.invite", version=version, public={"role"})(
            type("Invite", (), {"__annotations__": {"role": str}})
        )
    [found] = check_event_names(None)
    assert (found.id, found.level) == ("duebox.E040", 40)
    assert found.msg == (
        "Event type 'member.invite' is not in the past tense; an event is a fact, not a command (declared in "
        "tests.contracts.test_naming.Invite)."
    )
    assert found.hint == ("Call it 'member.invited'. If the name is right, declare it with check_name=False.")


def test_it_fails_the_check_command_and_can_be_silenced(declare: Any, settings: Any):
    declare("member.invite")(type("Invite", (), {"__annotations__": {"role": str}}))
    with pytest.raises(SystemCheckError, match=r"duebox\.E040"):
        call_command("check", "duebox")
    settings.SILENCED_SYSTEM_CHECKS = ["duebox.E040"]
    call_command("check", "duebox")


def test_one_event_can_be_left_out_of_the_check(declare: Any):
    declare("member.invite", check_name=False)(type("Invite", (), {"__annotations__": {"role": str}}))
    assert check_event_names(None) == []


# Spelling


MISSPELT = [
    ("update_time_entry", "time_entry.updated"), ("OrderPaid", "order.paid"), ("order-paid", "order.paid"),
    ("1order.paid", "member.invited"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "better"), MISSPELT)
def test_a_misspelt_event_is_a_system_check_and_no_import_error(declare: Any, name: str, better: str):
    declare(name, check_name=False, public={"number"})(type("Paid", (), {"__annotations__": {"number": str}}))
    [found] = check_event_spelling(None)
    assert (found.id, found.level) == ("duebox.E044", 40)
    assert found.msg == (
        f"Event type {name!r} is not lower snake case with a dot (declared in tests.contracts.test_naming.Paid)."
    )
    assert found.hint == f"Name it {{aggregate}}.{{action}}, such as {better!r}. Until then it cannot be emitted."
    assert check_event_names(None) == []
    with pytest.raises(SystemCheckError, match=r"duebox\.E044"):
        call_command("check", "duebox")
    assert name not in {kind.name for kind in declared()}


@pytest.mark.django_db
@pytest.mark.parametrize("unknown", ["refuse", "allow"])
@pytest.mark.parametrize(("name", "better"), MISSPELT)
def test_a_misspelt_event_is_refused_when_it_is_emitted(declare: Any, settings: Any, name: str, better: str, unknown):
    settings.DUEBOX = {**settings.DUEBOX, "UNDECLARED": unknown}
    paid = declare(name)(type("Paid", (), {"__annotations__": {"number": str}}))
    message = (
        f"Event type {name!r} is not lower snake case with a dot; name it {{aggregate}}.{{action}}, such as {better!r}."
    )
    later = timezone.now() + timedelta(days=1)
    for emit in (
        lambda: duebox.emit(paid(number="7")),
        lambda: duebox.emit(name, {"number": "7"}),
        lambda: duebox.schedule(paid(number="7"), at=later),
        lambda: duebox.schedule(name, {"number": "7"}, at=later),
    ):
        with pytest.raises(InvalidEvent) as raised:
            emit()
        assert str(raised.value) == message


@pytest.mark.django_db
def test_a_handler_of_a_misspelt_event_class_is_no_import_error(declare: Any, on: Any, settings: Any):
    settings.DUEBOX = {**settings.DUEBOX, "UNDECLARED": "refuse"}
    everything = declare("*")(type("Everything", (), {"__annotations__": {"number": str}}))
    on(everything, name="it")(lambda event, data: None)
    assert receivers_of("order.paid") == ()
    assert [each.id for each in run_checks(tags=["duebox"], databases=[]) if "'*'" in each.msg] == ["duebox.E044"]


@pytest.mark.usefixtures("forget_plans")
def test_a_plan_with_a_misspelt_event_is_a_system_check_and_no_import_error():
    plans.declare(plans.Birthdays, event="PersonBirthday")
    [found] = check_event_spelling(None)
    assert found.msg == "Plan 'app.Birthdays' emits 'PersonBirthday', which is not lower snake case with a dot."
    assert found.id == "duebox.E044"


@pytest.mark.django_db
@pytest.mark.usefixtures("forget_plans")
def test_a_row_whose_plan_has_a_misspelt_event_is_refused_when_it_is_saved():
    plans.declare(plans.Birthdays, event="update_person")
    with pytest.raises(InvalidEvent, match=r"'update_person' is not lower snake case.*such as 'person.updated'"):
        Person.objects.create(name="Ann")


def test_a_name_that_is_too_long_is_told_so():
    with pytest.raises(InvalidContract, match=r"Event type 'order\.paid_paid.*' has 206 characters; use 200 at most\."):
        refuse_spelling("order.paid" + "_paid" * 39 + "_")


@pytest.mark.parametrize("name", ["public.member.invited", "duebox.thing.happened"])
def test_a_reserved_beginning_is_refused_at_import(declare: Any, name: str):
    with pytest.raises(InvalidContract, match="is reserved for Duebox"):
        declare(name)(type("Invite", (), {"__annotations__": {}}))
