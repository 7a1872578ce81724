"""Tasks of a project, as Django has them."""

from __future__ import annotations

from typing import Any

from duebox.exceptions import Permanent

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

ran: list[Any] = []


@task
def note(*args: Any, **kwargs: Any) -> None:
    ran.append([*args, *kwargs.items()])


@task()
async def note_async(*args: Any) -> str:
    ran.append([*args])
    return "done"


@task()
def answer() -> int:
    return 42


@task()
def a_tuple() -> Any:
    return {"pair": (1, b"two")}


@task()
def fail(word: str = "no") -> None:
    ran.append(word)
    raise ValueError(f"It was {word!r}\x00")


@task()
def give_up() -> None:
    raise Permanent("no retry can help")


@task()
def leave() -> None:
    raise SystemExit(3)


@task()
def unspeakable() -> Any:
    return lambda: True


@task()
def a_nul() -> str:
    return "\x00"


@task(takes_context=True)
def who_am_i(context: Any, word: str) -> list[Any]:
    return [context.task_result.id, context.attempt, str(context.task_result.status), word]


@task(takes_context=True)
def second_time(context: Any) -> int:
    ran.append(context.attempt)
    if context.attempt < 2:
        raise ConnectionError("not yet")
    return int(context.attempt)


def no_task() -> None:
    ran.append("called")


@task()
def emits() -> None:
    import duebox

    duebox.emit("order.paid")
