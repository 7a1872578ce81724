"""What becomes of one webhook: signed, sent, and judged by its answer."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from email.utils import format_datetime

import pytest
from django.utils import timezone
from standardwebhooks import Webhook, WebhookVerificationError

import duebox
from duebox.destinations.webhooks import endpoints as api
from duebox.destinations.webhooks.encryption import decrypted
from duebox.destinations.webhooks.response import seconds_to_wait
from duebox.events.outcomes import Delivered, Discard
from duebox.exceptions import Blocked, Refused, Throttled, Undelivered
from duebox.models import Attempt, Event, WebhookEndpoint
from duebox.worker.drain import drain
from tests.destinations.conformance import a_fact
from tests.destinations.webhooks.receiver import Reply

pytestmark = pytest.mark.django_db


def a_public_fact(**columns):
    return a_fact("public.order.paid", **columns)


@pytest.fixture
def deliver(hooks, receiver):
    """One public event to an endpoint, answered so."""

    def run(row, *reply, fact=None, headers=()):
        if reply:
            receiver.reply = lambda got: Reply(*reply, headers=tuple(headers))
        [result] = hooks.part(str(row.pk)).deliver([fact or a_public_fact()])
        return result

    return run


def accepts(secret, got):
    try:
        Webhook(secret).verify(got.body, got.headers)
    except WebhookVerificationError:
        return False
    return True


def test_a_receiver_with_another_library_accepts_every_delivery_across_a_rotation(hooks, receiver, public):
    row, first = api.create("7", receiver.url, ["*"])
    emit = lambda: duebox.emit("order.paid", {"total": 1}, about=("order", 1), organization="7")  # noqa: E731
    emit(), drain()
    second = api.rotate(row)
    hooks.forget(row.pk)
    emit(), drain()
    third = api.rotate(row)
    hooks.forget(row.pk)
    emit(), drain()
    WebhookEndpoint.objects.update(previous_until=timezone.now() - timedelta(seconds=1))
    hooks.forget(row.pk)
    emit(), drain()
    assert len({first, second, third}) == 3
    accepted = [[accepts(secret, got) for secret in (first, second, third)] for got in receiver.got]
    assert accepted == [
        [True, False, False],
        [True, True, False],
        [False, True, True],  # at most two are alive
        [False, False, True],
    ]


def test_a_rotation_without_overlap_ends_the_old_secret_at_once(add, hooks, receiver, deliver):
    row = add()
    old = decrypted(row.secret)
    new = api.rotate(row, overlap=timedelta())
    deliver(row)
    assert [accepts(old, receiver.got[0]), accepts(new, receiver.got[0])] == [False, True]


def test_a_retry_has_the_same_id_and_is_signed_anew(add, receiver, deliver):
    row, fact = add(), a_public_fact()
    deliver(row, 500, fact=fact)
    deliver(row, 200, fact=fact)
    assert {got.id for got in receiver.got} == {str(fact.id)}
    assert len({got.body for got in receiver.got}) == 1
    assert all(accepts(decrypted(row.secret), got) for got in receiver.got)


def test_the_request_says_who_sends_what(add, receiver, deliver):
    fact = a_public_fact(correlation="req-1")
    deliver(add(headers={"X-Token": "abc", "Authorization": "Bearer t0k3n"}), fact=fact)
    [got] = receiver.got
    assert got.headers["content-type"] == "application/json"
    assert got.headers["user-agent"].startswith("Duebox/")
    assert got.headers["x-correlation-id"] == "req-1"
    assert (got.headers["x-token"], got.headers["authorization"]) == ("abc", "Bearer t0k3n")
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert "cookie" not in got.headers


def test_a_correlation_id_that_no_header_can_hold_is_left_out(add, receiver, deliver):
    deliver(add(), fact=a_public_fact(correlation="bücher"))
    assert "x-correlation-id" not in receiver.got[0].headers


def test_an_organization_with_quotes_in_its_name_stays_json(add, receiver, deliver):
    deliver(add('7"\\'), fact=a_public_fact(organization='7"\\'))
    assert receiver.got[0].event["workspace_id"] == '7"\\'


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_delivered_with_what_was_answered(add, deliver, status):
    body = b"" if status == 204 else "thanks, ä".encode()
    assert deliver(add(), status, body) == Delivered(body.decode(), status)


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 403, 404, 422, 500, 502, 503, 504, 599])
def test_anything_else_may_be_tried_again(add, deliver, status):
    result = deliver(add(), status, b"why not")
    assert type(result) is Undelivered
    assert (result.status, str(result)) == (status, f"The answer was {status}. why not")


def test_what_the_operator_calls_final_is_not_tried_again(configure, receiver, db):
    hooks = configure(receiver.port, refused=[400])
    row = api.create("7", receiver.url, ["*"]).endpoint
    receiver.reply = lambda got: Reply(400, b"never")
    [result] = hooks.part(str(row.pk)).deliver([a_public_fact()])
    assert isinstance(result, Refused)
    assert result.status == 400


def test_of_a_long_answer_2_kb_are_kept(add, deliver):
    assert len(deliver(add(), 200, b"x" * 5000).note) == 2048
    assert len(str(deliver(add(), 500, b"x" * 5000))) < 2100


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_who_asks_to_wait_is_left_alone_for_so_long(add, deliver, status):
    result = deliver(add(), status, b"later", headers=[("Retry-After", "120")])
    assert isinstance(result, Throttled)
    assert (result.seconds, result.status) == (120.0, status)


def test_too_many_requests_means_it_without_a_time(add, deliver):
    result = deliver(add(), 429, b"")
    assert isinstance(result, Throttled)
    assert result.seconds == 0


def test_a_wait_is_seconds_or_a_date_and_at_most_a_day():
    now = 1_794_736_800.0
    moment = format_datetime(timezone.datetime.fromtimestamp(now + 90, tz=timezone.get_fixed_timezone(0)), usegmt=True)
    assert seconds_to_wait("5") == 5
    assert seconds_to_wait(" 7 ") == 7
    assert seconds_to_wait(moment, now) == 90
    assert seconds_to_wait(moment, now + 1000) == 0
    assert seconds_to_wait("999999999") == 86_400
    for nonsense in (None, "", "soon", "-5", "1e9", "12345678901", "Mon, 99 Foo 2026", "٣"):
        assert seconds_to_wait(nonsense) == 0


def test_gone_disables_the_endpoint_and_says_so_in_an_event(add, hooks, deliver, receiver):
    row = add(description="billing")
    result = deliver(row, 410, b"")
    assert isinstance(result, Discard)
    row.refresh_from_db()
    assert (row.disabled_at is not None, row.disabled_reason) == (True, "410 Gone")
    told = Event.objects.get(type="duebox.endpoint.disabled")
    assert told.organization == "7"
    assert told.data == {"endpoint": str(row.pk), "host": "127.0.0.1", "description": "billing", "reason": "410 Gone"}
    assert deliver(row) == Discard("the endpoint is disabled: 410 Gone")
    assert len(receiver.got) == 1


@pytest.mark.django_db(transaction=True)
def test_a_thread_that_finds_an_endpoint_gone_is_left_without_a_connection(add, hooks, deliver):
    import threading

    from django.db import connections

    row, left = add(), []
    hooks.part(str(row.pk))

    def work():
        deliver(row, 410, b"")
        left.append(connections["default"].connection)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert left == [None]
    row.refresh_from_db()
    assert row.disabled_reason == "410 Gone"


def test_an_event_of_another_organization_is_never_sent(add, deliver, receiver):
    for organization in ("8", ""):
        result = deliver(add("7"), fact=a_public_fact(organization=organization))
        assert isinstance(result, Refused)
        assert "was not sent" in str(result)
    assert receiver.got == []


def test_an_event_that_is_not_public_is_never_sent(add, deliver, receiver):
    assert isinstance(deliver(add("7"), fact=a_fact("order.paid")), Refused)
    assert receiver.got == []


def test_a_blocked_target_is_named_without_its_path(add, deliver, hooks, receiver):
    row = add()
    WebhookEndpoint.objects.update(url=f"http://10.0.0.1:{receiver.port}/secret-path")
    result = deliver(row)
    assert isinstance(result, Blocked)
    assert "secret-path" not in str(result)


def test_a_change_is_known_within_two_seconds(add, hooks, deliver, receiver, monkeypatch):
    from duebox.destinations.webhooks import destination

    row = add()
    before = hooks.part(str(row.pk))
    assert hooks.part(str(row.pk)) is before
    api.change(row, url=receiver.url + "/moved")
    assert hooks.part(str(row.pk)) is before
    monkeypatch.setattr(destination.time, "monotonic", lambda now=destination.time.monotonic: now() + 2.1)
    deliver(row)
    assert receiver.got[0].path == "/hook/moved"


def test_a_row_that_has_not_changed_is_not_made_ready_again(add, hooks, monkeypatch):
    from duebox.destinations.webhooks import destination

    row = add()
    before = hooks.part(str(row.pk))
    monkeypatch.setattr(destination, "FRESH_SECONDS", 0.0)
    assert hooks.part(str(row.pk)) is hooks.part(str(row.pk)) is before


def test_endpoints_that_nobody_asks_for_are_forgotten(add, hooks, monkeypatch):
    from duebox.destinations.webhooks import destination

    rows = [add() for _ in range(3)]
    for row in rows:
        hooks.part(str(row.pk))
    monkeypatch.setattr(destination.time, "monotonic", lambda now=destination.time.monotonic: now() + 400)
    hooks.part(str(rows[0].pk))
    assert set(hooks._parts) == {str(rows[0].pk)}


def test_the_rate_of_an_endpoint_is_its_own(add, hooks):
    assert hooks.part(str(add(rate=2.5).pk)).policy.rate == 2.5
    assert hooks.part(str(add().pk)).policy.rate == 0


def test_an_endpoint_is_tried_for_three_days(hooks):
    retry = hooks.policy.retry
    assert [retry.delays[0], retry.delays[-1], sum(retry.delays)] == [5, 86_400, 272_105]


def test_no_secret_is_in_logs_errors_reprs_or_the_history(add, hooks, deliver, receiver, public, caplog):
    caplog.set_level(logging.DEBUG)
    row = add(headers={"X-Token": "sesame"}, path="/path-secret")
    secret = decrypted(row.secret)
    made = api.create("7", receiver.url, ["*"])
    part = hooks.part(str(row.pk))
    receiver.reply = lambda got: Reply(500, b"oh", (("Set-Cookie", "session=s3cr3t"),))
    duebox.emit("order.paid", {"total": 1}, about=("order", 1), organization="7")
    drain()
    tried = api.test(row)
    notes = list(Attempt.objects.values_list("note", flat=True))
    assert len(notes) > 2
    shown = [repr(each) for each in (row, str(row), made, part, hooks, part._ready, tried, hooks.guard)]
    told = json.dumps(list(Event.objects.values_list("data", flat=True)))
    everything = "\n".join([*shown, *notes, caplog.text, told])
    for word in (secret, secret[6:], made.secret, "sesame", "path-secret", "s3cr3t"):
        assert word not in everything
    stored = "\n".join(map(str, WebhookEndpoint.objects.values_list()))
    assert secret not in stored
    assert "sesame" not in stored
