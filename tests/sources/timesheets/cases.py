from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from django.conf import settings
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import DatabaseError, connection, transaction
from django.test import Client
from play import FOLDER, case, eventually, manage, raised, worker
from standardwebhooks import Webhook
from timesheets import events
from timesheets.models import Member, Result

import duebox
from duebox.audit_log import verify
from duebox.audit_log.seal import seal_all
from duebox.contracts import declared, event_types
from duebox.destinations.webhooks import endpoints
from duebox.exceptions import InvalidEvent, InvalidPayload
from duebox.models import AuditEntry, Delivery, DestinationState, Event, WebhookEndpoint
from duebox.testing import drain

BUS = settings.NAME
RULES = {
    "integrations": {"detail-type": [{"prefix": "public."}]},
    "billing": {"detail-type": [{"prefix": "subscription."}]},
    "notifications": {"detail-type": [{"suffix": ".created"}, {"suffix": ".approved"}]},
}


def aws(service: str) -> Any:
    return boto3.client(
        service, endpoint_url=settings.AWS["endpoint_url"], region_name=settings.AWS["region"],
        aws_access_key_id="testing", aws_secret_access_key="testing",
    )  # fmt: skip


def url(name: str) -> str:
    return f"{settings.AWS['endpoint_url']}/123456789012/{name}"


def received(name: str) -> list[dict[str, Any]]:
    sqs, found = aws("sqs"), []
    while True:
        answer = sqs.receive_message(QueueUrl=url(name), MaxNumberOfMessages=10, AttributeNames=["All"])
        if not (messages := answer.get("Messages", [])):
            return found
        for message in messages:
            found.append(message)
            sqs.delete_message(QueueUrl=url(name), ReceiptHandle=message["ReceiptHandle"])


def bodies(name: str) -> list[dict[str, Any]]:
    return [json.loads(message["Body"]) for message in received(name)]


def set_up_bus() -> None:
    """A bus with a small, fixed set of rules, each with a queue behind it, and a FIFO queue beside it."""
    bus, sqs = aws("events"), aws("sqs")
    bus.create_event_bus(Name=BUS)
    sqs.create_queue(QueueName=f"{BUS}-ledger.fifo", Attributes={"FifoQueue": "true"})
    for name, pattern in RULES.items():
        sqs.create_queue(QueueName=f"{BUS}-{name}")
        arn = f"arn:aws:sqs:{settings.AWS['region']}:123456789012:{BUS}-{name}"
        bus.put_rule(Name=name, EventBusName=BUS, EventPattern=json.dumps(pattern))
        bus.put_targets(Rule=name, EventBusName=BUS, Targets=[{"Id": name, "Arn": arn}])


set_up_bus()


def entry(number: int = 1, **more: Any) -> events.TimeEntryCreated:
    return events.TimeEntryCreated(id=f"te_{number}", description="plumbing", minutes=35, **more)


@case("C6", "the catalogue of the document is declared, and check has nothing to say")
def catalogue() -> None:
    names = {kind.name for kind in declared()}
    wanted = {
        "time_entry.created", "time_entry.submitted", "time_entry.approved", "time_entry.rejected",
        "organization.created", "organization.billing_updated", "member.invited", "member.joined", "member.removed",
        "member.role_changed", "user.phone_number_changed", "subscription.activated", "subscription.canceled",
        "public.time_entry.created", "public.time_entry.approved",
    }  # fmt: skip
    assert wanted <= names, wanted - names
    out = manage("check", "--database", "default")
    assert "no issues" in out, out


@case("E7", "bad names are an error of check; misspelt ones cannot be emitted, with the right one; no verb is invented")
def naming() -> None:
    misspelt = {"update_time_entry": "time_entry.updated", "TIME_ENTRY_CREATED": "time_entry.created"}
    vague = ("time_entry.changed", "db.write", "report.nightly", "member.invite")
    for name in (*misspelt, *vague):
        duebox.event(name)(type("Bad", (), {}))
    try:
        for bad, good in misspelt.items():
            assert good in raised(InvalidEvent, lambda bad=bad: duebox.emit(bad))
        found = run_checks()
        spelling = "\n".join(str(each) for each in found if each.id == "duebox.E044")
        assert all(bad in spelling and good in spelling for bad, good in misspelt.items()), spelling
        text = "\n".join(str(each) for each in found if each.id == "duebox.E040")
        assert all(name in text for name in vague), text
        assert "member.invited" in text
        assert "nightlied" not in text
    finally:
        for name in (*misspelt, *vague):
            event_types.forget(name)


