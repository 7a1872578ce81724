"""Questions about many values at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import F, Lookup, Q
from django.db.models.fields.composite import CompositePrimaryKey

from duebox.store.statements import text_array


def any_of(name: str, values: Iterable[Any]) -> AnyOf:
    """Rows whose field has one of the values. As one array they cost a tenth of what `__in` makes of two thousand."""
    return AnyOf(F(name), list(values))


class AnyOf(Lookup):
    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        field = self.lhs.output_field
        left, params = self.process_lhs(compiler, connection)
        values = (str(field.get_db_prep_value(value, connection, prepared=False)) for value in self.rhs)
        return f"{left} = ANY(%s::{field.db_type(connection)}[])", (*params, text_array(values))


def with_keys(values: Iterable[Any], model: Any) -> AnyOf | Q:
    """Rows by primary key."""
    if isinstance(model._meta.pk, CompositePrimaryKey):
        return Q(pk__in=list(values))
    return any_of("pk", values)
