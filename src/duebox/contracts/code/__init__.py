"""A class from a schema file, for whoever wants to go on in Python: `duebox schemas code`."""

from __future__ import annotations

from duebox.contracts.code.classes import class_name_of, source

__all__ = ["class_name_of", "source"]
