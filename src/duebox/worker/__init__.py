"""Claim, run, settle: the side of Duebox that does the work."""

from __future__ import annotations
