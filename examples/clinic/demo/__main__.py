from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from examples.clinic.demo.curtain import Curtain
from examples.clinic.demo.process import Trouble
from examples.clinic.demo.screen import Screen
from examples.clinic.demo.stage import FOLDER, Stage
from examples.clinic.demo.web import serve
from examples.clinic.timelapse import VARIABLE

if TYPE_CHECKING:
    from examples.clinic.demo.lapse.verdict import Verdict

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Of the given seconds the time lapse takes no more than this; the rest is for the present.
LAPSE_SHARE = 0.55
FASTEST = 2 * _UNITS["d"]


def main() -> int:
    began = time.monotonic()
    options = _options()
    screen, curtain = Screen(), Curtain()
    on_terminal = options.terminal or options.seconds > 0
    try:
        with Stage(options.folder, screen, curtain, port=0 if on_terminal else options.port) as stage:
            fine = True
            if on_terminal:
                fine = _play(stage, screen, curtain, options.seconds, options.lapse)
            else:
                serve(stage, screen, curtain, began)
        return 0 if fine else 1
    except Trouble as trouble:
        screen.trouble(str(trouble))
        return 1
    except KeyboardInterrupt:
        told = "before everything had settled, so nothing was verified" if on_terminal else "before the clinic was open"
        screen.trouble(f"Interrupted {told}.")
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone (`| head`); Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _play(stage: Stage, screen: Screen, curtain: Curtain, seconds: float, speed: float) -> bool:
    lapse = None
    if speed:
        lapse = _first_act(stage, screen, curtain, speed, seconds * LAPSE_SHARE)
        if lapse.problems or curtain.fallen.is_set():
            return not lapse.problems
        stage.close()
        screen.say("\nFrom here on the clock is the real one.", "bold")
    fine = _second_act(stage, screen, curtain, max(1.0, seconds - lapse.seconds) if lapse and seconds else seconds)
    if lapse:
        screen.say(f"The time lapse before it: {lapse}.", "green")
    return fine


# Imported where they are played: their models need a database to be known.
def _first_act(stage: Stage, screen: Screen, curtain: Curtain, speed: float, seconds: float) -> Verdict:
    from examples.clinic.demo.lapse.act import Lapse
    from examples.clinic.demo.lapse.conductor import Conductor

    conductor = Conductor(stage.folder / "clock.json", speed=speed, seconds=seconds)
    stage.open(**{VARIABLE: str(conductor.path)})
    return Lapse(stage, screen, curtain, conductor).run()


def _second_act(stage: Stage, screen: Screen, curtain: Curtain, seconds: float) -> bool:
    stage.open()
    from examples.clinic.demo.present import Present

    return Present(stage, screen, curtain).run(seconds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.clinic.demo",
        description="A clinic on an embedded PostgreSQL, with a web server and a worker: a web page to try things on, "
        "or on the terminal a time lapse and simulated visitors.",
    )
    parser.add_argument("--port", type=int, default=8000, help="of the web page; another one if it is taken (8000)")
    parser.add_argument("--terminal", action="store_true", help="a time lapse and visitors instead of the web page")
    parser.add_argument(
        "--seconds", type=float, default=0, help="--terminal, for so long; 0 is until Ctrl-C, on the web page (0)"
    )
    parser.add_argument(
        "--lapse",
        type=_speed,
        default="1d",
        metavar="TIME",
        help="how much time passes in a second of the time lapse that comes first, such as 1d or 6h; 0 leaves it out "
        "(1d: eight days in eight seconds, or in half of --seconds)",
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="for the database, the logs and the messages (.duebox/demo)"
    )
    return parser.parse_args()


def _speed(text: str) -> float:
    """How many times as fast as real time."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write it as 1d, 6h or 30m")
    speed = float(found[1]) * _UNITS[found[2] or "s"]
    if speed > FASTEST:
        raise argparse.ArgumentTypeError(f"{text!r} is too fast: a request would take half a day; at most 2d")
    return speed


if __name__ == "__main__":
    sys.exit(main())
