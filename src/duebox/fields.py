"""Fields for time zones. What a client sends is checked with the other fields of its form or serializer, so that an
unknown zone is a validation error and not a failure when the row is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from django.db import models

from duebox.when import UnknownZone, zones

__all__ = ["TimeZoneField", "TimeZoneFormField", "validate_time_zone"]

LENGTH = 64

if TYPE_CHECKING:
    TextField = models.CharField[str | ZoneInfo, str]
else:
    TextField = models.CharField


def validate_time_zone(value: object) -> None:
    """Raise `ValidationError` unless this is the name of a zone, spelled as the zone database spells it."""
    try:
        zones.name_of(value)  # type: ignore[arg-type]
    except UnknownZone as error:
        raise ValidationError(str(error), code="invalid_time_zone") from error


class TimeZoneField(TextField):
    """The name of an IANA time zone, such as `Europe/Paris`; any that the zone database knows.

    Takes a `ZoneInfo` as well. Cleaning corrects upper and lower case, and blanks for underscores.
    """

    description = "Time zone"
    default_validators = [validate_time_zone]

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("max_length", LENGTH)
        super().__init__(*args, **options)

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        if options.get("max_length") == LENGTH:
            del options["max_length"]
        return name, path, args, options

    def to_python(self, value: Any) -> Any:
        found = super().to_python(_name(value))
        return zones.current().spelled(found) if found else found

    def get_prep_value(self, value: Any) -> Any:
        return super().get_prep_value(_name(value))

    def formfield(self, **options: Any) -> Any:
        return super().formfield(**{"form_class": TimeZoneFormField, **options})


class TimeZoneFormField(forms.CharField):
    """The same in a form: any name that the zone database knows."""

    default_validators = [validate_time_zone]

    def to_python(self, value: Any) -> str:
        found = super().to_python(_name(value))
        return zones.current().spelled(found) if found else found or ""


def _name(value: Any) -> Any:
    return value.key if isinstance(value, ZoneInfo) else value
