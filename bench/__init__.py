"""`python -m bench`: what Duebox costs, beside what the same tables cost without it, in the same run."""

from __future__ import annotations
