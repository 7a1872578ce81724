"""The time lapse: eight days around the world in as many seconds, two clock changes among them.

The map: `conductor` moves the clock that all processes share; `script` says who comes when, `desk` sends the requests
and writes into the `book` what was agreed; `sights` reads what the clinic sent and `lines` prints it; `verdict` holds
one against the other. `act` is the whole.
"""
