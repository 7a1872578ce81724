"""`@duebox.on` with an event class: the handler gets typed data."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pydantic
import pytest

import duebox
from duebox.contracts import read
from duebox.events.subscribers import receivers_of
from duebox.exceptions import InvalidContract, InvalidPayload, InvalidSubscriber, UnsupportedVersion
from duebox.models import Attempt, Delivery
from duebox.testing import drain


@pytest.fixture
def paid(declare: Any) -> Any:
    @declare("order.paid")
    class OrderPaid:
        total: Decimal
        at: datetime
        note: str = ""

    return OrderPaid


NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.mark.django_db
def test_a_handler_of_a_class_gets_the_event_and_an_instance(paid, on):
    seen: list[Any] = []

    @on(paid)
    def book(event, order):
        seen.append((event.type, event.data["total"], order))

    duebox.emit(paid(total=Decimal("9.50"), at=NOON))
    drain()
    assert seen == [("order.paid", "9.50", paid(total=Decimal("9.50"), at=NOON))]


@pytest.mark.django_db
def test_it_gets_what_was_emitted_by_name_as_well(paid, on):
    seen: list[Any] = []
    on(paid, name="it")(lambda event, order: seen.append(order))
    duebox.emit("order.paid", {"total": "1", "at": "2027-01-31T12:00:00Z"})
    drain()
    assert seen == [paid(total=Decimal(1), at=NOON)]


@pytest.mark.django_db
def test_a_handler_of_a_class_may_take_the_event_alone(paid, on):
    seen: list[Any] = []
    on(paid, name="alone")(lambda event: seen.append(event.data["total"]))

    @on(paid, name="with-default")
    def own(event, place=seen):
        place.append("its own default")

    duebox.emit(paid(total=Decimal(1), at=NOON))
    drain()
    assert sorted(seen) == ["1", "its own default"]


@pytest.mark.django_db(transaction=True)
def test_an_async_handler_gets_it_too(paid, on):
    seen: list[Any] = []

    @on(paid, atomic=False)
    async def book(event, order):
        seen.append(order.total)

    duebox.emit(paid(total=Decimal(1), at=NOON))
    drain()
    assert seen == [Decimal(1)]


@pytest.mark.django_db
def test_pydantic_models_come_back_as_such(declare, on):
    @declare("seat.sold")
    class SeatSold(pydantic.BaseModel):
        row: int

    seen: list[Any] = []
    on(SeatSold, name="it")(lambda event, seat: seen.append(seat))
    duebox.emit(SeatSold(row=3))
    drain()
    assert seen == [SeatSold(row=3)]


@pytest.fixture
def versions(declare: Any) -> Any:
    @declare("member.named")
    class V1:
        name: str

    def split(data: dict[str, Any]) -> dict[str, Any]:
        return dict(zip(("first", "last"), data["name"].split(" "), strict=True))

    @declare("member.named", version=2, upcast=split)
    class V2:
        first: str
        last: str

    @declare("member.named", version=3)
    class V3:
        whole: str

    return V1, V2, V3


@pytest.mark.django_db
def test_old_events_are_upcast_to_the_version_of_the_class(versions, on):
    v1, v2, _ = versions
    seen: list[Any] = []
    on(v2, name="it")(lambda event, named: seen.append((event.version, event.data["first"], named)))
    duebox.emit(v1(name="Ada Lovelace"))
    duebox.emit(v2(first="Grace", last="Hopper"))
    drain()
    assert seen == [(2, "Ada", v2(first="Ada", last="Lovelace")), (2, "Grace", v2(first="Grace", last="Hopper"))]


@pytest.mark.django_db
def test_the_class_of_an_older_version_gets_its_own_version(versions, on):
    seen: list[Any] = []
    on(versions[0], name="it")(lambda event, named: seen.append((event.version, named)))
    duebox.emit(versions[0](name="Ada Lovelace"))
    drain()
    assert seen == [(1, versions[0](name="Ada Lovelace"))]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sent", "asked", "repair"),
    [
        (1, 0, "as V1 (version 1); subscribe with the class of version 2."),
        (1, 2, "as V3 (version 3); give version 3 an upcast=, or subscribe by name and look at event.version."),
    ],
)
def test_what_cannot_be_brought_to_the_version_of_the_class_fails_and_says_so(versions, on, sent, asked, repair):
    on(versions[asked], name="it")(lambda event, named: None)
    fact = duebox.emit(versions[sent](first="Ada", last="Lovelace"))
    with pytest.raises(UnsupportedVersion) as error:
        drain()
    assert str(error.value) == f"Event 'member.named' has version 2, which nothing here reads {repair}"
    assert Delivery.objects.get(event_id=fact.id).status == "pending"


@pytest.mark.django_db
def test_stored_data_that_is_not_what_the_class_says_is_a_failure_without_its_values(paid, on):
    on(paid, name="it")(lambda event, order: None)
    fact = duebox.emit(paid(total=Decimal(1), at=NOON))
    broken = fact.as_version(1, '{"total": "secret", "at": "2027-01-31T12:00:00Z"}')
    with pytest.raises(InvalidPayload) as error:
        read(broken, paid)
    assert str(error.value).startswith("data.total: is a text and violates pattern")
    assert "secret" not in str(error.value)
    assert not Attempt.objects.exists()


@pytest.mark.django_db
def test_fields_that_newer_code_added_are_left_out(paid):
    fact = duebox.emit(paid(total=Decimal(1), at=NOON))
    more = fact.as_version(1, '{"total": "2", "at": "2027-01-31T12:00:00Z", "coupon": "X"}')
    assert read(more, paid) == paid(total=Decimal(2), at=NOON)


@pytest.mark.django_db
def test_an_event_is_not_read_as_the_class_of_another_type(paid, versions):
    fact = duebox.emit(versions[0](name="Ada Lovelace"))
    with pytest.raises(InvalidContract, match=r"OrderPaid declares 'order.paid', and the event is 'member.named'"):
        read(fact, paid)


def test_subscribing_with_a_class_means_its_type(paid, on):
    on(paid, name="it")(lambda event: None)
    assert [each.name for each in receivers_of("order.paid")] == ["it"]
    assert receivers_of("order.paid_late") == ()


def test_the_bare_decorator_says_what_to_write(on):
    with pytest.raises(InvalidSubscriber) as error:

        @on
        def greet(event):
            pass

    assert "@duebox.on above tests.events.test_typed_handlers." in str(error.value)
    assert "greet (line " in str(error.value)
    assert str(error.value).endswith(
        "does not say which events; write @duebox.on('order.paid') with a pattern, or @duebox.on(OrderPaid) with an "
        "event class."
    )


@pytest.mark.parametrize("options", [{}, {"name": "it", "retry": 3}])
def test_empty_brackets_say_what_to_write(options):
    with pytest.raises(InvalidSubscriber) as error:
        duebox.on(**options)
    assert str(error.value) == (
        "@duebox.on() does not say which events; write @duebox.on('order.paid') with a pattern, or "
        "@duebox.on(OrderPaid) with an event class."
    )


def test_a_class_that_declares_no_event_is_refused(on):
    @dataclass
    class Undeclared:
        total: int

    with pytest.raises(InvalidSubscriber, match=r"Undeclared declares no event; write @duebox.event\('order.paid'\)"):
        on(Undeclared)


def test_several_events_are_refused_with_the_way_to_have_them(paid, versions, on):
    with pytest.raises(InvalidSubscriber, match=r"got 2 events; .* one @duebox.on\(..., name=...\) above it for each"):
        on(paid, versions[0])


def test_what_is_neither_a_pattern_nor_a_class_is_refused(on):
    with pytest.raises(InvalidSubscriber, match=r"got 7; give it a pattern such as 'order.paid', or an event class"):
        on(7)


@pytest.mark.parametrize("many", [lambda event, one, two: None, lambda: None])
def test_a_handler_of_a_class_that_cannot_be_called_is_refused(paid, on, many):
    with pytest.raises(InvalidSubscriber, match=r"write it as def <lambda>\(event\) or def <lambda>\(event, data\)"):
        on(paid, name="it")(many)


def test_a_handler_of_a_pattern_that_wants_data_learns_how_to_get_it(on):
    with pytest.raises(InvalidSubscriber, match="subscribe with an event class to get its data as a second argument"):
        on("order.paid", name="it")(lambda event, data: None)


TYPED = """
from __future__ import annotations

import duebox

@duebox.event("order.paid")
class OrderPaid:
    total: int

@duebox.on(OrderPaid)
def book(event: duebox.Fact, paid: OrderPaid) -> None:
    reveal_type(paid.total)

@duebox.on(OrderPaid, name="alone", atomic=False)
def alone(event: duebox.Fact) -> None: ...

@duebox.on("order.*")
async def all_of_them(event: duebox.Fact) -> None: ...

@duebox.on(OrderPaid)
def wrong(event: duebox.Fact, paid: str) -> None: ...
"""


@pytest.mark.soak
def test_a_type_checker_knows_the_second_argument(tmp_path):
    (tmp_path / "handlers.py").write_text(TYPED)
    root = Path(duebox.__file__).parents[2]
    told = subprocess.run(
        [sys.executable, "-m", "mypy", str(tmp_path / "handlers.py")], cwd=root, capture_output=True, text=True
    ).stdout.splitlines()
    assert 'Revealed type is "int"' in told[0]
    assert 'incompatible type "Callable[[Fact, str], None]"; expected "Callable[[Fact, OrderPaid], None]"' in told[1]
    assert told[2:] == ["Found 1 error in 1 file (checked 1 source file)"]
