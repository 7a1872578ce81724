"""The receiver's side: a view gets what is signed, once, and together with what it writes."""

from __future__ import annotations

import json
import threading
import time

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.http import HttpResponse, HttpResponseRedirect
from django.test import AsyncRequestFactory, RequestFactory
from django.utils import timezone

from duebox.destinations.webhooks.receiver import receive
from duebox.destinations.webhooks.signatures import new_secret, signed_headers
from duebox.exceptions import InvalidSecret
from duebox.models import WebhookReceipt, Worker
from duebox.store import destinations as store
from tests.support import eventually

pytestmark = pytest.mark.django_db
SECRET = new_secret()
BODY = {"type": "order.paid", "data": {"total": 5}}


def a_request(body=None, *, id="msg_1", secret=SECRET, timestamp=None, factory=None, **headers):
    raw = json.dumps(BODY).encode() if body is None else body
    signed = signed_headers(id, int(time.time()) if timestamp is None else timestamp, raw, [secret])
    given = {name: value for name, value in {**signed, **headers}.items() if value is not None}
    return (factory or RequestFactory()).post("/hook", raw, content_type="application/json", headers=given)


def a_view(result=None, **options):
    """Remembers what it got, in a list and in a table."""
    seen = []

    @receive(**{"secrets": [SECRET], "source": "acme", **options})
    def view(request, event, **kwargs):
        seen.append(event)
        Worker.objects.create(name="written", expires_at=timezone.now())
        if isinstance(result, Exception):
            raise result
        return result

    return view, seen


def written():
    return Worker.objects.filter(name="written").count()


def test_a_signed_webhook_reaches_the_view_as_json():
    view, seen = a_view(HttpResponse("thanks", status=201))
    response = view(a_request())
    assert (response.status_code, response.content, seen) == (201, b"thanks", [BODY])
    assert (WebhookReceipt.objects.get().source, WebhookReceipt.objects.get().webhook_id) == ("acme", "msg_1")


def test_a_view_need_not_answer():
    assert a_view(None)[0](a_request()).status_code == 204


def test_a_repeat_is_answered_without_the_view():
    view, seen = a_view()
    view(a_request())
    assert view(a_request(timestamp=int(time.time()) - 10)).status_code == 200
    assert view(a_request(id="msg_2")).status_code == 204
    assert len(seen) == 2
    assert written() == 2


def test_the_same_id_from_somebody_else_is_something_else():
    for source in ("acme", "other"):
        assert a_view(source=source)[0](a_request()).status_code == 204
    assert WebhookReceipt.objects.count() == 2


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "nonsense \x7f ,,,"},
        {"webhook-signature": None},
        {"webhook-id": None},
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": "yesterday"},
        {"webhook-timestamp": "1"},
    ],
)
def test_what_is_not_signed_rightly_is_401(headers):
    view, seen = a_view()
    assert view(a_request(**headers)).status_code == 401
    assert seen == []
    assert not WebhookReceipt.objects.exists()


def test_an_old_one_and_a_wrong_secret_are_401():
    view, seen = a_view(tolerance=300)
    assert view(a_request(timestamp=int(time.time()) - 400)).status_code == 401
    assert view(a_request(secret=new_secret())).status_code == 401
    assert seen == []


def test_a_body_that_was_changed_is_401():
    view, _ = a_view()
    request = a_request()
    request._body = b"{}"
    assert view(request).status_code == 401


def test_either_secret_will_do_while_one_is_replaced():
    older = new_secret()
    view, _ = a_view(secrets=[SECRET, older])
    assert view(a_request(secret=older)).status_code == 204


def test_secrets_and_source_may_depend_on_the_request():
    secrets = {"a": [SECRET], "b": []}
    view, _ = a_view(
        secrets=lambda request: secrets[request.headers["X-Tenant"]], source=lambda r: r.headers["X-Tenant"]
    )
    assert view(a_request(**{"X-Tenant": "a"})).status_code == 204
    assert view(a_request(**{"X-Tenant": "b"})).status_code == 401
    assert WebhookReceipt.objects.get().source == "a"


def test_a_secret_of_ones_own_that_is_none_is_ones_own_mistake():
    with pytest.raises(InvalidSecret):
        a_view(secrets=["oops"])[0](a_request())


