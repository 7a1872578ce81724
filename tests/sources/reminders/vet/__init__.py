"""A second app whose model has the name of one of the first."""

from __future__ import annotations
