"""Cases every build must satisfy, as data, and the runner that plays any file of that shape."""

from __future__ import annotations
