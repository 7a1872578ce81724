"""The `DUEBOX` setting, typed, with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from math import inf
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings as django_settings
from django.core.signals import setting_changed

from duebox.exceptions import NotReady, did_you_mean


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `docs/reference/settings.md` explains each of them."""

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
    TRUSTED_PROXIES: int = 0
    TRUST_TRACEPARENT: bool = False
    AUDIT_KEY: str = ""
    AUDIT_KEY_FALLBACKS: list[str] = field(default_factory=list)
    AUDIT_YEARS: int = 7
    AUDIT_SEAL_SECONDS: float = 1.0
    AUDIT_HEAD_FILE: str = ""
    DESTINATIONS: dict[str, Any] = field(default_factory=dict)
    ROUTES: list[dict[str, Any]] = field(default_factory=list)
    DESTINATION_THREADS: int = 32
    REDIS_URL: str = ""
    WEBHOOK_KEYS: list[str] = field(default_factory=list)
    DEAD_LETTER_MAIL: bool | list[str] = False
    CELERY: dict[str, Any] = field(default_factory=dict)
    SLO: dict[str, Any] = field(default_factory=dict)
    LOG_FORMAT: str = "text"
    METRICS: list[str] | dict[str, dict[str, Any]] = field(default_factory=list)
    HEALTH_PORT: int = 0
    HEALTH_HOST: str = "127.0.0.1"
    RETENTION_EVENTS_DAYS: int | None = 30
    RETENTION_ATTEMPTS_DAYS: int | None = 7
    RETENTION_DEAD_LETTERS_DAYS: int | None = 90
    RETENTION_KEYS_DAYS: int | None = 365
    RETENTION_SCHEDULES_DAYS: int | None = 30
    RETENTION_SCHEDULE_LOG_DAYS: int | None = 30
    RETENTION_RECEIPTS_DAYS: int | None = 7


NAMES = tuple(field.name for field in fields(Settings))
EXPORTERS: dict[str, dict[str, Any]] = {
    "prometheus": {},
    "opentelemetry": {},
    "emf": {"NAMESPACE": "Duebox", "SECONDS": 60, "FILE": ""},
    "statsd": {"HOST": "127.0.0.1", "PORT": 8125, "PREFIX": "duebox", "TAGS": "datadog", "SECONDS": 10},
}
"""The exporters that METRICS may name, and the options of each with their defaults."""
STATSD_TAGS = ("datadog", "none")
OF_CELERY = ("APP", "QUEUE")
SLO_DEFAULTS = {
    "publish_seconds": (5.0, 10.0),
    "delivery_success": (99.9, 99.5),
    "webhook_success": (99.0, 95.0),
    "dead_letters": (0.0, 10.0),
    "schedule_seconds": (60.0, 120.0),
}
"""The target and the alert threshold of each objective. For a success rate, a percentage, higher is better."""
SLO_IGNORE = "ignore"
PUBLIC_ENVELOPE = (
    "aggregate_type", "aggregate_id", "organization_id", "correlation_id", "causation_id", "actor", "producer",
)  # fmt: skip
# Secret: messages must not contain the value.
_SECRET = ("AUDIT_KEY", "AUDIT_KEY_FALLBACKS", "DESTINATIONS", "WEBHOOK_KEYS", "REDIS_URL")
HIGHEST_PORT = 65_535
MOST_DAYS = 36_500
SHORTEST_KEY = 32
_NEW_KEY = (
    f"It must be a text of at least {SHORTEST_KEY} characters; make one with: "
    "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
)
_REDIS_URL = "Write it as redis://user:password@host:6379/0, with rediss:// for TLS, or as unix:///path/to/redis.sock."
_DAYS = f"It must be a number of days from 1 to {MOST_DAYS:,}, or None to remove nothing; the default is {{default}}."
_RETENTION = tuple(name for name in NAMES if name.startswith("RETENTION_"))
_EITHER: dict[str, tuple[type, ...]] = {
    "DEAD_LETTER_MAIL": (bool, list), "METRICS": (list, dict), **dict.fromkeys(_RETENTION, (int, type(None))),
}  # fmt: skip
"""Settings of several types."""
_CHOICES = {
    "MODE": ("worker", "inline", "celery"),
    "UNDECLARED": ("refuse", "allow"),
    "OUTSIDE_TRANSACTION": ("allow", "warn", "refuse"),
    "TZ_SOURCE": ("tzdata", "system"),
    "LOG_FORMAT": ("text", "json"),
}
_POSITIVE = (
    "PAYLOAD_LIMIT_BYTES", "PAYLOAD_DEPTH", "THREADS", "BATCH_SIZE", "POLL_SECONDS", "LEASE_SECONDS",
    "SHUTDOWN_SECONDS", "AUDIT_YEARS", "AUDIT_SEAL_SECONDS", "DESTINATION_THREADS",
)  # fmt: skip


