from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from duebox.context import metrics
from duebox.context.metrics import OTHER, Counter, Distribution, Histogram


def test_a_counter_adds_up_for_each_combination_of_labels():
    counter = Counter("a", "A", labels=("x",))
    counter.add_many({("one",): 2, ("two",): 1})
    counter.add_many({("one",): 3})
    assert counter.read() == {("one",): 5, ("two",): 1}


def test_a_counter_without_labels_is_there_before_anything_was_counted():
    counter = Counter("a", "A")
    assert counter.read() == {(): 0}
    counter.add()
    counter.add(2)
    assert counter.read() == {(): 3}


def test_a_value_on_a_bound_falls_into_the_bucket_below_it_as_in_prometheus():
    histogram = Histogram("a", "A", bounds=(1.0, 2.0))
    histogram.observe([0.5, 1.0, 1.5, 2.0, 9.0])
    assert histogram.read() == {(): Distribution((2, 2, 1), 14.0)}


def test_batches_add_up():
    histogram = Histogram("a", "A", labels=("x",), bounds=(1.0,))
    histogram.observe([0.5], ("one",))
    histogram.observe([2.0, 3.0], ("one",))
    assert histogram.read() == {("one",): Distribution((1, 2), 5.5)}


def test_labels_beyond_the_limit_are_counted_together(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_SERIES", 2)
    counter = Counter("a", "A", labels=("x", "y"))
    counter.add_many({(str(number), "same"): 1 for number in range(5)})
    counter.add_many({("1", "same"): 1})
    assert counter.read() == {("0", "same"): 1, ("1", "same"): 2, (OTHER, OTHER): 3}


def test_threads_lose_no_count():
    counter = Counter("a", "A")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [counter.add() for _ in range(500)], range(8)))
    assert counter.read() == {(): 4000}


def test_no_metric_has_a_label_for_tenants():
    labels = {label for each in (*metrics.COUNTERS, *metrics.HISTOGRAMS) for label in each.labels}
    assert labels == {"event_type", "consumer", "error", "outcome", "sweep", "result"}
