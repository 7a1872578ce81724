from __future__ import annotations

import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Curtain:
    """Ctrl-C and SIGTERM: the first one during the show ends it in order, any other one interrupts."""

    def __init__(self) -> None:
        self.fallen = threading.Event()
        self._up = False
        for each in _SIGNALS:
            signal.signal(each, self._on_signal)

    def rise(self) -> None:
        self._up = True

    def lock(self) -> None:
        """From here on processes are being stopped, and nothing may come between."""
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if not self._up or self.fallen.is_set():
            raise KeyboardInterrupt
        self.fallen.set()
