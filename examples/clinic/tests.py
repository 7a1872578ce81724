"""Tests of the web page that need no browser."""

from __future__ import annotations

from datetime import UTC, datetime

from django.test import TestCase

import duebox
from duebox.models import Schedule
from duebox.testing import drain, travel
from examples.clinic import example_data, outside
from examples.clinic.models import Appointment
from examples.clinic.raw_sql import statements

FRIDAY = datetime(2027, 3, 26, 15, tzinfo=UTC)


class PageTest(TestCase):
    def setUp(self) -> None:
        self.addCleanup(outside.switch_gateway, up=True)

    def test_an_empty_clinic_offers_example_data(self) -> None:
        self.assertContains(self.client.get("/"), "The clinic is empty")
        page = self.client.post("/controls/example-data/", headers={"Accept": "text/html"}, follow=True)
        self.assertContains(page, "Reminders that follow an appointment")

    def test_without_a_receiver_and_an_aws_server_the_page_says_how_to_start_them(self) -> None:
        page = self.client.get("/outgoing/")
        self.assertContains(page, "No program receives webhooks")
        self.assertContains(page, "make demo AWS=1")

    def test_it_shows_reminders_on_three_clocks_and_what_a_clock_change_does(self) -> None:
        with travel(FRIDAY):
            example_data.add()
            page = self.client.get("/")
        for text in ("Sun 28 Mar 03:30", "Sat 27 Mar 21:30", "Sun 28 Mar 01:30", "02:30 does not exist that day"):
            self.assertContains(page, text)

    def test_a_part_that_has_not_changed_is_not_sent_again(self) -> None:
        with travel(FRIDAY):
            example_data.add()
            first = self.client.get("/parts/reminders/")
            again = self.client.get(first.context["part"]["url"])
        assert again.status_code == 204

    def test_every_statement_runs_as_it_is_shown(self) -> None:
        with travel(FRIDAY):
            appointment = example_data.add()
            for name, statement in statements(appointment).items():
                page = self.client.get("/")
                self.assertContains(page, statement.text, html=True)
                path = f"/controls/sql/{name}/"
                done = self.client.post(path, {"appointment": appointment.reference}, headers={"Accept": "text/html"})
                assert done.status_code == 302
            appointment.refresh_from_db()
            assert appointment.starts_at == datetime(2027, 3, 29, 2, 30, tzinfo=UTC)
            assert appointment.patient.zone == "Asia/Tokyo"
            assert appointment.status == Appointment.Status.CANCELLED

    def test_another_statement_is_refused(self) -> None:
        with travel(FRIDAY):
            appointment = example_data.add()
        path, form = "/controls/sql/drop/", {"appointment": appointment.reference}
        done = self.client.post(path, form, headers={"Accept": "application/json"})
        assert done.status_code == 400

    def test_a_broken_gateway_fails_text_messages_only(self) -> None:
        with travel(FRIDAY):
            self.client.post("/controls/gateway/", {"to": "down"})
            appointment = example_data.add()
            done = drain(raises=False)
            assert {str(error) for error in done.errors} == {"the SMS gateway does not answer"}
            assert appointment.timeline.exists()
            self.assertContains(self.client.get("/parts/gateway/"), "GatewayDown: the SMS gateway does not answer")

    def test_the_clock_is_moved_only_where_it_is_shared(self) -> None:
        done = self.client.post("/controls/clock/", {"to": "day"}, headers={"Accept": "application/json"})
        assert done.status_code == 409
        assert "the clock is the real one" in done.json()["refused"]

    def test_a_refused_form_says_why_on_the_page(self) -> None:
        with travel(FRIDAY):
            appointment = example_data.add()
            path = f"/appointments/{appointment.reference}/reschedule/"
            form = {"key": "1", "appointment": appointment.reference, "starts_at": "2027-11-07T25:00"}
            page = self.client.post(path, form, headers={"Accept": "text/html"}, follow=True)
        self.assertContains(page, "is not a date and time")
        assert Schedule.objects.about(appointment).scheduled().count() == 4
        assert len(duebox.upcoming(appointment)) == 4


class SignInTest(TestCase):
    def test_a_browser_on_this_machine_is_signed_in_to_the_dashboard(self) -> None:
        assert self.client.get("/admin/duebox/").status_code == 200

    def test_one_elsewhere_is_not_and_neither_is_one_behind_a_proxy(self) -> None:
        for given in ({"REMOTE_ADDR": "192.0.2.1"}, {"HTTP_X_FORWARDED_FOR": "192.0.2.1"}):
            answer = self.client.get("/admin/duebox/", **given)
            self.assertRedirects(answer, "/admin/login/?next=/admin/duebox/", fetch_redirect_response=False)

    def test_visitors_of_the_clinic_have_no_rights(self) -> None:
        self.client.get("/")
        assert "sessionid" not in self.client.cookies
