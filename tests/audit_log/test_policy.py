from __future__ import annotations

import pytest
from django.db import models
from django.test.utils import isolate_apps

import duebox
from duebox import audit_log
from duebox.audit_log.policy import keep, policy_of
from duebox.schedules import capture
from tests.app.members import Coach, Locker, Member
from tests.audit_log.support import entries, the_entry

pytestmark = pytest.mark.django_db

SECRETS = {"password": "hunter2", "phone": "+33612345678", "email": "ann@example.org"}


@pytest.fixture
def follow():
    """`audit_log.follow`, forgotten after the test."""
    done = []

    def start(model, **policy):
        done.append(model)
        followed = audit_log.follow(**policy)(model)
        capture.install("default")
        return followed

    yield start
    for model in done:
        keep(model, None)


def test_what_is_not_among_the_fields_is_not_recorded_by_hand_either():
    locker = Locker(pk=5)
    for entity in (locker, ("locker", 5)):
        duebox.audit("locker.checked", entity, after={"number": 1, "note": "private", "member": 7})
    assert [entry.changes for entry in entries()] == [{"number": [None, 1], "member": [None, 7]}] * 2


@pytest.mark.parametrize("name", ["member", "Member", "MEMBER", "app.member", "app.Member"])
def test_a_model_is_known_by_any_of_its_names(name):
    duebox.audit("member.checked", (name, 5), after=SECRETS)
    duebox.audit("member.checked", Member(pk=5), after=SECRETS)
    first, second = entries()
    assert first.entity_type == name
    assert first.changes == second.changes
    assert set(first.changes) == {"phone", "email"}
    assert first.changes["phone"] == [None, "****5678"]


@pytest.mark.parametrize("name", ["captain", "app.Captain"])
def test_a_row_is_known_by_the_name_of_a_proxy_too(name):
    duebox.audit("captain.checked", (name, 5), after=SECRETS)
    assert set(the_entry().changes) == {"phone", "email"}
    assert the_entry().changes["phone"] == [None, "****5678"]


@pytest.mark.parametrize("name", ["other.member", "members", "memb.er"])
def test_another_name_is_another_thing(name):
    duebox.audit("member.checked", (name, 5), after=SECRETS)
    assert the_entry().changes == {key: [None, value] for key, value in SECRETS.items()}


def test_a_model_below_adds_to_what_is_hidden_above(follow):
    follow(Coach, mask=["licence"])
    Coach.objects.create(licence="B-123456789012", **SECRETS)
    for entity in (Coach(pk=5), ("coach", 5)):
        duebox.audit("coach.checked", entity, after={**SECRETS, "licence": "B-123456789012"})
    assert entries(action="coach.created")[0].changes == {"licence": [None, "****9012"]}
    for entry in [*entries(action="member.created"), *entries(action="coach.checked")]:
        assert "password" not in entry.changes
        assert entry.changes["phone"] == [None, "****5678"]
        assert entry.changes["email"][1].startswith("hmac:")
    assert {str(entry.changes["licence"]) for entry in entries(action="coach.checked")} == {"[None, '****9012']"}


def test_a_model_below_may_hide_in_another_way_and_not_show(follow):
    follow(Coach, fields=["phone", "email", "password", "name"], hash=["phone"], mask=["email"])
    changes = duebox.audit("coach.checked", Coach(pk=5), after={**SECRETS, "name": "Ann"}).changes
    assert changes["phone"][1].startswith("hmac:")
    assert changes["email"] == [None, "****.org"]
    assert set(changes) == {"phone", "email", "name"}


def test_a_model_below_belongs_where_its_parent_does_unless_it_says_otherwise(follow):
    follow(Coach, mask=["licence"])
    assert policy_of(Coach).organization == "club"
    follow(Coach, organization="name")
    assert policy_of(Coach).organization == "name"


@isolate_apps("tests.app")
def test_every_model_above_is_heard(follow):
    class Meta:
        app_label = "app"
        abstract = True

    def model(name, *above, **fields):
        return type(name, (*above, models.Model), {"Meta": Meta, "__module__": __name__, **fields})

    one = follow(model("One", a=models.TextField()), drop=["a"])
    two = follow(model("Two", b=models.TextField()), mask=["b"])
    both = follow(model("Both", one, two, c=models.TextField()), hash=["c"])
    policy = policy_of(both)
    assert (policy.drop, policy.mask, policy.hash) == ({"a"}, {"b"}, {"c"})