def _are_texts(values: Any, part: str = "") -> bool:
    return all(isinstance(each, str) and part in each for each in values)


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **{name: (choices.__contains__, f"It must be one of {', '.join(choices)}.") for name, choices in _CHOICES.items()},
    **dict.fromkeys(_POSITIVE, (lambda value: 0 < value < inf, "It must be above 0; the default is {default!r}.")),
    **dict.fromkeys(_RETENTION, (lambda days: days is None or 0 < days <= MOST_DAYS, _DAYS)),
    "RESCUE_LIMIT": (lambda limit: limit >= 2, "It must be 2 or more: the last attempt runs alone."),
    "RECONCILE_HOURS": (lambda hours: hours >= 0, "It must be above 0, or 0 to reconcile only by command."),
    "SLOW_HANDLER_SECONDS": (lambda seconds: seconds >= 0, "It must be above 0, or 0 for no warning."),
    "TRUSTED_PROXIES": (lambda count: count >= 0, "It must be 0 or more: the number of your own proxies."),
    "HEALTH_PORT": (lambda port: 0 <= port <= HIGHEST_PORT, f"It must be from 1 to {HIGHEST_PORT}, or 0 for no port."),
    "DEAD_LETTER_MAIL": (
        lambda mail: isinstance(mail, bool) or _are_texts(mail, "@"),
        "It must be True, False or a list of addresses, such as ['ops@example.com'].",
    ),
    "METRICS": (
        lambda value: isinstance(value, dict) or _are_texts(value),
        'It must be a list of names, such as ["prometheus"], or a dict of names and options.',
    ),
}
"""For each setting a test of values of the right type, and the hint if it fails."""
_cached: Settings | None = None


def conf() -> Settings:
    global _cached
    if _cached is None:
        given = getattr(django_settings, "DUEBOX", {})
        known = given.items() if isinstance(given, dict) else ()  # the system checks report a wrong type
        _cached = Settings(**{name: value for name, value in known if name in NAMES})
    return _cached


def mistakes() -> list[tuple[str, str]]:
    """The problems of the `DUEBOX` setting, as (message, hint) pairs for the system checks."""
    given = getattr(django_settings, "DUEBOX", {})
    if not isinstance(given, dict):
        return [(f"DUEBOX is {given!r}.", "DUEBOX must be a dict, such as DUEBOX = {'THREADS': 8}.")]
    return [*_unknown_keys(given), *_bad_values(given), *_bad_texts(given), *_bad_metrics(given)]


def misspelt() -> Iterator[tuple[str, str]]:
    """Other settings that were probably meant as `DUEBOX` or as one of its keys, as (message, hint) pairs."""
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


def _unknown_keys(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in given:
        if key not in NAMES:
            hint = did_you_mean(str(key).upper(), NAMES, capital=True) or f"Known keys: {', '.join(NAMES)}."
            yield f"DUEBOX has an unknown key {key!r}.", hint


def _bad_values(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, default in asdict(Settings()).items():
        value = given.get(name, default)
        wanted: Any = _EITHER.get(name) or ((int, float) if isinstance(default, float) else type(default))
        is_valid, hint = _RULES.get(name, (lambda value: True, ""))
        if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool)):
            kind = "number" if isinstance(default, float) else type(default).__name__
            shown = f"a {type(value).__name__}" if name in _SECRET else repr(value)
            hint = hint if name in _EITHER else f"It must be a {kind}; the default is {{default!r}}."
            yield f"DUEBOX[{name!r}] is {shown}.", hint.format(default=default)
        elif not is_valid(value):
            yield f"DUEBOX[{name!r}] is {value!r}.", hint.format(default=default)
    if given.get("DEAD_LETTER_MAIL") is True and not getattr(django_settings, "ADMINS", ()):
        hint = "Fill ADMINS, or name the addresses here: DEAD_LETTER_MAIL = ['ops@example.com']."
        yield "DUEBOX['DEAD_LETTER_MAIL'] is True, but ADMINS is empty.", hint


