"""One case about two schemas → the package's verdict on them, compared with the expected one."""

from __future__ import annotations

from typing import Any

from duebox.contracts.compat import compare


def failure(case: dict[str, Any]) -> str | None:
    """What is wrong with the package's verdict on a case; None if nothing is."""
    try:
        verdict = compare(case["old_schema"], case["new_schema"])
    except Exception as error:
        return f"raised {error!r}"
    found = {
        "backward_compatible": verdict.backward_compatible,
        "forward_compatible": verdict.forward_compatible,
        "additive_only_ok": verdict.additive_only,
    }
    wrong = [name for name, value in found.items() if case.get(name) not in (None, value)]
    if not wrong:
        return None
    reasons = [each.what for each in (*verdict.backward, *verdict.forward, *verdict.changes)]
    return (
        "; ".join(f"{name} is {found[name]}, expected {case[name]}" for name in wrong) + f" ({reasons or 'no reasons'})"
    )
