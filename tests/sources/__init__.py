"""The use cases of the documents that Duebox was made from, played against the installed wheel.

`python -m tests.sources` builds the wheel, installs it into an empty virtual environment, makes a Django project for
each document with `startproject`, and prints a line for each case. The letters in a line are those of the table in
docs/requirements.md.
"""

from __future__ import annotations
