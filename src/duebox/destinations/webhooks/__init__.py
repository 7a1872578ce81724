"""Webhooks: signed as Standard Webhooks 1.0.0 says, and sent to public addresses only.

What is sent, and what is received:
keys              secrets and keys: new ones, and their text read
signing           sign what is sent
verifying         verify what was received
asymmetric        the same with a pair of keys; needs `cryptography`
receiver          a view that gets each webhook once

Where it may go:
urls              what a URL must be like
hosts             a host in one spelling
addresses         which addresses are public
openings          which others an operator opens
guard             a URL → addresses to connect to, or a refusal

Who gets it:
event_types       which events an endpoint wants
custom_headers    what it wants to be added
vault             what of it is stored encrypted
endpoints         make, change and test them
checks            whether what is stored of them can be read
recorded          what of that is in the audit log
destination       `Webhooks`: an event → the endpoints of its organization
recipient         one endpoint: sign, send, judge
failing           warn, and give up

How it gets there:
message           an event → the bytes of a request
patience          a call that may take for ever, with an end
connecting        a connection to an address that was looked at
kept              connections for the next one
responses         the head of an answer
answers           bytes → an answer, within a deadline
wire              one request, one answer
masking           what of an answer is not kept
judging           what the answer means
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duebox.destinations.webhooks.destination import Webhooks as Webhooks

__all__ = ["Webhooks"]


def __getattr__(name: str) -> Any:
    # Not with the package: signatures and the guard are of use without a database.
    if name == "Webhooks":
        from duebox.destinations.webhooks.destination import Webhooks

        return Webhooks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
