"""What the URL of a webhook must be like. Read by hand: the parsers of others repair what has to be refused."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from duebox.destinations.webhooks.hosts import read_host
from duebox.exceptions import Blocked

LONGEST = 2048
PORTS = {"https": 443, "http": 80}
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)(?P<fragment>#.*)?", re.DOTALL
)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(:(?P<port>[1-9][0-9]{0,4}))?")
_REST = re.compile(r"[!-~]*")
_ENCODED_CONTROL = re.compile(r"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)


class Target(NamedTuple):
    """Where a URL points to. The host is a name in ASCII or an address, without brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query."""

    def __repr__(self) -> str:
        """The path may be a secret."""
        return f"Target({self.scheme}, {self.host}, {self.port}, …)"


def read_url(url: str, *, http: bool = False, ports: Collection[int] = ()) -> Target:
    """The parts of a URL that a webhook may go to, as far as its text can tell. Blocked if it may not.

    `http=True` allows it without TLS; `ports` are allowed besides 443 and 80.
    """
    parts = _PARTS.fullmatch(_checked(url))
    if parts is None:
        raise Blocked("The URL is not one; write it as https://example.com/path.")
    scheme = parts["scheme"].lower()
    if scheme not in PORTS or (scheme == "http" and not http):
        option = "http" if scheme == "http" else ""
        raise Blocked("The URL does not begin with https://; only that is allowed.", option=option)
    if parts["fragment"] is not None:
        raise Blocked("The URL has a fragment, which is never sent; leave out the # and what follows.")
    host, port = _authority(parts["authority"], scheme)
    if port not in {*PORTS.values(), *ports}:
        raise Blocked(f"Port {port} is not allowed; use 443, or let the operator allow it.", option="ports")
    return Target(scheme, host, port, _path(parts["rest"]))


def _checked(url: str) -> str:
    if not isinstance(url, str) or len(url) > LONGEST:
        raise Blocked(f"The URL is not a text of up to {LONGEST} characters; use a shorter one.")
    if not url.isprintable() or any(character.isspace() for character in url) or _ENCODED_CONTROL.search(url):
        raise Blocked("The URL holds spaces or control characters; leave them out.")
    if "\\" in url:
        raise Blocked("The URL holds a backslash, which some read as a slash; leave it out.")
    return url


def _authority(authority: str, scheme: str) -> tuple[str, int]:
    if "@" in authority:
        raise Blocked("The URL holds a user name or a password; use a signature or a header of your own instead.")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None or not parts["host"]:
        raise Blocked("The URL has no host, or a port that is not a number; write it as https://example.com/path.")
    return read_host(parts["host"]), int(parts["port"] or PORTS[scheme])


def _path(rest: str) -> str:
    if not _REST.fullmatch(rest):
        raise Blocked("The path of the URL is not ASCII; percent-encode it.")
    return rest if rest.startswith("/") else f"/{rest}"
