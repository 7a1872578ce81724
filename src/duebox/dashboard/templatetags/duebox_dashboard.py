"""How the pages write times, numbers, states and JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from duebox.cli.output import with_weekday
from duebox.events.address import Address
from duebox.models.audit import name_of
from duebox.observe.lines import span as readable_span
from duebox.observe.lines import wall
from duebox.observe.show import json_text
from duebox.observe.slo import Objective

register = template.Library()
NOTHING = "\N{EN DASH}"

_TONES = {
    "ok": "delivered completed enabled alive ok active sealed listen fired",
    "wait": "due running processing scheduled later waiting next poll recorded replayed redriven resumed restored",
    "warn": "retrying retried snoozed paused parked failing rescued skipped moved blocked orphaned risk no_handler",
    "bad": "dead worker_lost failed missed expired disabled lost open no_worker error",
    "off": "cancelled discarded deduplicated",
}
TONES = {word: tone for tone, words in _TONES.items() for word in words.split()}


@register.simple_tag
def badge(state: str, text: str = "") -> SafeString:
    tone = TONES.get(state, "off")
    return format_html('<span class="badge badge-{}">{}</span>', tone, text or state.replace("_", " "))


@register.simple_tag
def moment(value: datetime | str | None, form: str = "%Y-%m-%d %H:%M:%S") -> SafeString | str:
    """A time in the zone of the project; UTC in the tooltip."""
    if not value:
        return ""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    utc = at.astimezone(UTC)
    shown = timezone.localtime(at).strftime(form)
    title = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', utc.isoformat(), title, shown)


@register.filter
def span(seconds: float | None) -> str:
    return "" if seconds is None else readable_span(seconds)


@register.filter
def milliseconds(value: float | None) -> str:
    return "" if value is None else readable_span(value / 1000)


@register.filter
def receiver(name: str) -> str:
    """A destination without its prefix."""
    address = Address.parse(name)
    return address.plain if address.kind == "destination" else name


@register.filter
def as_json(value: Any, whole: str = "") -> str:
    """For people; it is escaped like any other text, and cut where it is large."""
    return json_text(value, indent=2, whole=whole)


@register.filter
def compact_json(value: Any) -> str:
    """For an attribute that a script reads."""
    return json.dumps(value, separators=(",", ":"), default=str)


@register.filter
def words(value: str) -> str:
    return value.replace("_", " ")


@register.filter
def get(mapping: Any, key: Any) -> Any:
    return mapping.get(key) if hasattr(mapping, "get") else None


@register.filter
def cut_seconds(local: str) -> str:
    """A local time as a schedule stores it, for people: 2026-03-29 09:00."""
    return wall(local).partition(".")[0]


@register.filter
def wall_text(local: datetime) -> str:
    return with_weekday(local)


@register.filter
def utc_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


@register.filter
def percent(share: float) -> str:
    return f"{100 * share:.2f} %" if 0.99 <= share < 1 else f"{100 * share:.1f} %"


@register.filter
def actor(stored: Any) -> str:
    return name_of(stored)


@register.filter
def brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 30 else f"{text[:30]}…"


@register.filter
def plain(text: str) -> str:
    """Without the marks of Markdown."""
    return text.replace("`", "")


@register.simple_tag
def shown_by(objective: Objective, value: float) -> str:
    return f"{objective.shown(value)} {objective.unit}".strip()


@register.filter
def burn(rate: float | None) -> str:
    return NOTHING if rate is None else f"{rate:.1f}"
