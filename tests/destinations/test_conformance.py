"""Every destination is held to the same; what is behind it is real. With workers: tests/worker/outside."""

from __future__ import annotations

import time

import pytest

from duebox.destinations.registry import make
from duebox.exceptions import Permanent, TooLarge
from tests.destinations.conformance import INTERNAL, Received, a_fact, leaks
from tests.destinations.stages import all_stages
from tests.support import eventually

pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")


@pytest.fixture(params=all_stages(), ids=lambda stage: stage.__name__)
def stage(request):
    with request.param() as entered:
        yield entered


@pytest.fixture
def destination(stage):
    made = make("there", stage.entry())
    yield made
    made.close()


def seen(stage, count):
    """The ids that have arrived, once there are so many."""
    return eventually(lambda: len(found := [each.id for each in stage.received()]) >= count and found)


def ids(facts):
    return [str(fact.id) for fact in facts]


def test_a_configuration_that_works_has_no_problems(destination):
    assert destination.check() == []


def test_what_is_delivered_arrives_as_it_is(stage, destination):
    fact = a_fact(data={"text": 'ä "quoted" \n line', "number": 1.5, "none": None, "list": [1, {"deep": True}]})
    assert _delivered(destination.deliver([fact]))
    seen(stage, 1)
    assert stage.received()[0] == Received(str(fact.id), "order.paid", fact.data)


def test_of_a_public_event_the_workspace_arrives_and_nothing_internal(stage, destination):
    fact = a_fact("public.order.paid", **INTERNAL)
    assert _delivered(destination.deliver([fact]))
    seen(stage, 1)
    [arrived] = stage.arrived()
    assert arrived.envelope["workspace_id"] == "7"
    assert arrived.envelope["data"] == {"total": 150}
    assert len(arrived.envelope) == 6  # and the id, the type, the version and the time
    assert leaks(arrived) == []


def test_a_full_batch_arrives_in_order_and_each_once(stage, destination):
    facts = [a_fact(data={"number": number}) for number in range(destination.batch_size)]
    results = list(destination.deliver(facts))
    assert len(results) == len(facts)
    assert _delivered(results)
    found = seen(stage, len(facts))
    assert sorted(found) == sorted(ids(facts))
    if destination.keeps_order:
        assert found == ids(facts)


def test_of_a_batch_only_those_fail_that_were_not_taken(stage, destination):
    facts = [a_fact(data={"number": number}) for number in range(max(2, destination.batch_size))]
    bad = {str(facts[1].id)}
    with stage.failing(bad):
        results = [result for fact in _in_batches(facts, destination) for result in destination.deliver(fact)]
    assert [isinstance(result, Exception) for result in results] == [fact_id in bad for fact_id in ids(facts)]
    assert not isinstance(results[1], Permanent)
    found = seen(stage, len(facts) - 1)
    assert sorted(found) == sorted(set(ids(facts)) - bad)
    assert _delivered(destination.deliver([facts[1]]))
    assert str(facts[1].id) in seen(stage, len(facts))


def test_what_is_refused_for_good_is_not_to_be_tried_again(stage, destination):
    good, bad = a_fact(), a_fact()
    with stage.refusing({str(bad.id)}):
        results = [result for batch in _in_batches([good, bad], destination) for result in destination.deliver(batch)]
    assert _delivered(results[:1])
    assert isinstance(results[1], Permanent)


def test_when_the_other_side_is_away_another_try_may_help(stage, destination):
    fact = a_fact()
    with stage.away():
        [result] = _results(destination, [fact])
        assert isinstance(result, Exception)
        assert not isinstance(result, Permanent)
    eventually(lambda: _delivered(_results(destination, [fact])))
    assert str(fact.id) in seen(stage, 1)


def test_it_comes_back_by_itself_after_the_connection_broke(stage, destination):
    assert _delivered(destination.deliver([a_fact()]))
    with stage.away():
        _results(destination, [a_fact()])
    fact = a_fact()
    eventually(lambda: _delivered(_results(destination, [fact])))
    assert str(fact.id) in seen(stage, 2)


def test_silence_ends_with_the_timeout(stage, destination):
    started = time.monotonic()
    with stage.hanging():
        [result] = _results(destination, [a_fact()])
    assert isinstance(result, Exception)
    assert not isinstance(result, Permanent)
    assert time.monotonic() - started < 10


def test_what_is_too_large_is_said_at_once_and_its_neighbours_go(stage, destination):
    if stage.largest is None:
        return  # there is no limit to break
    small, large = a_fact(), a_fact(data={"text": "x" * (stage.largest + 1)})
    results = [result for batch in _in_batches([large, small], destination) for result in destination.deliver(batch)]
    assert isinstance(results[0], TooLarge)
    assert f"{results[0].limit:,}" in str(results[0])
    assert _delivered(results[1:])
    assert seen(stage, 1) == [str(small.id)]


def test_the_id_stays_the_same_when_an_answer_was_lost(stage, destination):
    fact = a_fact()
    with stage.muted():
        [result] = _results(destination, [fact])
        assert isinstance(result, Exception)
    eventually(lambda: _delivered(_results(destination, [fact])))
    assert set(seen(stage, 1 if destination.forgets_repeats else 2)) == {str(fact.id)}


def _results(destination, facts):
    """An error that is raised counts for all."""
    try:
        return list(destination.deliver(facts))
    except Exception as error:
        return [error] * len(facts)


def _delivered(results):
    return all(result is None or type(result).__name__ == "Delivered" for result in results)


def _in_batches(facts, destination):
    size = destination.batch_size
    return [facts[start : start + size] for start in range(0, len(facts), size)]
