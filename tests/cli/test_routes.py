from __future__ import annotations

import json

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

from duebox.models import WebhookEndpoint
from tests.app.outside import Post

POST = "tests.app.outside.Post"
DEAR = {"data": {"total": [{"numeric": [">", 100]}]}}


@pytest.fixture(autouse=True)
def configured(on, declare):
    @declare("order.paid")
    class Paid:
        total: int

    on("order.*", name="shop.greet")(lambda event: None)
    on("member.invited", name="shop.invite")(lambda event: None)
    settings = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {alias: {"BACKEND": POST} for alias in ("bus", "risk", "nobody")},
        "ROUTES": [{"match": "order.paid", "to": "bus"}, {"match": DEAR, "to": "risk"}],
    }
    with override_settings(DUEBOX=settings):
        yield
    Post.boxes.clear()


def lines(capsys, *words):
    call_command("duebox", "events", "routes", *words)
    return capsys.readouterr().out.splitlines()


def told(capsys, *words):
    return {each["subscriber"]: each for each in map(json.loads, lines(capsys, *words, "--json"))}


def test_it_says_who_receives_an_event_and_why(capsys):
    found = told(capsys, "order.paid")
    assert found["shop.greet"]["why"] == "its type matches 'order.*'"
    assert found["to:bus"] == {
        "subscriber": "to:bus",
        "receives": "yes",
        "why": "its type",
        "type": "order.paid",
        "endpoints": None,
    }
    assert found["to:risk"]["receives"] == "perhaps"
    assert "shop.invite" not in found
    assert "to:nobody" not in found


def test_with_data_a_pattern_is_decided(capsys):
    assert told(capsys, "order.paid", "--data", '{"total": 150}')["to:risk"]["receives"] == "yes"
    found = told(capsys, "order.paid", "--data", '{"total": 50}', "--all")["to:risk"]
    assert found["receives"] == "no"
    assert "data.total is 50" in found["why"]


def test_it_says_why_somebody_does_not_receive_it(capsys):
    found = told(capsys, "order.paid", "--all")
    assert found["shop.invite"]["why"] == "its type does not match 'member.invited'"
    assert found["to:nobody"]["why"] == "it has no route"


def test_a_table_for_people(capsys):
    head, *rows = lines(capsys, "order.paid")
    assert head.split() == ["subscriber", "receives", "because"]
    assert any(row.startswith("to:bus") for row in rows)


def test_without_a_type_all_routes_are_listed(capsys):
    assert any(line.split()[:2] == ["to:bus", "order.paid"] for line in lines(capsys))
    assert told(capsys)["to:bus"]["types"] == 1


def test_a_type_that_nobody_declared_is_refused_with_a_hint(capsys):
    with pytest.raises(CommandError, match=r"did you mean 'order\.paid'"):
        call_command("duebox", "events", "routes", "ordr.paid")


def test_nobody_is_said_so(capsys, declare):
    @declare("room.cleaned")
    class Cleaned:
        number: int

    with override_settings(DUEBOX={"UNDECLARED": "allow"}):
        assert "No subscriber receives room.cleaned" in lines(capsys, "room.cleaned")[0]


@pytest.mark.parametrize(("text", "problem"), [("3", "3 is not a JSON object"), ("{", "{ is not JSON")])
def test_data_that_is_no_object_is_refused_in_words(text, problem):
    with pytest.raises(CommandError, match=problem):
        call_command("duebox", "events", "routes", "order.paid", "--data", text)


@pytest.fixture
def hooks(declare):
    @declare("invoice.paid", public={"total"})
    class InvoicePaid:
        total: int
        note: str = ""

    entry = {"BACKEND": "duebox.destinations.webhooks.Webhooks"}
    with override_settings(DUEBOX={"UNDECLARED": "allow", "DESTINATIONS": {"hooks": entry}}):
        yield entry


@pytest.fixture
def endpoints(db):
    for organization, types in [("7", ["*"]), ("7", ["invoice.*"]), ("8", ["invoice.paid"]), ("8", ["order_x.*"])]:
        WebhookEndpoint.objects.create(organization=organization, url="https://example.com/", types=types, secret="x")
    WebhookEndpoint.objects.create(
        organization="7", url="https://example.com/", types=["*"], secret="x", disabled_at=timezone.now()
    )


def test_of_a_public_event_it_says_how_many_endpoints_want_it(capsys, hooks, endpoints):
    found = told(capsys, "public.invoice.paid")["fan-out:hooks"]
    assert found["why"] == "its type matches 'public.*'; 3 enabled endpoints subscribe to it"
    assert (found["type"], found["endpoints"]) == ("public.invoice.paid", 3)
    found = told(capsys, "public.invoice.paid", "--organization", "8")["fan-out:hooks"]
    assert found["why"] == "its type matches 'public.*'; 1 enabled endpoint of '8' subscribes to it"
    assert told(capsys, "public.invoice.paid", "--organization", "9")["fan-out:hooks"]["endpoints"] == 0


def test_an_event_with_a_public_twin_is_told_with_who_receives_that(capsys, hooks, endpoints):
    found = told(capsys, "invoice.paid")["fan-out:hooks"]
    assert found["why"] == "as public.invoice.paid: its type matches 'public.*'; 3 enabled endpoints subscribe to it"
    assert (found["type"], found["receives"], found["endpoints"]) == ("public.invoice.paid", "yes", 3)
    assert "fan-out:hooks" in told(capsys, "invoice.paid", "--data", '{"total": 1, "note": "x"}')
    assert "No subscriber receives" not in "".join(lines(capsys, "invoice.paid"))


def test_a_twin_is_judged_by_what_it_shows(capsys, hooks, endpoints):
    match = {"event_type": [{"prefix": "public."}], "data": {"note": ["x"]}}
    settings = {"DESTINATIONS": {"hooks": hooks}, "ROUTES": [{"match": match, "to": "hooks"}]}
    with override_settings(DUEBOX=settings):
        assert told(capsys, "invoice.paid")["fan-out:hooks"]["receives"] == "perhaps"
        assert "fan-out:hooks" not in told(capsys, "invoice.paid", "--data", '{"total": 1, "note": "x"}')


def test_an_event_that_is_not_public_goes_to_no_endpoint(capsys, hooks, endpoints):
    assert "fan-out:hooks" not in told(capsys, "order.paid")
    said = told(capsys, "order.paid", "--all")["fan-out:hooks"]
    assert (said["receives"], said["why"]) == ("no", "webhooks receive public events only")
    match = {"event_type": [{"prefix": "public."}, {"prefix": "order."}]}
    with override_settings(DUEBOX={"DESTINATIONS": {"hooks": hooks}, "ROUTES": [{"match": match, "to": "hooks"}]}):
        assert "fan-out:hooks" not in told(capsys, "order.paid")
        assert told(capsys, "invoice.paid")["fan-out:hooks"]["endpoints"] == 3


def test_without_a_database_it_says_so_and_goes_on(start, nowhere):
    settings = {"DESTINATIONS": {"hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"}}}
    done = start(
        "duebox",
        "events",
        "routes",
        "public.order.paid",
        "--json",
        DUEBOX_TEST_SETTINGS=json.dumps(settings),
        **nowhere,
    )
    out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    assert "the number of endpoints is unknown" in json.loads(out)["why"]
    assert json.loads(out)["endpoints"] is None
