"""One case about an address, a host or a URL → what the guard does with it, compared with what it must do."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from duebox.destinations.webhooks.url_guard import Guard, is_public, read_address, read_host
from duebox.exceptions import Blocked

Case = dict[str, Any]
# Names that lead into a private network wherever they are known, and those that say an address.
INSIDE = re.compile(r"[^.]+|localtest\.me|.*\.(localhost|localdomain|local|lan|internal|intranet|corp|svc|home\.arpa)")
SAID = re.compile(r"(?:.*\.)?(\d+[.-]\d+[.-]\d+[.-]\d+)\.[a-z]+\.[a-z]+")


def cases(document: dict[str, Any]) -> Iterator[Case]:
    """All that a file holds, section by section."""
    for section, entries in document.items():
        for entry in entries if isinstance(entries, list) else ():
            fields = entry if isinstance(entry, dict) else {"text": entry}
            name = next((fields[key] for key in ("ip", "host", "url", "network", "text") if key in fields), fields)
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
    """The guard sees the address behind a spelling, and lets it through only if it is a public one."""
    wanted = read_address(case["resolves_to"])
    bare = ":" in case["host"] and not case["host"].startswith("[")
    try:
        found = read_host(f"[{case['host']}]" if bare else case["host"])
        # What is no address to us is a name: the resolver is asked, and what it says is looked at.
        if _is_name(found):
            found = str(wanted)
        if read_address(found) != wanted:
            return f"expected {wanted}, found {found}"
        Guard(resolver=lambda host, port, **_: _answer(str(wanted), port)).resolve(case["host"], 443)
    except Blocked as refusal:
        return f"expected {wanted} to be allowed, found {refusal}" if is_public(str(wanted)) else None
    return None if is_public(str(wanted)) else f"expected a refusal, found {wanted} allowed"


def _is_name(host: str) -> bool:
    return ":" not in host and re.search("[a-z]", host.rpartition(".")[2]) is not None


def play_refused_url(case: Case) -> str | None:
    try:
        found = Guard(resolver=_resolve).route(case["text"])
    except Blocked:
        return None
    return f"expected a refusal, found {found}"


def play_accepted_url(case: Case) -> str | None:
    found = Guard(resolver=_resolve).route(case["text"])
    return None if found.addresses else "no address was found"


def _resolve(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
    """What names would resolve to, so that a URL is judged for its own sake and nothing is asked of a network."""
    if said := SAID.fullmatch(host):
        return _answer(said[1].replace("-", "."), port)
    return _answer("169.254.169.254" if INSIDE.fullmatch(host) else "1.1.1.1", port)


def _answer(address: str, port: int) -> list[tuple[Any, ...]]:
    return [(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]


PLAYERS = {
    "ips": play_ip,
    "deny_networks": play_network,
    "host_spellings": play_spelling,
    "url_refuse": play_refused_url,
    "url_accept": play_accepted_url,
    "url_allow": play_accepted_url,
}
