"""The `DUEBOX` dict of the settings, typed, with its defaults."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed


@dataclass(frozen=True, slots=True)
class Settings:
    """Every knob. The reference in `docs/reference/settings.md` explains each one."""

    MODE: str = "worker"
    DATABASE: str = "default"
    PRODUCER: str = ""
    UNDECLARED: str = "refuse"
    SCHEMAS: str = ""
    PAYLOAD_LIMIT_BYTES: int = 256 * 1024
    PAYLOAD_DEPTH: int = 32
    THREADS: int = 4
    BATCH_SIZE: int = 500
    POLL_SECONDS: float = 1.0
    LISTEN: bool = True
    LEASE_SECONDS: float = 10.0
    RESCUE_LIMIT: int = 5
    SHUTDOWN_SECONDS: float = 25.0
    TZ_SOURCE: str = "tzdata"
    RECONCILE_HOURS: int = 24
    TRUSTED_PROXIES: int = 0
    TRUST_TRACEPARENT: bool = False
    AUDIT_KEY: str = ""
    AUDIT_KEY_FALLBACKS: list[str] = field(default_factory=list)
    AUDIT_YEARS: int = 7


NAMES = tuple(field.name for field in fields(Settings))
MODES = ("worker", "inline")
TZ_SOURCES = ("tzdata", "system")
UNDECLARED = ("refuse", "allow")
_POSITIVE = (
    "PAYLOAD_LIMIT_BYTES", "PAYLOAD_DEPTH", "THREADS", "BATCH_SIZE",
    "POLL_SECONDS", "LEASE_SECONDS", "RESCUE_LIMIT", "SHUTDOWN_SECONDS", "AUDIT_YEARS",
)  # fmt: skip
_SECRET = ("AUDIT_KEY", "AUDIT_KEY_FALLBACKS")  # not to be quoted in a message
_cached: Settings | None = None


def conf() -> Settings:
    global _cached
    if _cached is None:
        given = getattr(django_settings, "DUEBOX", {})
        known = given.items() if isinstance(given, dict) else ()  # the system checks report what is wrong with it
        _cached = Settings(**{name: value for name, value in known if name in NAMES})
    return _cached


def mistakes() -> list[tuple[str, str]]:
    """What is wrong with the `DUEBOX` setting, as (message, hint) pairs for the system checks."""
    given = getattr(django_settings, "DUEBOX", {})
    if not isinstance(given, dict):
        return [(f"DUEBOX is {given!r}.", "DUEBOX must be a dict, such as DUEBOX = {'THREADS': 8}.")]
    return [*_unknown_keys(given), *_bad_values(given)]


def _unknown_keys(given: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for key in given:
        if key not in NAMES:
            near = get_close_matches(str(key).upper(), NAMES, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(NAMES)}."
            found.append((f"DUEBOX has an unknown key {key!r}.", hint))
    return found


def _bad_values(given: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, default in asdict(Settings()).items():
        value = given.get(name, default)
        wanted = (int, float) if isinstance(default, float) else type(default)
        if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool)):
            kind = "number" if isinstance(default, float) else type(default).__name__
            told = f"a {type(value).__name__}" if name in _SECRET else repr(value)
            found.append((f"DUEBOX[{name!r}] is {told}.", f"It must be a {kind}; the default is {default!r}."))
        elif name in _POSITIVE and float(value) <= 0:
            found.append((f"DUEBOX[{name!r}] is {value!r}.", f"It must be above 0; the default is {default!r}."))
    if isinstance(hours := given.get("RECONCILE_HOURS"), int) and hours < 0:
        found.append((f"DUEBOX['RECONCILE_HOURS'] is {hours}.", "It must be above 0, or 0 to compare only by hand."))
    if isinstance(proxies := given.get("TRUSTED_PROXIES"), int) and proxies < 0:
        found.append((f"DUEBOX['TRUSTED_PROXIES'] is {proxies}.", "It must be 0 or more: how many proxies of yours."))
    if given.get("RESCUE_LIMIT") == 1:
        found.append(("DUEBOX['RESCUE_LIMIT'] is 1.", "It must be 2 or more: the last chance is run alone."))
    if given.get("MODE", "worker") not in MODES:
        found.append((f"DUEBOX['MODE'] is {given['MODE']!r}.", f"It must be one of {', '.join(MODES)}."))
    if given.get("UNDECLARED", "refuse") not in UNDECLARED:
        found.append(
            (f"DUEBOX['UNDECLARED'] is {given['UNDECLARED']!r}.", f"It must be one of {', '.join(UNDECLARED)}.")
        )
    if given.get("TZ_SOURCE", "tzdata") not in TZ_SOURCES:
        found.append((f"DUEBOX['TZ_SOURCE'] is {given['TZ_SOURCE']!r}.", f"It must be one of {', '.join(TZ_SOURCES)}."))
    return found


def _forget(*, setting: str, **kwargs: Any) -> None:
    global _cached
    if setting == "DUEBOX":
        _cached = None


setting_changed.connect(_forget, dispatch_uid="duebox.conf")
