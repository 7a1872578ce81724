"""May this schema take the place of that one? Breaks are proven by an event that shows them."""

from __future__ import annotations

from duebox.contracts.compat.compare import compare
from duebox.contracts.compat.gate import MODES, Finding, Mode, findings
from duebox.contracts.compat.values import Break, Change, Verdict

__all__ = ["MODES", "Break", "Change", "Finding", "Mode", "Verdict", "compare", "findings"]
