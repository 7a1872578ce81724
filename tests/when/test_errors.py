"""The errors of the time package belong to the tree of Duebox's errors."""

from __future__ import annotations

import inspect

from duebox.exceptions import DueboxError
from duebox.when import errors


def test_every_error_about_a_time_is_a_duebox_error():
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass) if one.__module__ == errors.__name__]
    assert {"WhenError", "UnknownZone", "InvalidRule"} <= {one.__name__ for one in found}
    assert all(issubclass(one, DueboxError) and issubclass(one, ValueError) for one in found)
