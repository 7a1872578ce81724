"""One module for each kind of destination; `STAGES` of each lists what is played."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.destinations.conformance import Stage


def all_stages() -> list[type[Stage]]:
    modules = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__)]
    return [stage for module in modules for stage in module.STAGES]
