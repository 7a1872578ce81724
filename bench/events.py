"""The event that others may see."""

from __future__ import annotations

import duebox


@duebox.event("bench.paid", public={"text"})
class Paid:
    text: str
