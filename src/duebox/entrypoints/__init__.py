"""The doors: each parses, calls one function and reports."""

from __future__ import annotations