@case("E2", "a consumer gets every field of the envelope, the actor as an object")
def envelope() -> None:
    actor = {"type": "user", "id": "42", "email": "boss@example.com"}
    with transaction.atomic():
        fact = duebox.emit(
            events.TimeEntrySubmitted(number=0), about=("time_entry", "te_1"), organization="org_5", actor=actor,
            correlation_id="req_77", metadata={"ip": "192.0.2.7"},
        )  # fmt: skip
    drain()
    [body] = bodies(f"{BUS}-ledger.fifo")
    expected = {
        "event_id": str(fact.id), "event_type": "time_entry.submitted", "schema_version": 1,
        "aggregate_id": "te_1", "aggregate_type": "time_entry", "organization_id": "org_5",
        "correlation_id": "req_77", "actor": actor, "producer": "timesheets.api", "data": {"number": 0},
    }  # fmt: skip
    assert {name: body.get(name) for name in expected} == expected, body
    assert body["occurred_at"].endswith("Z")


@case("E2", "an actor that is none, a tenant or an entity that says nothing are refused")
def identities() -> None:
    submitted = events.TimeEntrySubmitted(number=0)
    for bad in (
        {"actor": {"id": "42"}},
        {"actor": object()},
        {"organization": [1, 2]},
        {"about": ("member", object())},
    ):
        raised(InvalidEvent, lambda bad=bad: duebox.emit(submitted, **{"about": ("time_entry", 1), **bad}))
    with transaction.atomic():
        user = User.objects.create(username="ines", email="ines@example.com")
        fact = duebox.emit(submitted, about=("time_entry", 2), actor=user)
    drain()
    stored = Event.objects.get(id=fact.id)
    assert str(user.pk) in str(stored.actor)
    received(f"{BUS}-ledger.fifo")


@case("C1", "what its schema does not allow is refused, with the path and the value")
def schemas() -> None:
    about = {"about": ("time_entry", 1), "organization": "org_5"}
    good = {"id": "te_1", "description": "x", "minutes": 5}
    for path, bad in (("minutes", {"minutes": "5"}), ("colour", {"colour": "red"}), ("id", {"id": None})):
        why = raised(InvalidPayload, lambda bad=bad: duebox.emit("time_entry.created", {**good, **bad}, **about))
        assert why.startswith("data"), why
        assert path in why, why
    assert "description" in raised(
        InvalidPayload, lambda: duebox.emit("time_entry.created", {"id": "x", "minutes": 1}, **about)
    )


@case("C2", "CI passes what only adds, also a required field with a default, and stops what breaks")
def compatibility() -> None:
    folder, before = FOLDER / "schemas" / "events", FOLDER / "before"
    folder.mkdir(parents=True)
    plain = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}
    plain = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "invoice.sent", **plain}
    place = folder / "invoice.sent.v1.json"
    place.write_text(json.dumps(plain))
    manage("duebox", "schemas", "write")
    assert (folder / "time_entry.created.v1.json").exists()
    assert (folder / "public.time_entry.created.v1.json").exists()
    shutil.copytree(folder, before)
    more = json.loads(place.read_text())
    more["properties"] |= {"note": {"type": "string"}, "currency": {"type": "string", "default": "EUR"}}
    place.write_text(json.dumps({**more, "required": ["number", "currency"]}))
    manage("duebox", "schemas", "check", "--against", "./before")
    renamed = json.loads(json.dumps(plain).replace("number", "identifier"))
    place.write_text(json.dumps(renamed))
    out = manage("duebox", "schemas", "check", "--against", "./before", code=1)
    assert "invoice.sent v1" in out
    assert "event:" in out, "a payload that breaks is shown"
    shutil.rmtree(folder.parent)


@case("C3", "version 1 reaches the handler as version 2; one from newer code waits for that code")
def versions() -> None:
    duebox.emit(events.ProjectAssignedV1(project_id="prj_1"))
    duebox.emit(events.ProjectAssigned(project={"id": "prj_2"}))
    newer = (
        "import duebox\n"
        "duebox.event('project.assigned', version=3)(type('New', (), {'__annotations__': {'code': str}}))\n"
        "duebox.emit('project.assigned', {'code': 'x'})"
    )
    manage("shell", "-v", "0", "-c", newer)
    drain(raises=False)
    found = Result.objects.filter(what="assigned").order_by("id").values_list("text", flat=True)
    assert list(found) == ["v2 prj_1", "v2 prj_2"]
    waiting = Delivery.objects.get(subscriber="assign")
    assert waiting.attempt == 0, "waiting for newer code uses up no attempt"
    waiting.delete()


