"""Events: facts and their payloads, identities, subscribers, outcomes, and `emit` in the caller's transaction.

fact          an event as code sees it
address       where a delivery goes: a handler, a destination or an endpoint
identities    event ids; names of entities, tenants and actors
wildcards     the one meaning of `*` in patterns
outcomes      how a delivery ended, as values; `Retry`: retry or dead letter, and the back-off
payload       what may stand in the data of an event
after_commit  what follows the commit of new events, by the settings
subscribers   `@duebox.on`, and the registry of handlers
emit          `duebox.emit`: insert events and deliveries
sql_events    events that were emitted by SQL
"""

from __future__ import annotations