def _bad_texts(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Check the contents of lists and dicts whose own type is right. Secret values are not quoted."""
    for index, each in enumerate(_within(given, "AUDIT_KEY_FALLBACKS", list)):
        if not isinstance(each, str):
            yield f"DUEBOX['AUDIT_KEY_FALLBACKS'][{index}] is a {_kind(each)}.", "It must be a text, as AUDIT_KEY is."
    for index, each in enumerate(_within(given, "WEBHOOK_KEYS", list)):
        if not isinstance(each, str) or len(each) < SHORTEST_KEY:
            shown = f"a text of {len(each)} characters" if isinstance(each, str) else f"a {_kind(each)}"
            yield f"DUEBOX['WEBHOOK_KEYS'][{index}] is {shown}.", _NEW_KEY
    for name in _within(given, "PUBLIC_ENVELOPE", list):
        if name not in PUBLIC_ENVELOPE:
            yield f"DUEBOX['PUBLIC_ENVELOPE'] has {name!r}.", f"Known are {', '.join(PUBLIC_ENVELOPE)}."
    for name, value in _within(given, "CELERY", dict).items():
        if name not in OF_CELERY:
            yield f"DUEBOX['CELERY'] has {name!r}.", f"Known are {', '.join(OF_CELERY)}."
        elif not isinstance(value, str):
            yield f"DUEBOX['CELERY'][{name!r}] is {value!r}.", "It must be a text; leave it out for the default."
    yield from _bad_slos(_within(given, "SLO", dict))
    if isinstance(url := given.get("REDIS_URL", ""), str) and url and not _is_of_redis(url):
        yield "DUEBOX['REDIS_URL'] is a text that is not the URL of a Redis.", _REDIS_URL


def _bad_slos(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    known = (*SLO_DEFAULTS, SLO_IGNORE)
    for name, value in given.items():
        where = f"DUEBOX['SLO'][{name!r}]"
        if name not in known:
            hint = did_you_mean(name, known, capital=True) or f"Known are {', '.join(known)}."
            yield f"DUEBOX['SLO'] has an unknown key {name!r}.", hint
        elif name == SLO_IGNORE:
            if not isinstance(value, list) or not _are_texts(value):
                yield f"{where} is {value!r}.", "It must be a list of event types, such as ['order.*']."
        elif value is not None and not isinstance(value, dict):
            yield f"{where} is {value!r}.", "It must be a dict with target and alert, or None to switch it off."
        elif value is not None:
            yield from _bad_slo(name, where, value)


def _bad_slo(name: str, where: str, value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    target, alert = SLO_DEFAULTS[name]
    if unknown := set(value) - {"target", "alert"}:
        yield f"{where} has {sorted(map(str, unknown))}.", "Known are target and alert."
        return
    for key, each in value.items():
        if not isinstance(each, int | float) or isinstance(each, bool) or not 0 <= each < inf:
            yield f"{where}[{key!r}] is {each!r}.", "It must be a number from 0 on."
            return
    target, alert = value.get("target", target), value.get("alert", alert)
    if name.endswith("_success"):
        if target >= 100 or alert > target:
            yield (
                f"{where} has the target {target:g} % and the alert {alert:g} %.",
                "The target must be below 100, and the alert must not be above the target.",
            )
    elif alert < target or (target == 0 and name.endswith("_seconds")):
        yield (
            f"{where} has the target {target:g} and the alert {alert:g}.",
            "The alert must not be below the target, and seconds must be above 0.",
        )


def exporters(given: Any) -> dict[str, dict[str, Any]]:
    """The exporters that METRICS enables, each with all its options."""
    named: dict[str, Any] = {name: {} for name in given} if isinstance(given, list) else given
    return {name: {**EXPORTERS[name], **options} for name, options in named.items()}


def _bad_metrics(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    value = given.get("METRICS", [])
    if not isinstance(value, list | dict) or not _RULES["METRICS"][0](value):
        return  # `_bad_values` reports it
    for name in value:
        if name not in EXPORTERS:
            hint = did_you_mean(name, EXPORTERS, capital=True) or f"Known are {', '.join(EXPORTERS)}."
            yield f"DUEBOX['METRICS'] has {name!r}.", hint
        elif isinstance(value, dict):
            yield from _bad_options(name, value[name])


def _bad_options(name: str, options: object) -> Iterator[tuple[str, str]]:
    where, known = f"DUEBOX['METRICS'][{name!r}]", EXPORTERS[name]
    if not isinstance(options, dict):
        yield f"{where} is {options!r}.", f"It must be a dict; known are {', '.join(known) or 'no options'}."
        return
    for key, value in options.items():
        if key not in known:
            yield f"{where} has {key!r}.", f"Known are {', '.join(known) or 'no options'}."
        elif isinstance(known[key], str) != isinstance(value, str) or isinstance(value, bool):
            kind = "text" if isinstance(known[key], str) else "number"
            yield f"{where}[{key!r}] is {value!r}.", f"It must be a {kind}; the default is {known[key]!r}."
        elif not isinstance(value, str) and not (isinstance(value, int | float) and 0 < value < inf):
            yield f"{where}[{key!r}] is {value!r}.", f"It must be above 0; the default is {known[key]!r}."
        elif key == "PORT" and not (isinstance(value, int) and value <= HIGHEST_PORT):
            yield f"{where}['PORT'] is {value!r}.", f"It must be a whole number from 1 to {HIGHEST_PORT}."
        elif key == "TAGS" and value not in STATSD_TAGS:
            yield f"{where}['TAGS'] is {value!r}.", f"It must be one of {', '.join(STATSD_TAGS)}."


def _within(given: dict[str, Any], name: str, kind: type) -> Any:
    value = given.get(name)
    return value if isinstance(value, kind) else kind()


def _kind(value: object) -> str:
    return type(value).__name__


def _is_of_redis(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # `port` is parsed on access, and raises ValueError
    except ValueError:
        return False
    if not url.startswith(f"{parts.scheme}://"):
        return False
    return parts.scheme in ("redis", "rediss") or (parts.scheme == "unix" and bool(parts.path))


def require_app() -> None:
    """Raise an error if Django is not set up, or Duebox is not in INSTALLED_APPS."""
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
