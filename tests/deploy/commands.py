"""The command lines of deployment descriptions, read by the parsers of the commands themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from duebox.conf import Settings
from duebox.management.commands.duebox import Command

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
DEFAULTS = Settings()
# A parent waits five seconds longer for its children than they wait for their handlers; then a process must exit.
STOP_SECONDS = DEFAULTS.SHUTDOWN_SECONDS + 10


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """The options of `python manage.py duebox ...`; raises for a verb or an option that there is not."""
    python, manage, duebox, *rest = words
    assert (Path(python).name, manage, duebox) == ("python", "manage.py", "duebox")
    return vars(Command().create_parser(manage, duebox).parse_args(rest))
