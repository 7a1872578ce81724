"""Formats are asserted: what a field is declared as, its text can be read as."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import duebox
from duebox.contracts import PII, read, validation
from duebox.contracts.class_schemas import data_of, schema_of
from duebox.contracts.examples import FORMATS as EXAMPLES
from duebox.contracts.examples import example
from duebox.contracts.validation import FORMATS, compiled
from duebox.events.payload import encode
from duebox.exceptions import InvalidContract, InvalidPayload
from duebox.models import Event
from duebox.testing import assert_emitted, drain
from tests.support import examples

WRONG = {
    "date-time": [
        "soon",
        "",
        "2027-01-01",
        "2027-01-01T00:00:00",  # naive
        "2027-01-01 00:00:00Z",
        "2027-01-01t00:00:00Z",
        "2027-01-01T00:00:00z",
        "2027-02-31T00:00:00Z",
        "2027-01-01T24:00:00Z",
        "2027-01-01T00:00Z",
        "2027-01-01T00:00:00.Z",
        "2027-01-01T00:00:00,5Z",
        "2027-01-01T00:00:00+0100",
        "2027-01-01T00:00:00+01",
        "2027-01-01T00:00:00+24:00",
        "2027-01-01T00:00:00+01:60",
        "2027-01-01T00:00:00+00:00:30",
        "2016-12-31T23:59:60Z",  # a leap second
        "2016-12-31T15:59:60-08:00",
        "2027-W01-1T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "\uff12027-01-01T00:00:00Z",
        " 2027-01-01T00:00:00Z",
        "2027-01-01T00:00:00Z\n",
    ],
    "date": ["tomorrow", "", "2027-02-31", "2027-02-29", "20270228", "2027-W01-1", "2027-1-1", "0000-01-01",
             "2027-01-01T00:00:00Z", "2027-01-01\n"],
    "time": ["soon", "09:00", "09:00:00", "09:00:00z", "24:00:00Z", "23:59:60Z"],
    "uuid": ["nope", "", "018f2f6a000070008000000000000000", "{018f2f6a-0000-7000-8000-000000000000}",
             "urn:uuid:018f2f6a-0000-7000-8000-000000000000", "018f2f6a-0000-7000-8000-0000000-0000-0"],
    "email": ["ada", "", "Ada <ada@example.com>"],
    "ipv4": ["192.0.2.256", "192.0.2"],
    "ipv6": ["2001:db8::g"],
    "json-pointer": ["lines"],
    "regex": ["("],
    "duration": ["a day", "P"],
    "uri": ["//", "no scheme"],
    "hostname": ["-a.example.com"],
}  # fmt: skip
RIGHT = {
    "date-time": ["2027-01-01T00:00:00Z", "2027-01-01T00:00:00.123456+05:30", "2024-02-29T23:59:59-00:00",
                  "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"],
    "date": ["2027-01-31", "2024-02-29", "0001-01-01", "9999-12-31"],
    "time": ["09:00:00Z", "09:00:00.5+02:00"],
    "uuid": [str(UUID(int=0)), "018F2F6A-0000-7000-8000-000000000000"],
    "email": ["ada@example.com", "ada+tag@mail.example.com"],
}  # fmt: skip
# The jsonschema package needs others for these.
ONLY_IN_RUST = {"duration", "hostname", "uri"}


@pytest.fixture(params=["jsonschema-rs", "jsonschema"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "jsonschema":
        monkeypatch.setattr(validation, "engine", None)
    return str(request.param)


def field(name: str, **words: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"it": {"type": "string", "format": name, **words}}}


@pytest.mark.parametrize(
    ("library", "name", "text"),
    [
        (library, name, text)
        for library in ("jsonschema-rs", "jsonschema")
        for name, texts in WRONG.items()
        for text in texts
        if library == "jsonschema-rs" or name not in ONLY_IN_RUST
    ],
    indirect=["library"],
)
def test_a_text_that_is_not_of_the_format_is_refused(library, name, text):
    validator = compiled(field(name))
    assert not validator.is_valid({"it": text})
    wrong = next(validator.errors({"it": text}))
    assert (wrong.place, wrong.keyword, wrong.limit) == ("data.it", "format", name)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in RIGHT.items() for text in texts])
def test_a_text_of_the_format_is_taken(library, name, text):
    assert compiled(field(name)).is_valid({"it": text})


def test_a_value_of_another_type_is_not_the_formats_business(library):
    assert compiled({"properties": {"it": {"format": "date-time"}}}).is_valid({"it": 7})


def test_a_pattern_beside_the_format_counts_as_well(library):
    validator = compiled(field("date-time", pattern="^2027"))
    assert validator.is_valid({"it": "2027-01-01T00:00:00Z"})
    assert not validator.is_valid({"it": "2026-01-01T00:00:00Z"})
    assert next(validator.errors({"it": "2026-01-01T00:00:00Z"})).keyword == "pattern"
    assert not validator.is_valid({"it": "2027-01-01T00:00:00z"})
    assert next(validator.errors({"it": "2027-01-01T00:00:00z"})).keyword == "format"


def test_a_property_that_is_called_format_is_a_property(library):
    assert compiled({"properties": {"format": {"type": "string"}}}).is_valid({"format": "date-time"})


def test_a_name_that_json_schema_does_not_know_asserts_nothing(library):
    assert compiled(field("shoe-size")).is_valid({"it": "large"})


MOMENT = compiled(field("date-time"))
MOMENTS = st.datetimes(timezones=st.none() | st.timezones())


@given(st.text(alphabet="0123456789-:.+TZtz W", max_size=30) | MOMENTS.map(str) | MOMENTS.map(datetime.isoformat))
@settings(max_examples=examples(300), deadline=None)
def test_both_libraries_agree_and_what_they_take_can_be_read(text):
    fast = compiled(field("date-time"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "engine", None)
        slow = compiled(field("date-time"))
    assert fast.is_valid({"it": text}) == slow.is_valid({"it": text})
    if fast.is_valid({"it": text}):
        assert datetime.fromisoformat(text).tzinfo is not None


@given(st.datetimes(timezones=st.timezones() | st.timedeltas(-timedelta(hours=23), timedelta(hours=23)).map(timezone)))
@settings(max_examples=examples(300), deadline=None)
def test_every_aware_datetime_that_is_sent_can_be_sent(moment):
    def check(data: Any) -> None:
        assert MOMENT.is_valid(data), data

    edge = moment.year in (1, 9999) and pytest.raises(InvalidPayload, match="has no year in UTC")
    try:
        encode({"it": moment}, limit=1_000, depth=3, check=check)
    except InvalidPayload:
        with edge or nullcontext():
            encode({"it": moment}, limit=1_000, depth=3)


@pytest.mark.parametrize("name", sorted(ONLY_IN_RUST))
def test_a_format_that_the_slow_library_cannot_check_is_refused_where_it_is_declared(name, monkeypatch):
    monkeypatch.setattr(validation, "engine", None)
    with pytest.raises(InvalidContract, match=rf"The format '{name}' cannot be checked here: .*pip install"):
        compiled(field(name))
    assert compiled(field(name), formats=False).is_valid({"it": "-"})


def test_the_formats_of_annotations_need_no_optional_package(monkeypatch):
    """`jsonschema` goes on in silence where a package such as `rfc3339-validator` is missing."""
    monkeypatch.setattr(validation, "engine", None)
    monkeypatch.setattr(Draft202012Validator.FORMAT_CHECKER, "checkers", {})
    for name in ("date-time", "date", "time", "uuid"):
        assert not compiled(field(name)).is_valid({"it": "soon"})


@pytest.fixture
def tested(declare: Any) -> type[Any]:
    @declare("thing.tested", public={"when", "day", "uid"})
    class Tested:
        when: datetime
        day: date
        uid: UUID
        email: Annotated[str, {"format": "email"}, PII] = "ada@example.com"

    return Tested


GOOD = {"when": "2027-01-01T00:00:00Z", "day": "2027-01-31", "uid": "018f2f6a-0000-7000-8000-000000000000"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("when", "soon", "must be a date and time with an offset, as in 2027-01-31T09:00:00Z"),
        ("when", "2027-01-01T00:00:00", "must be a date and time with an offset, as in 2027-01-31T09:00:00Z"),
        ("day", "tomorrow", "must be a date, as in 2027-01-31"),
        ("day", "2027-02-31", "must be a date, as in 2027-01-31"),
        ("uid", "nope", "must be a UUID"),
    ],
)
@pytest.mark.parametrize("form", ["dict", "class"])
def test_nothing_is_stored_that_is_not_what_its_field_says(tested, form, name, text, rule):
    given = {**GOOD, name: text}
    event = ["thing.tested", given] if form == "dict" else [tested(**given)]
    with pytest.raises(InvalidPayload) as refused:
        duebox.emit(*event, organization=1)
    assert refused.value.path == f"data.{name}"
    assert f"is {text!r} and {rule} (thing.tested v1)" in str(refused.value)
    assert not Event.objects.exists()


@pytest.mark.django_db
def test_a_datetime_without_a_zone_is_refused_in_a_class_as_well(tested):
    with pytest.raises(InvalidPayload, match=r"data.when: is a naive datetime"):
        duebox.emit(tested(**{**GOOD, "when": datetime(2027, 1, 1)}), organization=1)


@pytest.mark.django_db
def test_personal_data_is_not_repeated_when_its_format_is_wrong(tested):
    with pytest.raises(InvalidPayload) as refused:
        duebox.emit("thing.tested", {**GOOD, "email": "grace.hopper"}, organization=1)
    assert "grace" not in str(refused.value)
    assert "data.email: is personal data, not shown, and must be an e-mail address" in str(refused.value)


@pytest.mark.django_db
def test_the_public_event_has_the_same_formats(tested):
    moment = datetime(2027, 1, 1, tzinfo=UTC)
    duebox.emit(tested(when=moment, day=date(2027, 1, 31), uid=UUID(GOOD["uid"])), organization=1)
    twin = assert_emitted("public.thing.tested")
    assert twin.data == {"when": "2027-01-01T00:00:00+00:00", "day": "2027-01-31", "uid": GOOD["uid"]}
    kind = duebox.contracts.event_types.latest("public.thing.tested")
    with pytest.raises(InvalidPayload, match=r"data\.when"):
        kind.check({**GOOD, "when": "soon"})


@pytest.mark.django_db
def test_what_was_emitted_can_be_read_in_the_handler(tested, on):
    seen: list[Any] = []
    on("thing.tested", name="it")(lambda event: seen.append(read(event, tested)))
    sent = tested(when=datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Paris")), day=date(2027, 1, 31), uid=uuid4())
    duebox.emit(sent, organization=1)
    drain()
    assert seen == [sent]
    assert seen[0].when.utcoffset() == timedelta(
        0
    )  # Paris was nine minutes and 21 seconds ahead, which no text can say


def test_every_format_has_an_example_that_is_one(library):
    assert set(EXAMPLES) == FORMATS
    for name in FORMATS:
        if library == "jsonschema-rs":
            assert compiled(field(name)).is_valid({"it": EXAMPLES[name]})


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("words", [{}, {"minLength": 1}, {"maxLength": 200}])
def test_an_example_for_documents_satisfies_the_format(name, words):
    made = example({**field(name, **words), "required": ["it"]})
    assert made is not None
    assert compiled(field(name)).is_valid(made)


class Opened(pydantic.BaseModel):
    at: time
    lasts: timedelta


class Closed(msgspec.Struct):
    at: time
    lasts: timedelta


class Logged(msgspec.Struct):
    at: datetime
    ended: datetime | None
    others: list[datetime]
    by_name: dict[str, Annotated[datetime, "When"]]
    cost: Decimal
    prices: tuple[Decimal, time]


@pytest.mark.parametrize("shape", [Opened, Closed])
def test_times_and_durations_of_other_libraries_are_what_these_write(shape):
    """What pydantic and msgspec call `time` and `duration` is not what JSON Schema calls so."""
    check = compiled(schema_of(shape))
    for lasts in (timedelta(hours=36), timedelta(seconds=0.5), -timedelta(days=1), timedelta(0)):
        data = data_of(shape(at=time(9, 30), lasts=lasts))
        assert check.is_valid(data), data
    assert not check.is_valid({"at": "soon", "lasts": "P1D"})
    assert not check.is_valid({"at": "09:30:00", "lasts": "a day"})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("at", "soon"),
        ("at", "2027-01-01T00:00:00"),
        ("ended", "soon"),
        ("others", ["soon"]),
        ("by_name", {"a": "soon"}),
        ("cost", "much"),
        ("prices", ["much", "09:00:00"]),
        ("prices", ["9.50", "early"]),
    ],
)
def test_what_msgspec_calls_a_text_has_its_format(name, wrong):
    now = datetime(2027, 1, 1, tzinfo=UTC)
    one = Logged(now, None, [now], {"a": now}, Decimal("9.50"), (Decimal("9.50"), time(9)))
    check, data = compiled(schema_of(Logged)), data_of(one)
    assert check.is_valid(data)
    assert not check.is_valid({**data, name: wrong})
