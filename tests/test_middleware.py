"""The correlation id of a request: believed or made, bound while the request lasts, returned with the answer."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.core.handlers.asgi import ASGIHandler
from django.test import AsyncClient, Client, RequestFactory

import duebox
from duebox.context import bound, origin
from duebox.context.current import Who
from duebox.context.origins import of_request, who_asks
from duebox.events.fact import Actor
from duebox.exceptions import InvalidEvent
from duebox.models import Event
from duebox.testing import drain
from tests.servers import ask_asgi, wsgi_server

HEADER = "X-Correlation-ID"
SEVEN, ONE = Actor("user", "7"), Actor("user", "1")
ALLOWED = "abc", "0", "A-1", "018f.x_y:z-1", "a" * 128

# As bytes, which is how they arrive. WSGI and ASGI hand them over as Latin-1.
ATTACKS = {
    "a newline": b"abc\nX-Evil: 1",
    "a newline at its end": b"abc\n",
    "a carriage return": b"abc\rdef",
    "both": b"abc\r\nSet-Cookie: a=b",
    "16 KB": b"a" * 16_384,
    "one character too many": b"a" * 129,
    "a null byte": b"abc\x00def",
    "an escape sequence": b"\x1b[31mred",
    "a delete": b"abc\x7f",
    "a control character above ASCII": b"abc\x85def",
    "two joined with a comma": b"abc,def",
    "a comma at its end": b"abc,",
    "UTF-8": "café".encode(),
    "a line separator": "abc\u2028def".encode(),
    "digits of another script": "\u0663".encode(),
    "a space": b"abc def",
    "a quote": b"abc'\"",
    "markup": b"<script>alert(1)</script>",
    "a format": b"%s%(message)s{0}",
    "a beginning that is no letter": b"-abc",
}
# What a socket cannot carry inside one header, because a line ends there.
ENDS_THE_LINE = {"a newline", "a newline at its end", "a carriage return", "both"}
by_name = pytest.mark.parametrize("name", ATTACKS)


def cors(get_response):
    def answer(request):
        response = get_response(request)
        for name, value in (pair.split("=") for pair in request.GET.getlist("header")):
            response[name] = value
        return response

    return answer


def login(get_response):
    def answer(request):
        request.user = SimpleNamespace(pk=7, is_authenticated=True)
        return get_response(request)

    return answer


@pytest.fixture(autouse=True)
def _installed(settings):
    settings.MIDDLEWARE = ["duebox.middleware.CorrelationMiddleware"]


@pytest.fixture
def refusals(caplog):
    """The lines in which an id was refused. Each is safe: one line of printable ASCII, and not long."""

    def said():
        lines = [record.getMessage() for record in caplog.records if record.name == "duebox.requests"]
        assert all(line.isascii() and line.isprintable() and len(line) < 250 for line in lines)
        return lines

    return said


def assert_refused(answer, raw, refusals):
    fresh = answer.headers[HEADER]
    assert UUID(fresh).version == 7
    assert answer.status == 200
    [line] = refusals()
    assert line.endswith(f"instead={fresh}")
    assert f"length={len(raw)} " in line
    if len(raw) > 100 or not raw.isascii():
        assert raw.decode("latin-1") not in line
    assert "X-Evil" not in answer.headers
    assert "Set-Cookie" not in answer.headers


def told(**headers):
    return Client(headers=headers).get("/tell").json()


@pytest.mark.parametrize("given", ALLOWED)
def test_a_good_id_is_taken_and_returned(given, refusals):
    response = Client(headers={HEADER: given}).get("/tell")
    assert response.headers[HEADER] == response.json()["correlation_id"] == given
    assert refusals() == []


def test_a_request_without_an_id_gets_a_fresh_one_and_nobody_is_warned(refusals):
    first, second = (Client().get("/tell") for _ in range(2))
    assert UUID(first.headers[HEADER]).version == 7
    assert first.headers[HEADER] == first.json()["correlation_id"] != second.headers[HEADER]
    assert refusals() == []


def test_an_empty_header_is_as_good_as_none(refusals):
    assert UUID(Client(headers={HEADER: ""}).get("/tell").headers[HEADER])
    assert refusals() == []


@by_name
def test_an_attack_through_the_test_client_is_refused(name, refusals):
    raw = ATTACKS[name]
    response = Client().get("/tell", HTTP_X_CORRELATION_ID=raw.decode("latin-1"))
    assert response.json()["correlation_id"] == response.headers[HEADER]
    assert_refused(SimpleNamespace(status=response.status_code, headers=response.headers), raw, refusals)


@by_name
def test_an_attack_through_asgi_is_refused(name, refusals):
    raw = ATTACKS[name]
    answer = asyncio.run(ask_asgi(ASGIHandler(), "/atell", (HEADER.encode(), raw)))
    assert_refused(answer, raw, refusals)


def test_attacks_through_a_socket_are_refused(caplog, refusals):
    with wsgi_server() as ask:
        for name in ATTACKS.keys() - ENDS_THE_LINE:
            caplog.clear()
            answer = ask("/tell", (HEADER.encode(), ATTACKS[name]))
            assert_refused(answer, ATTACKS[name], refusals)


def test_a_header_folded_over_two_lines_is_refused(refusals):
    with wsgi_server() as ask:
        answer = ask("/tell", (HEADER.encode(), b"abc\r\n def"))
    assert_refused(answer, b"abc\r\n def", refusals)


def test_a_line_that_a_newline_makes_is_another_header_and_never_comes_back(refusals):
    with wsgi_server() as ask:
        answer = ask("/tell", (HEADER.encode(), b"abc\r\nX-Evil: 1"))
    assert answer.headers[HEADER] == "abc"
    assert "X-Evil" not in answer.headers
    assert refusals() == []


@pytest.mark.parametrize("second", [b"def", b"abc", b""])
def test_two_headers_are_refused_behind_wsgi_and_asgi(second, caplog, refusals):
    twice = [(HEADER.encode(), b"abc"), (HEADER.encode(), second)]
    with wsgi_server() as ask:
        assert_refused(ask("/tell", *twice), b"abc," + second, refusals)
    caplog.clear()
    assert_refused(asyncio.run(ask_asgi(ASGIHandler(), "/tell", *twice)), b"abc," + second, refusals)
    assert "reason=repeated" in refusals()[0]


def test_a_header_with_underscores_does_not_count():
    with wsgi_server() as ask:
        assert ask("/tell", (b"X_Correlation_ID", b"abc")).headers[HEADER] != "abc"
    assert asyncio.run(ask_asgi(ASGIHandler(), "/tell", (b"x_correlation_id", b"abc"))).headers[HEADER] != "abc"


def test_what_is_logged_of_a_refused_id_is_cut_and_escaped(refusals):
    Client().get("/tell", HTTP_X_CORRELATION_ID="\x1b[31m" + "a" * 200)
    [line] = refusals()
    value = line.partition("value=")[2].partition(" ip=")[0]
    assert value == "'\\x1b[31m" + "a" * 68 + "..."
    assert len(value) == 80
    assert line.startswith("correlation id refused: reason=length length=205 value='")


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/fail", 500)])
def test_errors_carry_the_id_too(path, status):
    with wsgi_server() as ask:
        answer = ask(path, (HEADER.encode(), b"abc"))
    assert (answer.status, answer.headers[HEADER]) == (status, "abc")
    answer = asyncio.run(ask_asgi(ASGIHandler(), path, (HEADER.encode(), b"abc")))
    assert (answer.status, answer.headers[HEADER]) == (status, "abc")


def test_a_request_for_a_strange_host_is_answered_with_an_id_too(settings):
    settings.MIDDLEWARE += ["django.middleware.common.CommonMiddleware"]
    response = Client(headers={"Host": "evil.example", HEADER: "abc"}).get("/tell")
    assert (response.status_code, response.headers[HEADER]) == (400, "abc")


@pytest.mark.parametrize(
    ("there", "then"),
    [
        ([], None),
        (["Access-Control-Allow-Origin=*"], "X-Correlation-ID"),
        (["Access-Control-Allow-Origin=*", "Access-Control-Expose-Headers=ETag, Link"], "ETag, Link, X-Correlation-ID"),
        (["Access-Control-Expose-Headers=ETag"], "ETag, X-Correlation-ID"),
        (["Access-Control-Expose-Headers=x-correlation-id,ETag"], "x-correlation-id,ETag"),
        (["Access-Control-Expose-Headers=*"], "*, X-Correlation-ID"),
    ],
)
def test_other_origins_may_read_the_id_and_what_they_could_read_before(settings, there, then):
    settings.MIDDLEWARE += ["tests.test_middleware.cors"]
    response = Client().get("/tell", {"header": there})
    assert response.headers.get("Access-Control-Expose-Headers") == then


def test_nothing_is_bound_after_a_request():
    Client(headers={HEADER: "abc"}).get("/tell")
    assert origin.get() is None


def test_requests_that_run_at_the_same_time_do_not_see_each_other(refusals):
    async def all_of_them():
        handler = ASGIHandler()
        paths = ["/tell", "/atell", "/astream"]
        return await asyncio.gather(
            *(ask_asgi(handler, paths[n % 3], (HEADER.encode(), f"request-{n}".encode())) for n in range(60))
        )

    answers = asyncio.run(all_of_them())
    assert [answer.headers[HEADER] for answer in answers] == [f"request-{n}" for n in range(60)]
    assert all(f"request-{n}".encode() in answer.body for n, answer in enumerate(answers))
    assert origin.get() is None


def test_every_part_of_a_stream_belongs_to_its_request():
    response = Client(headers={HEADER: "abc"}).get("/stream")
    assert b"".join(response.streaming_content) == b"abc abc "
    assert origin.get() is None
    answer = asyncio.run(ask_asgi(ASGIHandler(), "/astream", (HEADER.encode(), b"abc")))
    assert answer.body == b"abc abc "


def test_a_stream_under_the_other_kind_of_server_still_works():
    with wsgi_server() as ask, pytest.warns(Warning, match="must consume asynchronous iterators"):
        assert ask("/astream", (HEADER.encode(), b"abc")).body.count(b"abc") == 2


@pytest.mark.django_db
def test_events_of_a_request_carry_its_id_and_its_user(settings):
    settings.MIDDLEWARE += ["tests.test_middleware.login"]
    Client(headers={HEADER: "abc"}).get("/open")
    stored = Event.objects.get()
    assert (stored.correlation_id, stored.actor) == ("abc", {"type": "user", "id": "7"})


@pytest.mark.django_db(transaction=True)
def test_events_of_an_async_view_carry_its_id():
    async_to_sync(AsyncClient().get)("/aopen", headers={HEADER: "abc"})
    assert Event.objects.get().correlation_id == "abc"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "ip"),
    [
        (0, None, "192.0.2.1"),
        (0, "203.0.113.9", "192.0.2.1"),
        (-1, "203.0.113.9, 1.1.1.1", "192.0.2.1"),
        (1, None, "192.0.2.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "1.1.1.1, 203.0.113.9", "203.0.113.9"),
        (2, "1.1.1.1, 203.0.113.9, 10.0.0.1", "203.0.113.9"),
        (2, "1.1.1.1,203.0.113.9,10.0.0.1", "203.0.113.9"),
        (2, "10.0.0.1", ""),
        (1, "203.0.113.9:4711", "203.0.113.9"),
        (1, "[2001:db8::1]:4711", "2001:db8::1"),
        (1, "[2001:db8::1]", "2001:db8::1"),
        (1, "2001:DB8:0:0::1", "2001:db8::1"),
        (1, "::ffff:203.0.113.9", "203.0.113.9"),
        (1, "fe80::1%eth0\x1b[31m", "fe80::1"),
        (1, "unknown", ""),
        (1, "_hidden", ""),
        (1, "203.0.113.9 evil", ""),
        (1, "203.0.113.9\r\nX-Evil: 1", ""),
        (1, "203.0.113.9,", ""),
        (1, "203.0.113.010", ""),
        (1, "\u0662.0.0.1", ""),
        (1, "999.0.0.1", ""),
        (1, "<script>", ""),
        (1, "1" * 16_384, ""),
        (2, "," * 16_384, ""),
        (3, "1.1.1.1, 203.0.113.9, garbage, 10.0.0.1", "203.0.113.9"),
    ],
)
def test_the_address_of_the_client_is_read_from_the_right(settings, proxies, forwarded, ip):
    settings.DUEBOX = {"TRUSTED_PROXIES": proxies}
    extra = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
    assert of_request(RequestFactory(REMOTE_ADDR="192.0.2.1").get("/", **extra)).ip == ip


@pytest.mark.parametrize(("remote", "ip"), [("", ""), ("unix:", ""), ("::1", "::1"), ("::ffff:192.0.2.1", "192.0.2.1")])
def test_the_address_of_the_connection_is_tidied_too(remote, ip):
    assert of_request(RequestFactory(REMOTE_ADDR=remote).get("/")).ip == ip


def test_the_user_agent_is_cut_and_has_no_control_characters():
    assert told(**{"User-Agent": "Mozilla/5.0 (X11)"})["user_agent"] == "Mozilla/5.0 (X11)"
    assert told(**{"User-Agent": "a\x00b\r\nc\x1b[31md\x7f\x85e"})["user_agent"] == "abc[31mde"
    assert told(**{"User-Agent": "a" * 5_000})["user_agent"] == "a" * 256
    assert told()["user_agent"] == ""


def a_request(**attributes):
    request = RequestFactory().get("/")
    for name, value in attributes.items():
        setattr(request, name, value)
    return request


def a_user(pk, *, known=True):
    return SimpleNamespace(pk=pk, is_authenticated=known)


def a_session(**values):
    session = SessionStore()
    session.update(values)
    return session


@pytest.mark.parametrize(
    ("attributes", "who"),
    [
        ({}, Who()),
        ({"user": a_user(None, known=False)}, Who()),
        ({"user": a_user(7)}, Who(Actor("user", "7"))),
        ({"user": a_user(7), "impersonator": None, "session": a_session()}, Who(Actor("user", "7"))),
        ({"user": a_user(7), "impersonator": a_user(1)}, Who(SEVEN, ONE)),
        ({"user": a_user(7), "session": a_session(hijack_history=["1"])}, Who(SEVEN, ONE)),
        (
            {"user": a_user(7), "session": a_session(hijack_history=["1", "5"])},
            Who(SEVEN, ONE),
        ),
        ({"user": a_user(7), "session": a_session(hijack_history=[])}, Who(Actor("user", "7"))),
    ],
)
def test_who_asks_is_the_user_and_the_one_behind(attributes, who):
    assert who_asks(a_request(**attributes)) == who


def test_the_user_is_asked_for_only_when_somebody_wants_to_know():
    class Shy:
        @property
        def is_authenticated(self):
            raise AssertionError("a query")

    here = of_request(a_request(user=Shy()))
    with pytest.raises(AssertionError, match="a query"):
        here.who()


def test_a_script_says_itself_where_its_work_comes_from():
    with bound(correlation_id="import-2027", actor="nightly") as here:
        assert origin.get() is here
        assert (here.correlation_id, here.who()) == ("import-2027", Who(Actor("user", "nightly")))
    assert origin.get() is None


def test_a_script_without_an_id_gets_a_fresh_one():
    with bound() as here:
        assert UUID(here.correlation_id).version == 7
        assert here.who() == Who()


def test_what_is_not_said_stays_as_it_is_outside():
    with bound(correlation_id="abc", actor=1):
        with bound(actor=a_user(2)) as inner:
            assert (inner.correlation_id, inner.who().actor) == ("abc", Actor("user", "2"))
        with bound(correlation_id="def") as inner:
            assert (inner.correlation_id, inner.who().actor) == ("def", Actor("user", "1"))


def test_a_decorated_function_is_a_new_story_with_every_call():
    @bound(actor="job")
    def job():
        return origin.get().correlation_id

    assert job() != job()


@pytest.mark.parametrize("given", [raw.decode("latin-1") for raw in ATTACKS.values()] + [""])
def test_a_script_cannot_bind_what_a_request_could_not_bring(given):
    with (
        pytest.raises(InvalidEvent, match=r"cannot be bound .*; pass 1 to 128 letters") as refused,
        bound(correlation_id=given),
    ):
        pass
    assert str(refused.value).isprintable()
    assert origin.get() is None


def test_an_actor_needs_an_id():
    with pytest.raises(InvalidEvent, match="actor='' must be 1 to 500 printable"), bound(actor=""):
        pass
    with pytest.raises(InvalidEvent, match=r"actor is a .*; pass a saved user"), bound(actor=a_user(None)):
        pass


@pytest.mark.django_db
def test_events_of_a_script_carry_what_it_said():
    with bound(correlation_id="import-2027", actor="nightly"):
        fact = duebox.emit("price.changed")
    assert (fact.correlation_id, fact.actor) == ("import-2027", Actor("user", "nightly"))


@pytest.mark.django_db
def test_a_handler_that_runs_inside_of_a_request_does_not_take_it_for_its_own(on):
    seen = []
    on("price.changed", name="it")(lambda event: seen.append(origin.get()))
    with bound(correlation_id="now") as here:
        duebox.emit("price.changed")
        drain()
        assert origin.get() is here
    assert seen == [None]


def test_a_refusal_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING, logger="duebox.requests"):
        Client(headers={HEADER: "a b"}).get("/tell")
    assert [record.levelno for record in caplog.records if record.name == "duebox.requests"] == [logging.WARNING]


def test_what_runs_after_its_call_cannot_be_bound_from_above():
    async def later():
        return None

    def in_parts():
        yield

    for function in (later, in_parts):
        with pytest.raises(TypeError, match=r"write `with bound\(\.\.\.\):` inside of it"):
            bound(actor="nightly")(function)
