"""What the engine tells about itself.

deaths   a delivery went to the dead letters: an event, so that handlers and destinations can react
mail     the same for the administrators, one mail an hour for each cause and subscriber
"""

from __future__ import annotations
