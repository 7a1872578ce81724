"""`python -m duebox worker|once|sweep|...`: the verbs of `manage.py duebox`, for projects without a manage.py."""

from __future__ import annotations

import os
import sys

import django
from django.core.management import execute_from_command_line

from duebox.events.emit import ready_settings
from duebox.exceptions import NotReady

VARIABLE = "DJANGO_SETTINGS_MODULE"


def main(words: list[str]) -> None:
    try:
        set_up()
    except NotReady as error:
        raise SystemExit(str(error)) from None
    execute_from_command_line(["python -m", "duebox", *words])


def set_up() -> None:
    """Django as the environment names it, or the error that says what is missing."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise NotReady(f"{VARIABLE} is not set, so there is no project to run; set it, as in {VARIABLE}=shop.settings.")
    try:
        django.setup()
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NotReady(
            f"{VARIABLE} is {name!r}, which cannot be imported from {os.getcwd()} ({error}); "
            "run this in the folder that holds the project, or put that on PYTHONPATH."
        ) from None
    ready_settings()


if __name__ == "__main__":
    main(sys.argv[1:])
