"""Old events for new code."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

import duebox
from duebox.contracts import read
from duebox.contracts.upcasting import current
from duebox.exceptions import InvalidContract, UnsupportedVersion
from duebox.models import Attempt, Delivery
from duebox.testing import drain, travel
from duebox.worker import run_handler
from tests.app.models import Effect
from tests.support import eventually

pytestmark = pytest.mark.django_db


@pytest.fixture
def versions(declare: Any) -> Any:
    @declare("member.named")
    class V1:
        name: str

    @declare(
        "member.named",
        version=2,
        upcast=lambda data: dict(zip(("first", "last"), data["name"].split(" "), strict=True)),
    )
    class V2:
        first: str
        last: str

    @declare("member.named", version=3, upcast=lambda data: {**data, "title": ""})
    class V3:
        first: str
        last: str
        title: str

    return V1, V2, V3


def test_a_handler_sees_the_newest_version_whatever_was_stored(versions, on):
    seen = []
    on("member.named", name="it")(lambda event: seen.append((event.version, event.data)))
    v1, v2, v3 = versions
    duebox.emit(v1(name="Ada Lovelace"))
    duebox.emit(v2(first="Ada", last="Lovelace"))
    duebox.emit(v3(first="Ada", last="Lovelace", title="Countess"))
    drain()
    ada = {"first": "Ada", "last": "Lovelace"}
    assert seen == [(3, {**ada, "title": ""}), (3, {**ada, "title": ""}), (3, {**ada, "title": "Countess"})]


def test_the_stored_event_stays_as_it_was(versions):
    fact = duebox.emit(versions[0](name="Ada Lovelace"))
    newest = current(fact)
    assert (newest.version, newest.id, newest.correlation_id) == (3, fact.id, fact.correlation_id)
    assert (fact.version, fact.data) == (1, {"name": "Ada Lovelace"})
    assert duebox.models.Event.objects.get().version == 1


def test_the_data_can_be_read_as_the_class_that_declares_it(versions):
    fact = duebox.emit(versions[0](name="Ada Lovelace"))
    assert read(fact) == versions[2](first="Ada", last="Lovelace", title="")
    assert read(fact, versions[2]).first == "Ada"


def test_versions_side_by_side_without_an_upcaster_are_left_to_the_handler(declare):
    @declare("member.named")
    class V1:
        name: str

    @declare("member.named", version=2)
    class V2:
        first: str

    assert current(duebox.emit(V1(name="Ada"))).version == 1
    assert current(duebox.emit(V2(first="Ada"))).version == 2


def test_a_version_that_nobody_declares_is_an_error_of_its_own(declare, on):
    on("member.named", name="it")(lambda event: None)
    fact = duebox.emit("member.named", {"anything": 1}, version=2)

    @declare("member.named", version=9)
    class V9:
        first: str

    with pytest.raises(UnsupportedVersion, match=r"'member\.named' has version 2.*it reads v9"):
        current(fact)
    with pytest.raises(UnsupportedVersion):
        drain()
    assert Delivery.objects.get().status == "pending"
    assert "UnsupportedVersion" in Attempt.objects.get(outcome="retried").note


class TestNewerThanThisCode:
    """A deployment is on its way, and this worker is still the old one."""

    @pytest.fixture
    def old_code(self, declare):
        run_handler.forget()

        def knows_two():
            @declare("member.named", version=2)
            class V2:
                first: str

        return knows_two

    @pytest.fixture
    def from_tomorrow(self, old_code):
        """Emitted where somebody knows version 3, which nobody here does."""

        def emit(**options):
            duebox.emit("member.named", {"first": "Ada"}, version=3, **options)
            old_code()

        return emit

    @pytest.fixture
    def traveller(self):
        with travel(timezone.now()) as traveller:
            yield traveller

    @pytest.mark.large
    def test_an_event_waits_and_burns_no_attempt(self, from_tomorrow, on, declare, caplog, traveller):
        seen = []
        on("member.named", name="it")(lambda event: seen.append(event.version))
        from_tomorrow()
        traveller.run(timedelta(hours=23))
        row = Delivery.objects.get()
        assert (row.status, row.attempt, row.rescues, seen) == ("pending", 0, 0, [])
        assert 100 < Attempt.objects.filter(outcome="snoozed").count() < 250
        assert caplog.text.count("event waits for newer code: type=member.named version=3 subscriber=it") == 1

        @declare("member.named", version=3)
        class V3:
            first: str

        traveller.run(timedelta(minutes=11))
        assert seen == [3]

    def test_a_handler_that_finds_out_by_itself_waits_as_well_and_has_written_nothing(self, on):
        @on("whatever.happened", name="it")
        def it(event):
            Effect.objects.create(event_id=event.id, subscriber="it")
            raise UnsupportedVersion(event.type, event.version)

        duebox.emit("whatever.happened", version=4)
        drain()
        assert Attempt.objects.get().outcome == "snoozed"
        assert not Effect.objects.exists()

    def test_a_version_that_is_declared_here_is_a_mistake_of_the_handler(self, old_code, on):
        old_code()

        @on("member.named", name="it")
        def it(event):
            raise UnsupportedVersion(event.type, event.version)

        duebox.emit("member.named", {"first": "Ada"}, version=2)
        with pytest.raises(UnsupportedVersion):
            drain()
        assert Attempt.objects.get().outcome == "retried"

    @pytest.mark.large
    def test_after_a_day_it_is_retried_and_dies_as_others_do(self, from_tomorrow, on, traveller):
        on("member.named", name="it")(lambda event: None)
        from_tomorrow()
        traveller.run(timedelta(days=1, minutes=30), raises=False)
        assert Delivery.objects.get().status == "dead"
        assert Attempt.objects.filter(outcome="retried").count() == 3

    @pytest.mark.django_db(transaction=True)
    def test_its_neighbours_in_a_group_run_once(self, from_tomorrow, on, hire):
        seen = []
        on("member.named", name="it")(lambda event: seen.append(event.version))
        from_tomorrow()
        for _ in range(20):
            duebox.emit("member.named", {"first": "Ada"}, version=2)
        hire()
        eventually(lambda: Attempt.objects.filter(outcome="delivered").count() == 20)
        assert seen == [2] * 20
        assert Delivery.objects.get().attempt == 0


def test_an_upcaster_is_enough_for_a_version_that_is_no_longer_declared(declare):
    fact = duebox.emit("member.named", {"name": "Ada Lovelace"})

    @declare("member.named", version=2, upcast=lambda data: {"first": data["name"].split(" ")[0]})
    class V2:
        first: str

    assert current(fact).data == {"first": "Ada"}


def test_an_upcaster_that_gives_what_its_version_refuses_is_named(declare):
    fact = duebox.emit("member.named", {"name": "Ada"})

    @declare("member.named", version=2, upcast=lambda data: {"first": 7})
    class V2:
        first: str

    with pytest.raises(
        InvalidContract, match=r"The upcast of member\.named from v1 to v2 returned data that is invalid for v2"
    ):
        current(fact)


def test_an_event_that_nobody_declared_passes_as_it_is():
    fact = duebox.emit("whatever.happened", {"a": 1}, version=4)
    assert current(fact) is fact
    with pytest.raises(UnsupportedVersion, match="as a class"):
        read(fact)


def test_an_upcaster_that_writes_into_what_it_is_given_spoils_nothing(declare):
    fact = duebox.emit("member.named", {"name": "Ada", "tags": []})

    def add(data: dict[str, Any]) -> dict[str, Any]:
        data["tags"].append("new")
        return data

    @declare("member.named", version=2, upcast=add)
    class V2:
        name: str
        tags: list[str]

    assert [current(fact).data["tags"] for _ in range(2)] == [["new"], ["new"]]
    assert fact.data["tags"] == []
