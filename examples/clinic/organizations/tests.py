"""`manage.py test`: how a project tests what it emits, with `duebox.testing` on the test's own connection."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from django.test import TestCase

from duebox.models import AuditEntry, Event
from duebox.testing import assert_emitted, drain, refute_emitted
from examples.clinic.organizations.models import FeedEntry, Member, Organization, User

NORA = {"name": "Nora", "email": "nora@seeblick.example", "phone": "+41 79 555 2001"}
BO = {"name": "Bo", "email": "bo@seeblick.example", "phone": "+41 79 555 2003", "role": "assistant"}


class OrganizationTest(TestCase):
    def setUp(self) -> None:
        self.outbox = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(self.settings(OUTBOX=self.outbox))
        self.keys = count(1)
        self.post("/organizations/", organization="Seeblick", zone="Europe/Zurich", **NORA)
        self.organization = Organization.objects.get()
        self.home = f"/organizations/{self.organization.pk}/"

    def post(self, path: str, **form: Any) -> Any:
        data = {"key": f"test:{next(self.keys)}", **form}
        return self.client.post(path, data, headers={"accept": "application/json"})

    def invite(self, **form: Any) -> Member:
        self.post(f"{self.home}subscription/", plan="team")
        self.post(f"{self.home}members/", **BO, **form)
        return Member.objects.get(role="assistant")

    def sent(self, kind: str) -> str:
        return "\n".join(each.read_text() for each in sorted(self.outbox.glob(f"{kind}-*")))


class EmissionTest(OrganizationTest):
    def test_every_step_of_an_organization_leaves_its_event(self) -> None:
        assert_emitted("organization.created", {"name": "Seeblick"}, about=self.organization, count=1)
        member = self.invite()
        assert_emitted("subscription.activated", {"plan": "team", "seats": 10, "price": "119.00"}, count=1)
        assert_emitted("member.invited", {"email": BO["email"], "role": "assistant"}, about=member, count=1)
        self.post(f"/members/{member.pk}/join/")
        assert_emitted("member.joined", {"name": "Bo"}, about=member, count=1)
        self.post(f"/members/{member.pk}/role/", role="doctor")
        assert_emitted("member.role_changed", {"before": "assistant", "role": "doctor"}, about=member, count=1)
        self.post(f"/members/{member.pk}/remove/", reason="moved away")
        assert_emitted("member.removed", {"reason": "moved away"}, about=member, count=1)
        self.post(f"{self.home}billing/", email="accounts@seeblick.example", address="Seestrasse 4")
        assert_emitted("organization.billing_updated", {"address": "Seestrasse 4"}, about=self.organization, count=1)
        self.post(f"{self.home}subscription/update/", plan="clinic")
        assert_emitted("subscription.updated", {"seats": 40, "currency": "EUR"}, count=1)
        self.post(f"{self.home}subscription/cancel/")
        assert_emitted("subscription.canceled", {"plan": "clinic"}, count=1)

    def test_an_invitation_without_a_free_seat_leaves_no_event(self) -> None:
        answer = self.post(f"{self.home}members/", **BO)
        assert answer.status_code == 409
        assert answer.json()["refused"] == "Seeblick has no free seat: 1 of 0 taken"
        refute_emitted("member.invited")

    def test_a_role_that_nobody_knows_is_refused(self) -> None:
        assert self.post(f"/members/{self.invite().pk}/role/", role="king").status_code == 400
        refute_emitted("member.role_changed")

    def test_the_event_says_who_did_it_and_which_request_it_was(self) -> None:
        self.invite(by="nora")
        event = Event.objects.get(type="member.invited")
        assert event.actor == {"type": "user", "id": "nora"}
        assert event.correlation_id != str(event.id)


class AuditTest(OrganizationTest):
    def test_a_new_role_is_on_record_with_who_gave_it(self) -> None:
        member = self.invite()
        self.post(f"/members/{member.pk}/role/", role="doctor", by="nora")
        entry = AuditEntry.objects.about("member", member.pk).get()
        assert (entry.action, entry.actor["id"]) == ("member.role_changed", "nora")
        assert entry.changes == {"role": ["assistant", "doctor"]}
        assert entry.organization == str(self.organization.pk)

    def test_a_new_number_is_on_record_and_cannot_be_read_there(self) -> None:
        nora = User.objects.get()
        self.post(f"/users/{nora.pk}/phone/", phone="+41 79 555 2009", by="nora")
        entry = AuditEntry.objects.about("user", nora.pk).latest("id")
        assert (entry.action, entry.actor["id"]) == ("user.updated", "nora")
        assert entry.changes == {"phone": ["****2001", "****2009"]}

    def test_the_record_and_the_event_belong_to_one_request(self) -> None:
        member = self.invite()
        self.post(f"/members/{member.pk}/role/", role="doctor")
        event = Event.objects.get(type="member.role_changed")
        assert AuditEntry.objects.about("member", member.pk).get().correlation_id == event.correlation_id


class PublicTest(OrganizationTest):
    def test_partners_see_the_role_of_whoever_is_invited_and_nothing_else(self) -> None:
        self.invite()
        drain()
        assert Event.objects.get(type="public.member.invited").data == {"role": "assistant"}
        assert '{"role": "assistant"}' in self.sent("partners")
        assert "@" not in self.sent("partners")

    def test_a_phone_number_never_leaves(self) -> None:
        self.post(f"/users/{User.objects.get().pk}/phone/", phone="+41 79 555 2009")
        drain()
        refute_emitted("public.user.phone_changed")
        assert "555" not in self.sent("partners")


class ReactionTest(OrganizationTest):
    def test_whoever_is_invited_gets_mail(self) -> None:
        self.invite()
        drain()
        assert "To: bo@seeblick.example\n\nSeeblick would like to have you as assistant." in self.sent("mail")

    def test_the_old_number_is_told_of_the_new_one(self) -> None:
        self.post(f"/users/{User.objects.get().pk}/phone/", phone="+41 79 555 2009")
        drain()
        assert "To: +41 79 555 2001" in self.sent("sms")

    def test_an_update_of_the_first_version_reaches_handlers_as_the_second(self) -> None:
        self.post(f"{self.home}subscription/", plan="solo")
        self.post(f"{self.home}subscription/update/v1/", plan="team")
        assert Event.objects.get(type="subscription.updated").data["cents"] == 11900
        drain()
        assert "team: 10 seats for 119.00 EUR a month" in self.sent("mail")

    def test_the_feed_tells_what_happened_and_names_nobody(self) -> None:
        member = self.invite()
        self.post(f"/members/{member.pk}/join/")
        self.post(f"/members/{member.pk}/role/", role="doctor")
        drain()
        told = list(FeedEntry.objects.order_by("id").values_list("text", flat=True))
        assert told == [
            "Seeblick signed up",
            "plan team: 10 seats, 119.00 EUR a month",
            "a new assistant is invited",
            "a new assistant has joined",
            "a member is doctor now, no longer assistant",
        ]
