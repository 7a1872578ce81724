"""A small clinic: patients, doctors, appointments, invoices, and what happens because of them, and when.

The map: `models` and `views/` are the business, `handlers/` react to its events, `plans` and `sweeps` bring what is
due, `outside` stands for mail and SMS, `pages` and `views/controls` are the web page to try it on, and `demo/` starts
it all on an embedded PostgreSQL.
"""
