"""Webhooks: signed according to Standard Webhooks 1.0.0, and sent to public addresses only.

filters             the event types and headers of an endpoint
encryption          encryption of stored secrets and headers
endpoint_lifecycle  warnings, disabling, audit entries
ed25519             asymmetric signatures (`v1a`)
signatures          keys, signing, verification
url_guard           which URLs and addresses are allowed
http                one request, one response
response            the meaning of a response, and the part of it that is stored
endpoint_delivery   sign and send to one endpoint
destination         an event goes to the endpoints of its organization
endpoints           create, change, rotate, test
receiver            a Django view that receives webhooks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebox.destinations.webhooks.signatures import Received, new_secret, sign, signed_headers, verify

if TYPE_CHECKING:
    from duebox.destinations.webhooks.destination import Webhooks as Webhooks
    from duebox.destinations.webhooks.receiver import receive as receive

__all__ = ["Received", "Webhooks", "new_secret", "receive", "sign", "signed_headers", "verify"]


def __getattr__(name: str) -> Any:
    # Imported when they are used: signatures and the URL guard are of use without a database.
    if name == "Webhooks":
        from duebox.destinations.webhooks.destination import Webhooks

        return Webhooks
    if name == "receive":
        from duebox.destinations.webhooks.receiver import receive

        return receive
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
