"""CloudEvents 1.0: an event as other systems expect it, and theirs as `emit` takes them.

| Event                  | CloudEvent                                                    |
|------------------------|---------------------------------------------------------------|
| id                     | `id`                                                          |
| producer               | `source`                                                      |
| type                   | `type`, behind a prefix                                       |
| version                | `schemaversion`, and in `dataschema` where schemas have a URL |
| occurred_at            | `time`                                                        |
| about                  | `subject`, as in `order/42`, and `partitionkey`, the id       |
| organization           | `organizationid`                                              |
| correlation, causation | `correlationid`, `causationid`                                |
| actor                  | `authid` and `authtype`; the email stays inside               |
| traceparent            | `traceparent`                                                 |
| data                   | `data`, as JSON                                               |

The idempotency key and the other metadata stay inside: they are nobody else's. A public event has `workspaceid`, and
none of subject, partitionkey, organization, correlation, causation and actor unless PUBLIC_ENVELOPE allows it.
"""

from __future__ import annotations

from duebox.contracts.cloudevents.reading import read, read_binary, read_structured
from duebox.contracts.cloudevents.telling import Message, Options, binary, structured, structured_message

__all__ = [
    "Message",
    "Options",
    "binary",
    "read",
    "read_binary",
    "read_structured",
    "structured",
    "structured_message",
]
