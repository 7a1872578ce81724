"""The `DUEBOX` dict of the settings, typed, with its defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from math import inf
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings as django_settings
from django.core.signals import setting_changed

from duebox.exceptions import NotReady


@dataclass(frozen=True, slots=True)
class Settings:
    """Every knob. The reference in `docs/reference/settings.md` explains each one."""

    MODE: str = "worker"
    DATABASE: str = "default"
    PRODUCER: str = ""
    UNDECLARED: str = "refuse"
    OUTSIDE_TRANSACTION: str = "warn"
    SCHEMAS: str = ""
    AGGREGATES: dict[str, str] = field(default_factory=dict)
    PUBLIC_ENVELOPE: list[str] = field(default_factory=list)
    PAYLOAD_LIMIT_BYTES: int = 256 * 1024
    PAYLOAD_DEPTH: int = 32
    THREADS: int = 4
    BATCH_SIZE: int = 500
    POLL_SECONDS: float = 1.0
    LISTEN: bool = True
    LEASE_SECONDS: float = 10.0
    RESCUE_LIMIT: int = 5
    SHUTDOWN_SECONDS: float = 25.0
    SLOW_HANDLER_SECONDS: float = 60.0
    TZ_SOURCE: str = "tzdata"
    RECONCILE_HOURS: int = 24
    CAPTURE: bool = False
    TRUSTED_PROXIES: int = 0
    TRUST_TRACEPARENT: bool = False
    AUDIT_KEY: str = ""
    AUDIT_KEY_FALLBACKS: list[str] = field(default_factory=list)
    AUDIT_YEARS: int = 7
    DESTINATIONS: dict[str, Any] = field(default_factory=dict)
    ROUTES: list[dict[str, Any]] = field(default_factory=list)
    DESTINATION_THREADS: int = 32
    REDIS_URL: str = ""
    WEBHOOK_KEYS: list[str] = field(default_factory=list)
    DEAD_LETTER_MAIL: bool | list[str] = False
    CELERY: dict[str, Any] = field(default_factory=dict)


NAMES = tuple(field.name for field in fields(Settings))
_CHOICES = {
    "MODE": ("worker", "inline", "celery"),
    "UNDECLARED": ("refuse", "allow"),
    "OUTSIDE_TRANSACTION": ("allow", "warn", "refuse"),
    "TZ_SOURCE": ("tzdata", "system"),
}
OF_CELERY = ("APP", "QUEUE")
PUBLIC_ENVELOPE = (
    "aggregate_type", "aggregate_id", "organization_id", "correlation_id", "causation_id", "actor", "producer",
)  # fmt: skip
_POSITIVE = (
    "PAYLOAD_LIMIT_BYTES", "PAYLOAD_DEPTH", "THREADS", "BATCH_SIZE",
    "POLL_SECONDS", "LEASE_SECONDS", "RESCUE_LIMIT", "SHUTDOWN_SECONDS", "AUDIT_YEARS",
    "DESTINATION_THREADS",
)  # fmt: skip
# Not to be quoted in a message.
_SECRET = ("AUDIT_KEY", "AUDIT_KEY_FALLBACKS", "DESTINATIONS", "WEBHOOK_KEYS", "REDIS_URL")
_EITHER: dict[str, tuple[type, ...]] = {"DEAD_LETTER_MAIL": (bool, list)}
SHORTEST_KEY = 32
_NEW_KEY = (
    f"It must be a text of at least {SHORTEST_KEY} characters; make one with: "
    "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
)
_REDIS_URL = "Write it as redis://user:password@host:6379/0, with rediss:// for TLS, or as unix:///path/to/redis.sock."
_MAIL = "It must be True, False or a list of addresses, such as ['ops@example.com']."
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
    return [*_unknown_keys(given), *_bad_values(given), *_bad_texts(given)]


def misspelt() -> Iterator[tuple[str, str]]:
    """Settings beside `DUEBOX` that were probably meant to be in it, or to be it, as (message, hint) pairs."""
    for name in dir(django_settings):
        if not name.isupper() or name == "DUEBOX":
            continue
        if name.startswith("DUEBOX_"):
            if near := get_close_matches(name.removeprefix("DUEBOX_"), NAMES, n=1, cutoff=0.8):
                hint = f"Write it as DUEBOX = {{{near[0]!r}: ...}}."
                yield f"The settings have {name}, which Duebox does not read.", hint
        elif _is_like_ours(name) and isinstance(getattr(django_settings, name), dict):
            yield f"The settings have {name}, which Duebox does not read.", "Did you mean DUEBOX?"


def _is_like_ours(name: str) -> bool:
    return bool(get_close_matches(name.replace("_", ""), ["DUEBOX"], cutoff=0.8))


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
        wanted: Any = _EITHER.get(name) or ((int, float) if isinstance(default, float) else type(default))
        if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool)):
            kind = "number" if isinstance(default, float) else type(default).__name__
            told = f"a {type(value).__name__}" if name in _SECRET else repr(value)
            hint = _MAIL if name == "DEAD_LETTER_MAIL" else f"It must be a {kind}; the default is {default!r}."
            found.append((f"DUEBOX[{name!r}] is {told}.", hint))
        elif name in _POSITIVE and not 0 < value < inf:
            found.append((f"DUEBOX[{name!r}] is {value!r}.", f"It must be above 0; the default is {default!r}."))
    if isinstance(hours := given.get("RECONCILE_HOURS"), int) and hours < 0:
        found.append((f"DUEBOX['RECONCILE_HOURS'] is {hours}.", "It must be above 0, or 0 to compare only by hand."))
    if isinstance(slow := given.get("SLOW_HANDLER_SECONDS"), int | float) and slow < 0:
        found.append((f"DUEBOX['SLOW_HANDLER_SECONDS'] is {slow}.", "It must be above 0, or 0 for no warning."))
    if isinstance(proxies := given.get("TRUSTED_PROXIES"), int) and proxies < 0:
        found.append((f"DUEBOX['TRUSTED_PROXIES'] is {proxies}.", "It must be 0 or more: how many proxies of yours."))
    if given.get("DEAD_LETTER_MAIL") is True and not getattr(django_settings, "ADMINS", ()):
        hint = "Fill ADMINS, or name the addresses here: DEAD_LETTER_MAIL = ['ops@example.com']."
        found.append(("DUEBOX['DEAD_LETTER_MAIL'] is True, but ADMINS is empty.", hint))
    if given.get("RESCUE_LIMIT") == 1:
        found.append(("DUEBOX['RESCUE_LIMIT'] is 1.", "It must be 2 or more: the last chance is run alone."))
    for name, choices in _CHOICES.items():
        if name in given and given[name] not in choices:
            found.append((f"DUEBOX[{name!r}] is {given[name]!r}.", f"It must be one of {', '.join(choices)}."))
    if isinstance(celery := given.get("CELERY"), dict) and (unknown := set(celery) - set(OF_CELERY)):
        found.append((f"DUEBOX['CELERY'] has {sorted(map(str, unknown))}.", f"Known are {', '.join(OF_CELERY)}."))
    return found


def _bad_texts(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is inside of lists and dicts, and has the right kind itself. Nothing secret is quoted."""
    for index, each in enumerate(_within(given, "AUDIT_KEY_FALLBACKS", list)):
        if not isinstance(each, str):
            yield f"DUEBOX['AUDIT_KEY_FALLBACKS'][{index}] is a {_kind(each)}.", "It must be a text, as AUDIT_KEY is."
    for index, each in enumerate(_within(given, "WEBHOOK_KEYS", list)):
        if not isinstance(each, str) or len(each) < SHORTEST_KEY:
            told = f"a text of {len(each)} characters" if isinstance(each, str) else f"a {_kind(each)}"
            yield f"DUEBOX['WEBHOOK_KEYS'][{index}] is {told}.", _NEW_KEY
    for name in _within(given, "PUBLIC_ENVELOPE", list):
        if name not in PUBLIC_ENVELOPE:
            yield f"DUEBOX['PUBLIC_ENVELOPE'] has {name!r}.", f"Known are {', '.join(PUBLIC_ENVELOPE)}."
    mail = given.get("DEAD_LETTER_MAIL")
    if isinstance(mail, list) and not all(isinstance(each, str) and "@" in each for each in mail):
        yield f"DUEBOX['DEAD_LETTER_MAIL'] is {mail!r}.", _MAIL
    for name, value in _within(given, "CELERY", dict).items():
        if name in OF_CELERY and not isinstance(value, str):
            yield f"DUEBOX['CELERY'][{name!r}] is {value!r}.", "It must be a text; leave it out for the default."
    if isinstance(url := given.get("REDIS_URL", ""), str) and url and not _is_of_redis(url):
        yield "DUEBOX['REDIS_URL'] is a text that is not the URL of a Redis.", _REDIS_URL


def _within(given: dict[str, Any], name: str, kind: type) -> Any:
    value = given.get(name)
    return value if isinstance(value, kind) else kind()


def _kind(value: object) -> str:
    return type(value).__name__


def _is_of_redis(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # read when it is asked for
    except ValueError:
        return False
    if not url.startswith(f"{parts.scheme}://"):
        return False
    return parts.scheme in ("redis", "rediss") or (parts.scheme == "unix" and bool(parts.path))


def require_app() -> None:
    """Refuses to go on where Django is not set up, or Duebox is not among its apps."""
    try:
        installed = apps.is_installed("duebox")
    except Exception as error:
        raise NotReady(
            f"Django is not set up yet ({error}); call django.setup() first, or emit from inside the project."
        ) from error
    if not installed:
        raise NotReady("Duebox is not installed in this project; add 'duebox' to INSTALLED_APPS and migrate.")


def _forget(*, setting: str, **kwargs: Any) -> None:
    global _cached
    if setting == "DUEBOX":
        _cached = None


setting_changed.connect(_forget, dispatch_uid="duebox.conf")
