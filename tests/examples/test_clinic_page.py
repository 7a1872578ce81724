"""The web page of `make demo`, walked through in Chromium against the real thing: server, worker, PostgreSQL."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from collections.abc import Iterator
from html import unescape
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import psutil
import pytest

from tests.dashboard.browser import Browser
from tests.examples.conftest import Clinic, clinic_in
from tests.support import eventually

AXE = (pathlib.Path(__file__).parents[1] / "dashboard" / "axe.min.js").read_text()
SERIOUS = """
const done = arguments[arguments.length - 1];
axe.run(document).then((result) => done(
  result.violations.filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`)
));
"""


class Page(Browser):
    def visit(self, path: str = "/") -> None:
        self.chromium.get(f"{self.url.rstrip('/')}{path}")

    def choose(self, form: str, name: str, value: str) -> None:
        """Type into a field as a person does; a date and time has several parts, so its value is set."""
        self.script(
            "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event('change', {bubbles: true}));",
            f"form[action$='{form}'] [name={name}]",
            value,
        )

    def option(self, form: str, name: str, text: str) -> str:
        return self.script(
            "const all = [...document.querySelectorAll(arguments[0])];"
            "return all.find((each) => each.text.startsWith(arguments[1])).value",
            f"form[action$='{form}'] [name={name}] option",
            text,
        )

    def reminders(self) -> list[list[str]]:
        """The cells of the table, as they are shown."""
        return self.script(
            "return [...document.querySelectorAll('.reminders tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.innerText.split('\\n')[0]))"
        )

    def shows_reminders(self, *moments: str) -> bool:
        """On the patient's clock, of those that are planned."""
        return bool(eventually(lambda: [row[1] for row in self.reminders() if row[4] == "planned"] == [*moments], 15))

    @property
    def reference(self) -> str:
        return self.find("#appointment code").text


@pytest.fixture
def page(chromium: Any, clinic: Clinic) -> Iterator[Page]:
    one = Page(chromium, clinic.url)
    one.size(1280)
    one.visit()
    yield one
    one.leave()


@pytest.mark.browser
def test_a_visitor_sees_reminders_follow_an_appointment(page):
    """Books in another zone, moves, changes the row with SQL, changes the zone, cancels."""
    first = page.reference
    page.choose("/appointments/", "patient", page.option("/appointments/", "patient", "Ada"))
    page.choose("/appointments/", "doctor", "Dr. Rivera")
    page.choose("/appointments/", "starts_at", "2027-03-28T20:45")
    page.click("Book")
    assert page.shows("Booked: Ada with Dr. Rivera.")
    assert eventually(lambda: page.reference != first)
    # 02:45 in Berlin; a day before, clocks there go from 02:00 to 03:00.
    assert page.shows_reminders("Sun 28 Mar 03:45", "Mon 29 Mar 00:45", "Mon 29 Mar 02:30", "Tue 30 Mar 02:45")
    assert page.reminders()[0][1:4] == ["Sun 28 Mar 03:45", "Sat 27 Mar 21:45", "Sun 28 Mar 01:45"]
    assert page.shows("02:45 does not exist that day: clocks skip it")
    assert page.shows("In Europe/Berlin clocks go from 02:00 to 03:00 on Sun 28 Mar.")

    page.choose("/reschedule/", "starts_at", "2027-03-29T11:00")
    page.click("Move")
    assert page.shows("Moved.")
    assert page.shows_reminders("Sun 28 Mar 17:00", "Mon 29 Mar 15:00", "Mon 29 Mar 16:45", "Tue 30 Mar 17:00")
    assert page.shows("was Sun 28 Mar 03:45")
    assert "does not exist" not in page.text

    assert f"SET starts_at = starts_at + interval '2 hours' WHERE reference = '{page.reference}'" in page.text
    page.find("#sql-move").click()
    assert page.shows("UPDATE 1: Two hours later.")
    assert page.shows_reminders("Sun 28 Mar 19:00", "Mon 29 Mar 17:00", "Mon 29 Mar 18:45", "Tue 30 Mar 19:00")

    page.choose("/move/", "zone", "Asia/Tokyo")
    page.click("Change the zone")
    assert page.shows("Ada is in Asia/Tokyo now.")
    assert page.shows_reminders("Mon 29 Mar 02:00", "Tue 30 Mar 00:00", "Tue 30 Mar 01:45", "Wed 31 Mar 02:00")

    page.click("Cancel appointment")
    assert page.shows("Cancelled.")
    assert page.shows_reminders()
    assert {row[4] for row in page.reminders()} == {"taken back"}

    page.find("#sql-status").click()
    assert page.shows("Book it again.")
    assert page.shows_reminders("Mon 29 Mar 02:00", "Tue 30 Mar 00:00", "Tue 30 Mar 01:45", "Wed 31 Mar 02:00")
    assert page.complaints() == []


def outcomes_of(page, handler):
    """In the feed of the page, the newest first."""
    rows = page.script(
        "return [...document.querySelectorAll('.feed tbody tr')].map((row) => [...row.cells].map((c) => c.innerText))"
    )
    return [row[4].partition("\n")[0] for row in rows if row[2].strip() == handler]


@pytest.mark.browser
def test_a_broken_handler_retries_dies_and_is_redriven(page):
    page.click("Break the gateway")
    assert page.shows("Every text message fails")
    page.choose("/reschedule/", "starts_at", "2027-04-01T09:00")
    page.click("Move")
    assert page.shows("retrying appointment.rescheduled")
    assert page.shows("GatewayDown: the SMS gateway does not answer")
    assert page.shows("dead letter appointment.rescheduled", 30)
    assert page.shows("failed 5 times")

    page.click("Repair the gateway")
    assert page.shows("Text messages are sent.")
    page.click("Retry dead letters")
    # Another message, of an earlier test, may have failed while the gateway was broken.
    assert page.shows(" retried.")
    assert page.shows("there is no dead letter")
    outcomes = ["delivered", "redriven", "dead", "retried", "retried", "retried", "retried"]
    assert eventually(lambda: outcomes_of(page, "sms.new_time")[:7] == outcomes)

    page.click("Explain")
    assert page.shows("Handler 'sms.new_time' handled appointment.rescheduled")
    assert page.shows("GatewayDown: the SMS gateway does not answer")
    assert page.complaints() == []


@pytest.mark.browser
def test_fast_forward_brings_reminders_at_their_time(page):
    page.choose("/appointments/", "patient", page.option("/appointments/", "patient", "Keiko"))
    page.choose("/appointments/", "doctor", "Dr. Okafor")
    page.choose("/appointments/", "starts_at", "2027-03-27T14:00")
    page.click("Book")
    assert page.shows("Booked: Keiko with Dr. Okafor.")
    assert page.shows_reminders("Sat 27 Mar 20:00", "Sat 27 Mar 21:45", "Sun 28 Mar 22:00")
    page.click("+ 1 day")
    assert page.shows("The clock goes on to Sat 27 Mar")
    assert page.shows_reminders("Sun 28 Mar 22:00")
    assert page.shows("“Dr. Okafor in 2 hours, 22:00”")
    assert page.shows("“Dr. Okafor in 15 minutes, 22:00”")
    assert eventually(lambda: "The clock goes on" not in page.text, 30)


def received(page):
    """The requests on the page, the newest first: the badge, and the headers and the body as they are shown."""
    found = page.script(
        "return [...document.querySelectorAll('#part-webhooks .received > li')]"
        ".map((each) => [each.querySelector('.badge').innerText, each.querySelector('pre').textContent])"
    )
    return [(badge, *text.split("\n\n", 1)) for badge, text in found]


@pytest.mark.browser
def test_a_bundled_receiver_verifies_webhooks_and_refuses_a_forged_one(page):
    page.choose("/appointments/", "doctor", "Dr. Rivera")
    page.choose("/appointments/", "starts_at", "2027-04-07T10:00")
    page.click("Book")
    assert page.shows("Booked: ")
    reference = page.reference
    page.click("Outgoing")
    assert page.shows("What other programs receive")

    def first():
        return [each for each in received(page) if reference in each[2]]

    assert eventually(first, 15)
    [(badge, headers, body)] = first()
    assert badge == "signature verified"
    told = json.loads(body)
    assert (told["type"], told["workspace_id"]) == ("appointment.booked", "clinic")
    assert told["data"] == {"reference": reference, "starts_at": "2027-04-07T14:00:00+00:00"}
    given = dict(line.split(": ", 1) for line in headers.splitlines())
    assert given["webhook-id"] == told["id"]
    assert given["webhook-signature"].startswith("v1,")
    assert "555" not in body  # the phone number stays inside
    page.find("#part-webhooks summary").click()
    assert page.shows(f"webhook-signature: {given['webhook-signature']}")

    page.click("Send a forged request")
    assert page.shows("The receiver answered 401")
    assert eventually(lambda: received(page)[0][0] == "refused")
    assert page.shows("answered with 401")
    page.visit(f"/admin/duebox/events/{told['id']}/")
    assert page.shows("public.appointment.booked")
    assert page.complaints() == []


def test_eventbridge_and_a_fifo_queue_of_a_local_aws_server_get_the_events_of_appointments(clinic):
    page = post(clinic, "/appointments/", booking(clinic, "Dr. Okafor", "2027-04-08T09:00"))
    [reference] = re.findall(r'id="appointment">Appointment <code>(\w+)', page)
    post(clinic, f"/appointments/{reference}/reschedule/", {"key": "aws-1", "starts_at": "2027-04-08T11:00"})
    post(clinic, f"/appointments/{reference}/cancel/", {"key": "aws-2"})
    steps = ["appointment.booked", "appointment.rescheduled", "appointment.cancelled"]

    def arrived(heading: str) -> list[dict[str, Any]]:
        """The bodies below a heading of the page, the oldest first."""
        _, _, rest = get(clinic, "/outgoing/").partition(heading)
        bodies = re.findall(r'<pre class="code">(.+?)</pre>', rest.partition("<h3>")[0], flags=re.DOTALL)
        return [body for body in map(json.loads, map(unescape, reversed(bodies))) if reference in json.dumps(body)]

    # moto may still be starting; until then the destinations are paused.
    assert eventually(lambda: [each["event_type"] for each in arrived("FIFO queue")] == steps, 60)
    assert eventually(lambda: sorted(each["detail-type"] for each in arrived("Event bus")) == sorted(steps), 60)
    assert {each["source"] for each in arrived("Event bus")} == {"clinic"}
    assert [each["aggregate_id"] for each in arrived("FIFO queue")] == [reference] * 3
    assert "MessageGroupId appointment:" + reference in get(clinic, "/outgoing/")


@pytest.mark.browser
def test_the_pages_are_sound_in_light_and_dark_on_a_phone_and_without_errors(page):
    found: dict[str, list[str]] = {}
    for scheme, width, path in itertools.product(("light", "dark"), (390, 1280), ("/", "/outgoing/")):
        page.scheme(scheme)
        page.size(width)
        page.visit(path)
        page.script("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        wrong = page.complaints()
        if (wide := page.script("return document.documentElement.scrollWidth")) > width:
            wrong.append(f"is {wide} px wide")
        page.script(AXE)
        wrong += page.chromium.execute_async_script(SERIOUS)
        if wrong:
            found[f"{path} {scheme} {width}"] = wrong
    page.scheme("light")
    assert found == {}


@pytest.mark.browser
def test_the_dashboard_is_beside_it_with_a_user_signed_in(page):
    page.visit("/admin/duebox/")
    assert page.shows("Overview")
    assert page.shows("demo")
    page.visit("/admin/duebox/schedules/")
    assert page.shows("clinic.AppointmentReminders")
    assert page.complaints() == []


def test_everything_works_without_javascript(clinic):
    """Plain forms and redirects."""
    text = post(clinic, "/appointments/", booking(clinic, "Dr. Lindqvist", "2027-04-05T09:00"))
    assert "Booked: " in text
    [reference] = re.findall(r'id="appointment">Appointment <code>(\w+)', text)
    assert text.count('badge-wait">planned') == 4
    text = post(clinic, "/controls/sql/status/", {"appointment": reference})
    assert "UPDATE 1: Cancel it." in text
    assert eventually(lambda: get(clinic, f"/?appointment={reference}").count("taken back</span>") == 4)


def test_a_service_in_fastapi_emits_in_its_own_transaction(clinic):
    page = get(clinic, "/")
    pays, rolls_back = (
        unescape(each) for each in re.findall(r'action="(http://127\.0\.0\.1:\d+/payments[^"]+)"', page)
    )
    assert eventually(lambda: answers(rolls_back))
    page = send(pays, {})
    assert "Reminders that follow an appointment" in page
    assert eventually(lambda: "mail.payment" in get(clinic, "/parts/feed/"))
    assert len(set(re.findall(r'events/([^"]+)/">payment\.received', get(clinic, "/parts/feed/")))) == 1


def answers(url: str) -> bool:
    try:
        send(url, {})
    except OSError:  # it starts after the page
        return False
    return True


def test_what_another_site_sends_is_refused(clinic):
    request = Request(f"{clinic.url}controls/gateway/", b"to=down", {"Sec-Fetch-Site": "cross-site"})
    with pytest.raises(OSError, match="403"):
        urlopen(request, timeout=10)
    assert "Text messages are sent" in get(clinic, "/")


def test_ctrl_c_stops_everything(tmp_path):
    with clinic_in(tmp_path) as running:
        children = psutil.Process(running.process.pid).children(recursive=True)
        assert len(children) >= 2
        assert "Reminders that follow an appointment" in get(running, "/")
        assert running.stop() == 0, running.printed
    assert [each for each in children if each.is_running()] == []
    assert not (tmp_path / "postgres" / "postmaster.pid").exists()


def booking(clinic: Clinic, doctor: str, starts_at: str) -> dict[str, str]:
    [key] = re.findall(r'name="key" value="book-([^"]+)"', get(clinic, "/"))
    return {"key": key, "patient": "2", "doctor": doctor, "starts_at": starts_at}


def get(clinic: Clinic, path: str) -> str:
    with urlopen(Request(f"{clinic.url.rstrip('/')}{path}", headers={"Accept": "text/html"}), timeout=20) as answer:
        return answer.read().decode()


def post(clinic: Clinic, path: str, form: dict[str, str]) -> str:
    return send(f"{clinic.url.rstrip('/')}{path}", form)


def send(url: str, form: dict[str, str]) -> str:
    """The page that the redirect leads to. Its message comes by a cookie, so cookies are taken along."""
    opener = build_opener(HTTPCookieProcessor(CookieJar()))
    request = Request(url, urlencode(form).encode(), {"Accept": "text/html"})
    with opener.open(request, timeout=20) as answer:
        return answer.read().decode()
