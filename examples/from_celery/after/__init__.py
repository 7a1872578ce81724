"""The shop with Duebox."""

from __future__ import annotations
