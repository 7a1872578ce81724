"""Whether one schema may replace another. Each break is proven by an event.

regex_derivatives  strings that one pattern accepts and another does not
schema             schemas prepared for comparison
candidates         values at the limits of both schemas
report             the result of a comparison, in sentences
compare            compare two schemas, or two catalogues of schemas
"""

from __future__ import annotations

from duebox.contracts.compat.compare import MODES, Finding, Mode, compare, findings
from duebox.contracts.compat.report import Break, Change, Verdict

__all__ = ["MODES", "Break", "Change", "Finding", "Mode", "Verdict", "compare", "findings"]