@case("C4", "a page for each type, with its fields, versions and an example")
def documents() -> None:
    manage("duebox", "events", "docs", "--out", "docs/events")
    page = (FOLDER / "docs" / "events" / "time_entry.created.md").read_text()
    assert "minutes" in page
    assert "te_" in page or '"id"' in page
    assert (FOLDER / "docs" / "events" / "project.assigned.md").read_text().count("ersion 2")


@case("C5", "a public event has the allowed fields, workspace_id, and nothing internal; on the bus, too")
def public() -> None:
    with transaction.atomic():
        duebox.emit(
            entry(2, email="a@example.com", internal_rate=80.0), about=("time_entry", "te_2"), organization="org_5",
            actor="42",
        )  # fmt: skip
    drain()
    received(f"{BUS}-ledger.fifo")
    received(f"{BUS}-notifications")
    [message] = bodies(f"{BUS}-integrations")
    assert message["detail-type"] == "public.time_entry.created"
    detail = message["detail"]
    assert detail["data"] == {"id": "te_2", "description": "plumbing", "minutes": 35}
    assert detail["workspace_id"] == "org_5"
    internal = {"aggregate_id", "causation_id", "producer", "actor", "metadata", "organization_id"}
    assert not {name for name in internal if detail.get(name)}, detail


@case("C5", "no public event without a tenant, and none by hand")
def guards() -> None:
    assert "organization" in raised(InvalidEvent, lambda: duebox.emit(entry(3), about=("time_entry", 3)))
    raised(InvalidEvent, lambda: duebox.emit("public.time_entry.created", {"id": "x"}, organization="org_5"))


@case("D5", "three rules on the bus send prefixes and suffixes where they belong")
def rules() -> None:
    with transaction.atomic():
        duebox.emit(events.SubscriptionActivated(plan="team"), about=("subscription", 1))
        duebox.emit(events.OrganizationCreated(name="Acme"), about=("organization", 1))
        duebox.emit(events.TimeEntryApproved(id="te_4"), about=("time_entry", "te_4"), organization="org_5")
        duebox.emit(events.MemberRemoved(), about=("member", 1))
    drain()

    def kinds(name: str) -> Counter[str]:
        return Counter(body["detail-type"] for body in bodies(f"{BUS}-{name}"))

    assert kinds("integrations") == {"public.time_entry.approved": 1}
    assert kinds("billing") == {"subscription.activated": 1}
    found = kinds("notifications")
    assert found["organization.created"] == found["time_entry.approved"] == 1
    received(f"{BUS}-ledger.fifo")


@case("D8", "a command says who receives an event, and why")
def routes() -> None:
    out = manage("duebox", "events", "routes", "time_entry.approved", "--data", '{"id": "te_1"}')
    rows = [line for line in out.splitlines() if line.startswith("to:") and "public" not in line]
    lines = {line.split()[0]: line for line in rows}
    assert "yes" in lines["to:bus"]
    assert "*.approved" in lines["to:bus"], out
    assert "yes" in lines["to:ledger"]


@case("D6", "in order for each aggregate, while every fifth fails at first: handler and FIFO queue")
def ordered() -> None:
    with transaction.atomic():
        for number in range(10):
            for aggregate in ("a", "b", "c"):
                duebox.emit(events.TimeEntrySubmitted(number=number), about=("time_entry", aggregate))
    with worker():
        eventually(lambda: not Delivery.objects.exists(), 40)
    for aggregate in ("a", "b", "c"):
        seen = Result.objects.filter(what=f"states of {aggregate}").order_by("id").values_list("text", flat=True)
        assert list(seen) == [str(number) for number in range(10)]
    arrived: dict[str, list[int]] = {}
    for message in received(f"{BUS}-ledger.fifo"):
        arrived.setdefault(message["Attributes"]["MessageGroupId"], []).append(
            json.loads(message["Body"])["data"]["number"]
        )
    assert len(arrived) == 3
    assert all(numbers == list(range(10)) for numbers in arrived.values()), arrived


