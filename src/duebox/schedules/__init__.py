"""Schedules: what is to happen later, once or by a rule, and firing it.

intent         what a schedule asks for, as one value
planner        from an intent to a row
schedule       schedule, reschedule, cancel, pause, resume
fire           due schedules become events; which occurrences fire and which are missed
upcoming       what will fire
plan_sync      bring the schedules of a plan in line with its rows
plan_signals   the signals by which a plan sees changed rows
plans          `Plan`: schedules that follow the rows of a model
capture        install the triggers of plans and of the audit log; plan the rows that triggers noted
sweep_run      one run of a sweep
sweeps         `Sweep`: queries for rows that are due
periodic       functions that run by a rule
tzdata_update  a new release of the zone database
"""

from __future__ import annotations
