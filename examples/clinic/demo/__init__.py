"""The clinic, alive: `python -m examples.clinic.demo --seconds 15`. Two acts: a time lapse, then the present.

The map: `stage` starts and stops PostgreSQL, the web server and the worker; `lapse/` is the first act, `present` the
second. There `visitors` and a `practice` send HTTP requests through `client`; `oncall` repairs what died and retries
it; `watch` reads what happened and `screen` prints it; `audit` holds what the visitors were told against what the
database says.
"""
