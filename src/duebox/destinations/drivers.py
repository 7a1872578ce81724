"""The packages that destinations talk through: loaded when a destination is made, and named when they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from duebox.exceptions import InvalidDestination


def driver(module: str, extra: str) -> Any:
    """A module of an optional package; `extra` is what installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InvalidDestination(
            f"The Python package {package!r} is not installed; run: pip install 'duebox[{extra}]'."
        ) from error


def positive(name: str, value: float) -> float:
    """An option that is a number above 0, such as a timeout."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise InvalidDestination(f"{name} is {value!r}; it must be a number above 0.")
    return value