class Receiver:
    """A customer's server. It answers what it is told to, and keeps what it got."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: dict[str, list[int]] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                answers = receiver.answers.get(self.path, [])
                self.send_response(answers.pop(0) if answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", settings.PORT), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def at(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(body) for where, _, body in self.got if where == path]


@case("D7", "webhooks: signed, retried after a 500, for their own tenant only, disabled by a 410")
def webhooks() -> None:
    receiver = Receiver()
    address = f"http://127.0.0.1:{settings.PORT}"
    _, secret = endpoints.create("org_6", f"{address}/mine", ["time_entry.*"])
    endpoints.create("org_7", f"{address}/other", ["*"])
    gone, _ = endpoints.create("org_6", f"{address}/gone", ["*"])
    receiver.answers = {"/mine": [500], "/gone": [410]}
    try:
        with transaction.atomic():
            fact = duebox.emit(entry(6, email="a@example.com"), about=("time_entry", "te_6"), organization="org_6")
        with worker():
            eventually(lambda: len(receiver.at("/mine")) == 2 and receiver.at("/gone"))
            eventually(lambda: WebhookEndpoint.objects.get(pk=gone.pk).disabled_reason)
            eventually(lambda: not Delivery.objects.exists())
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
    first, second = [each for each in receiver.got if each[0] == "/mine"]
    assert first[1]["webhook-id"] == second[1]["webhook-id"]
    message = Webhook(secret).verify(second[2], second[1])
    assert message["workspace_id"] == "org_6"
    assert message["data"] == {"id": "te_6", "description": "plumbing", "minutes": 35}
    assert receiver.at("/other") == []
    assert str(fact.id) not in json.dumps(message["data"])
    for queue in ("integrations", "notifications", "ledger.fifo"):
        received(f"{BUS}-{queue}")


@case("D12", "a rate of 20 a second is kept, and a breaker leaves a broken destination alone")
def storms() -> None:
    with transaction.atomic():
        duebox.emit_many([events.PageLost(title=f"lost {number}") for number in range(60)])
        duebox.emit_many([events.PagePrinted(title=f"page {number}") for number in range(40)])
    with worker():
        eventually(lambda: Result.objects.filter(what="printed").count() == 40, 30)
        eventually(lambda: DestinationState.objects.filter(name__endswith="broken", opened__gt=0).exists())
    times = sorted(Result.objects.filter(what="printed").values_list("at", flat=True))
    assert timedelta(seconds=1.5) < times[-1] - times[0] < timedelta(seconds=8), times[-1] - times[0]
    tried = Result.objects.filter(what="tried").count()
    assert 5 <= tried < 60, tried
    assert Delivery.objects.filter(subscriber="to:broken").count() == 60, "no dead letter"
    assert "broken" in manage("duebox", "destinations", "list")
    Delivery.objects.all().delete()


@case("O3", "a request's correlation id is taken, returned, stored with its event, and known to the handler")
def correlation() -> None:
    client = Client()
    answer = client.get("/invite", headers={"X-Correlation-ID": "checkout-4711"})
    assert answer["X-Correlation-ID"] == "checkout-4711"
    event = Event.objects.get(id=answer.json()["event"])
    assert event.correlation_id == "checkout-4711"
    drain()
    assert Result.objects.filter(what="invited", text="checkout-4711").exists()
    made = client.get("/invite")["X-Correlation-ID"]
    assert len(made) == 36
    bad = client.get("/invite", headers={"X-Correlation-ID": "a b\x7f"})["X-Correlation-ID"]
    assert len(bad) == 36
    drain()


@case("O1", "the audit log has who, from where, old and new, masked; it cannot be changed unnoticed")
def audit() -> None:
    Member.objects.create(name="Ines", phone="+351910004567", password="secret")
    user, _ = User.objects.get_or_create(username="auditor")
    client = Client(REMOTE_ADDR="192.0.2.33", HTTP_USER_AGENT="curl/9")
    client.force_login(user)
    client.get("/phone", headers={"X-Correlation-ID": "phone-1"})
    last = AuditEntry.objects.filter(action__endswith="updated").latest("id")
    assert last.changes == {"phone": ["****4567", "****8901"]}, last.changes
    assert (last.correlation_id, str(last.ip), last.user_agent) == ("phone-1", "192.0.2.33", "curl/9")
    assert str(user.pk) in str(last.actor)

    def tamper(statement: str) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)

    raised(DatabaseError, lambda: tamper("UPDATE duebox_audit SET action = 'nothing'"))
    raised(DatabaseError, lambda: tamper("DELETE FROM duebox_audit"))
    seal_all("default")
    assert verify("default").entries > 0
    assert verify("default").flaws == 0
    drain()


@case("D10", "publish_events --once, as a cron job or in a Lambda function")
def publish() -> None:
    with transaction.atomic():
        duebox.emit(events.SubscriptionCanceled(), about=("subscription", 2))
    manage("publish_events", "--once", "--batch-size=100")
    assert [body["detail-type"] for body in bodies(f"{BUS}-billing")] == ["subscription.canceled"]
