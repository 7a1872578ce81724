"""Time zones from a client are checked with the other fields: an unknown one is a mistake of the client."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.db import connection, models
from django.db.migrations.writer import MigrationWriter

import duebox
from duebox.fields import TimeZoneField, TimeZoneFormField, validate_time_zone
from duebox.models import Schedule
from duebox.schedules import plans
from duebox.testing import travel
from duebox.when import daily, zones


class Traveller(models.Model):
    zone = TimeZoneField(default="Europe/Paris")
    second = TimeZoneField(blank=True, null=True)

    class Meta:
        app_label = "app"
        managed = False

    def __str__(self) -> str:
        return str(self.zone)


class TravellerForm(forms.ModelForm):
    class Meta:
        model = Traveller
        fields = ["zone", "second"]


@pytest.fixture
def table(db):
    with connection.schema_editor() as editor:
        editor.create_model(Traveller)


@pytest.mark.parametrize("bad", ["Europe/Pairs", "UTC+2", "Mars/Olympus", "100%s", "../etc/passwd"])
def test_an_unknown_zone_is_an_error_of_its_field_with_the_nearest_names(bad):
    form = TravellerForm({"zone": bad})
    assert not form.is_valid()
    assert form.errors["zone"][0].startswith(f"Zone {bad!r} is not in the zone database")
    with pytest.raises(ValidationError) as caught:
        Traveller(zone=bad).full_clean()
    assert list(caught.value.message_dict) == ["zone"]
    assert caught.value.error_dict["zone"][0].code == "invalid_time_zone"


@pytest.mark.parametrize(
    "given", ["Asia/Tokyo", " asia/tokyo ", "ASIA/TOKYO", ZoneInfo("Asia/Tokyo")], ids=lambda given: repr(given)
)
def test_a_zone_is_cleaned_to_the_spelling_of_the_zone_database(given):
    form = TravellerForm({"zone": given})
    assert form.is_valid(), form.errors
    assert form.cleaned_data["zone"] == "Asia/Tokyo"
    traveller = Traveller(zone=given)
    traveller.clean_fields()
    assert traveller.zone == "Asia/Tokyo"


def test_blanks_stand_for_underscores():
    assert TimeZoneFormField().clean("america/new york") == "America/New_York"


def test_every_zone_of_the_database_is_valid_as_it_is():
    for name in zones.current().names:
        validate_time_zone(name)
        assert zones.current().spelled(name) == name


def test_the_validator_alone_takes_no_other_spelling():
    with pytest.raises(ValidationError, match="did you mean Europe/Paris"):  # nobody would correct what is stored then
        validate_time_zone("europe/paris")


def test_nothing_is_taken_where_the_field_allows_it():
    Traveller(second="").clean_fields()
    Traveller(second=None).clean_fields()
    assert TravellerForm({"zone": "UTC", "second": ""}).is_valid()
    with pytest.raises(ValidationError, match="cannot be blank"):
        Traveller(zone="").clean_fields()
    with pytest.raises(ValidationError, match="required"):
        TimeZoneFormField().clean("")
    assert TimeZoneFormField(required=False).clean("") == ""


def test_a_zoneinfo_is_stored_and_found_by_its_name(table):
    Traveller.objects.create(zone=ZoneInfo("Asia/Tokyo"))
    assert Traveller.objects.get(zone=ZoneInfo("Asia/Tokyo")).zone == "Asia/Tokyo"


def test_choices_can_be_given_and_are_not_forced():
    field = TimeZoneField(choices=[("UTC", "UTC"), ("Asia/Tokyo", "Tokyo")])
    assert isinstance(field.formfield(), forms.TypedChoiceField)
    assert isinstance(TimeZoneField().formfield(), TimeZoneFormField)


def test_a_migration_names_the_field_and_only_what_was_chosen():
    assert MigrationWriter.serialize(TimeZoneField())[0] == "duebox.fields.TimeZoneField()"
    assert MigrationWriter.serialize(TimeZoneField(max_length=40))[0] == "duebox.fields.TimeZoneField(max_length=40)"


def test_a_plan_goes_by_the_zone_of_such_a_field(table):
    class Mornings(duebox.Plan):
        model = Traveller
        event = "traveller.woken"

        def rule(self, traveller):
            return daily("09:00")

        def zone(self, traveller):
            return traveller.zone

    try:
        with travel(datetime(2026, 6, 1, 12, tzinfo=UTC)):
            Traveller.objects.create(zone=ZoneInfo("Asia/Tokyo"))
        assert Schedule.objects.get().due_at == datetime(2026, 6, 2, 0, tzinfo=UTC)
    finally:
        plans.remove("app.Mornings")
