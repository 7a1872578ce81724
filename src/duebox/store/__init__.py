"""The only room with SQL: one statement per file in `sql/`, and the functions that run them."""

from __future__ import annotations
