"""Claims to insurers. Without a contract no retry can help: a dead letter, until somebody signs one."""

from __future__ import annotations

import duebox
from examples.clinic.models import InsuranceClaim, Insurer


@duebox.on("invoice.paid", name="insurance.claim")
def claim_from_insurer(event: duebox.Fact) -> duebox.Discard | None:
    """Claims what the patient paid, or dies if there is no contract."""
    code = event.data["insurer"]
    if not code:
        return duebox.Discard("patient pays alone")
    insurer = Insurer.objects.filter(code=code).first()
    if insurer is None:
        raise duebox.Permanent(f"no contract with {code}")
    InsuranceClaim.objects.create(insurer=insurer, invoice_id=event.data["invoice"])
    return None
