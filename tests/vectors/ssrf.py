"""One case about an address, a host or a URL → what the guard does with it, compared with what it must do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from duebox.destinations.webhooks.addresses import is_public
from duebox.destinations.webhooks.guard import Guard
from duebox.destinations.webhooks.hosts import read_host
from duebox.exceptions import Blocked

Case = dict[str, Any]
# What names would resolve to, so that a URL is refused for its own sake and nothing is asked of a network.
NAMES = {"localhost": "127.0.0.1", "metadata.google.internal": "169.254.169.254"}


def cases(document: dict[str, Any]) -> Iterator[Case]:
    """All that a file holds, section by section."""
    for section, entries in document.items():
        for entry in entries if isinstance(entries, list) else ():
            fields = entry if isinstance(entry, dict) else {"text": entry}
            name = next((fields[key] for key in ("ip", "host", "url", "text") if key in fields), fields)
            yield {**fields, "text": name, "section": section, "id": f"{section} {name!r}"}


def failure(case: Case) -> str | None:
    """What is wrong with the guard's answer to a case; None if nothing is."""
    player = PLAYERS.get(case["section"])
    if player is None:
        return f"cases of the section {case['section']!r} cannot be played"
    try:
        return player(case)
    except Exception as error:
        return f"raised {error!r}"


def play_ip(case: Case) -> str | None:
    found = Guard().allowed(case["ip"])
    if found != is_public(case["ip"]):
        return "the guard and the list disagree"
    return None if found == case["allowed"] else f"expected allowed={case['allowed']}, found {found}"


def play_network(case: Case) -> str | None:
    network = ip_network(case["text"])
    some = (network[0], network[network.num_addresses // 2], network[-1])
    allowed = [str(address) for address in some if Guard().allowed(str(address))]
    return f"{allowed} are allowed" if allowed else None


def play_spelling(case: Case) -> str | None:
    if read_host(case["host"]) != case["resolves_to"]:
        return f"expected {case['resolves_to']}, found {read_host(case['host'])}"
    # The real resolver would be asked if the text were taken for a name.
    return _must_block(lambda: Guard().resolve(case["host"], 443))


def play_refused_url(case: Case) -> str | None:
    return _must_block(lambda: Guard(resolver=_resolve).route(case["text"]))


def _must_block(attempt: Any) -> str | None:
    try:
        found = attempt()
    except Blocked:
        return None
    return f"expected a refusal, found {found}"


def _resolve(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (NAMES.get(host, "1.1.1.1"), port))]


PLAYERS = {
    "ips": play_ip,
    "deny_networks": play_network,
    "host_spellings": play_spelling,
    "url_refuse": play_refused_url,
}
