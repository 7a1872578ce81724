"""What is the same before and after: the models, the card gateway, and the settings that are no concern of tasks."""

from __future__ import annotations
