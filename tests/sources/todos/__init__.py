"""Tasks that are due within a day, found by an hourly run."""

from __future__ import annotations
