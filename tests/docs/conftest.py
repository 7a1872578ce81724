from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from django.db import connection

from duebox.audit_log import policy
from duebox.schedules import plans, sweeps
from duebox.schedules.periodic import by_name as periodic_functions
from tests.docs import clinic, shop

APPS = {"shop": shop, "clinic": clinic}
MODELS = (shop.Order, shop.Receipt, clinic.Patient, clinic.Room, clinic.Appointment, clinic.Task)


@pytest.fixture
def tables(db, monkeypatch) -> None:
    """`shop.models` and `clinic.models` can be imported, and their tables exist until the test's end."""
    for name, module in APPS.items():
        package = ModuleType(name)
        package.models = module
        monkeypatch.setitem(sys.modules, name, package)
        monkeypatch.setitem(sys.modules, f"{name}.models", module)
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)


@pytest.fixture
def declared(monkeypatch) -> Iterator[None]:
    """Plans, sweeps, periodic functions and followed models that a page declares are forgotten at its end."""
    monkeypatch.setattr(policy, "_policies", dict(policy._policies))
    before = {plan.name for plan in plans.plans()} | set(sweeps.by_name())
    functions = set(periodic_functions())
    yield
    for name in [name for name in periodic_functions() if name not in functions]:
        del periodic_functions()[name]
    for name in [plan.name for plan in plans.plans() if plan.name not in before]:
        plans.remove(name)
    for name in [name for name in sweeps.by_name() if name not in before]:
        sweeps.remove(name)
