from __future__ import annotations

from typing import Any

from django.core.mail.backends.base import BaseEmailBackend


class EmailBackend(BaseEmailBackend):
    """A post office that is closed."""

    def send_messages(self, email_messages: Any) -> int:
        raise ConnectionRefusedError("closed")
