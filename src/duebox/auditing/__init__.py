"""The audit log: who did what to what, and how it changed, in a chain that shows when it was tampered with."""

from __future__ import annotations

from duebox.auditing import disposable as disposable  # test runs may empty the tables
from duebox.auditing.bulk import AuditedQuerySet
from duebox.auditing.following import follow
from duebox.auditing.retention import Pruned, prune
from duebox.auditing.verdict import Flaw, Verdict
from duebox.auditing.verifying import verify

__all__ = ["AuditedQuerySet", "Flaw", "Pruned", "Verdict", "follow", "prune", "verify"]
