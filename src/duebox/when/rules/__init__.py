"""The rules a user can ask for, one per file: each names local times, or instants, and survives being stored."""

from __future__ import annotations