@pytest.mark.parametrize("said", ["2001", None])
def test_too_much_is_refused_and_not_held_in_memory(said):
    view, _ = a_view(largest=2000)
    body = b'"' + b"x" * 1999 + b'"'
    request = a_request(body)
    if said is None:
        del request.META["CONTENT_LENGTH"]
        request._stream = request.environ["wsgi.input"]
    assert view(request).status_code == 413
    assert not hasattr(request, "_body") or len(request._body) <= 2001
    assert view(a_request(b'"' + b"x" * 1998 + b'"', id="fits")).status_code == 204


def test_too_much_is_refused_in_an_async_view_although_no_length_was_said():
    @receive(secrets=[SECRET], source="acme", largest=2000)
    async def view(request, event): ...

    request = a_request(b'"' + b"x" * 100_000 + b'"', factory=AsyncRequestFactory())
    request.META.pop("CONTENT_LENGTH", None)
    assert async_to_sync(view)(request).status_code == 413
    assert len(request._body) == 2001


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_signed_but_no_json_is_400(body):
    assert a_view()[0](a_request(body)).status_code == 400
    assert not WebhookReceipt.objects.exists()


def test_a_length_that_is_no_number_is_401():
    request = a_request()
    request.META["CONTENT_LENGTH"] = "many"
    assert a_view()[0](request).status_code == 401


def test_only_post_is_taken():
    assert a_view()[0](RequestFactory().get("/hook")).status_code == 405


def test_no_token_against_forgery_is_asked_for():
    assert a_view()[0].csrf_exempt


def test_a_view_that_fails_leaves_nothing_and_runs_again():
    view, seen = a_view(ValueError("no"))
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            view(a_request())
    assert len(seen) == 2
    assert (written(), WebhookReceipt.objects.count()) == (0, 0)


@pytest.mark.parametrize("status", [301, 302, 304, 307, 400, 409, 500, 503])
def test_a_view_that_answers_with_anything_but_2xx_leaves_nothing(status):
    view, _ = a_view(HttpResponse(status=status))
    assert view(a_request()).status_code == status
    assert (written(), WebhookReceipt.objects.count()) == (0, 0)


def test_what_was_sent_to_the_login_is_not_taken_for_received():
    answers = [HttpResponseRedirect("/login"), HttpResponse("thanks")]

    @receive(secrets=[SECRET], source="acme")
    def view(request, event):
        return answers.pop(0)

    assert view(a_request()).status_code == 302
    assert view(a_request()).content == b"thanks"


def test_what_the_url_says_is_passed_on():
    @receive(secrets=[SECRET], source="acme")
    def view(request, event, shop):
        return HttpResponse(shop)

    assert view(a_request(), shop="north").content == b"north"


def test_an_async_view_gets_it_in_the_same_transaction():
    inside = []

    @receive(secrets=[SECRET], source="acme")
    async def view(request, event):
        await Worker.objects.acreate(name="written", expires_at=timezone.now())
        inside.append((event, await WebhookReceipt.objects.acount()))
        return HttpResponse(status=event.get("answer", 200))

    ask = async_to_sync(view)
    assert ask(a_request(factory=AsyncRequestFactory())).status_code == 200
    assert ask(a_request(factory=AsyncRequestFactory())).status_code == 200
    assert inside == [(BODY, 1)]
    failing = json.dumps({"answer": 500}).encode()
    assert ask(a_request(failing, id="msg_2", factory=AsyncRequestFactory())).status_code == 500
    assert (written(), WebhookReceipt.objects.count()) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_two_of_the_same_at_the_same_time_run_the_view_once():
    began, go, answers, seen = threading.Event(), threading.Event(), [], []

    @receive(secrets=[SECRET], source="acme")
    def view(request, event):
        seen.append(event)
        began.set()
        assert go.wait(10)

    def ask():
        try:
            answers.append(view(a_request()).status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    assert began.wait(10)
    threads[1].start()
    eventually(waits_for_a_lock)
    go.set()
    for each in threads:
        each.join(10)
    assert sorted(answers) == [200, 204]
    assert len(seen) == 1


def waits_for_a_lock():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]


def test_a_receipt_belongs_to_the_transaction_around_it():
    with transaction.atomic():
        assert store.record_webhook("default", "acme", "msg_1")
        transaction.set_rollback(True)
    assert store.record_webhook("default", "acme", "msg_1")
    assert not store.record_webhook("default", "acme", "msg_1")
