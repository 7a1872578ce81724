from __future__ import annotations

import pytest
from django.db import models
from django.db.models import Q
from django.test.utils import isolate_apps

import duebox
from duebox.models import Delivery, Event
from duebox.store.run_sql import any_of, with_keys

pytestmark = pytest.mark.django_db


def test_rows_are_found_by_any_of_many_values_of_any_kind(on):
    on("a.b", name="it")(lambda event: None)
    facts = [duebox.emit("a.b", about=("thing", name)) for name in ('quo"te', "back\\slash", "com,ma {brace}", "NULL")]
    names = [fact.about[1] for fact in facts]
    assert Event.objects.filter(any_of("aggregate_id", [*names, "nobody"])).count() == 4
    assert [event.aggregate_id for event in Event.objects.filter(any_of("aggregate_id", names[:1]))] == names[:1]
    assert set(Event.objects.filter(with_keys([fact.id for fact in facts[1:]], Event))) == set(Event.objects.all()[1:])
    numbers = list(Delivery.objects.values_list("id", flat=True))
    assert Delivery.objects.filter(with_keys(numbers, Delivery), subscriber="it").count() == 4


def test_no_values_find_nothing():
    duebox.emit("a.b")
    assert not Event.objects.filter(with_keys([], Event)).exists()


@isolate_apps("tests.app")
def test_rows_with_a_key_of_several_columns_are_asked_for_as_usual():
    class Pair(models.Model):  # noqa: DJ008
        pk = models.CompositePrimaryKey("left", "right")
        left = models.IntegerField()
        right = models.IntegerField()

        class Meta:
            app_label = "app"
            managed = False

    assert with_keys([(1, 2)], Pair) == Q(pk__in=[(1, 2)])
