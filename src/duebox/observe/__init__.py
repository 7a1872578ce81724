"""For operators: the status, what an id means, what happened to it and why, and what happens now.

status    how much is due, failed, to come, and what is wrong
find      which event, delivery, schedule, entity or request is meant
browse    lists for people who look around
records   what is stored about it, loaded at once
lines     how times, spans and receivers are written for people
explain   what happened to it, in order and in words
show      the facts about it, for JSON
watch     each attempt as it happens
doctor    what goes wrong on the second day, each finding with its repair
rollup    what happened per minute
slo       service level objectives
advise    whether the installation has outgrown how it runs
metrics/  gauges from the database, exporters for Prometheus, OpenTelemetry, CloudWatch and StatsD
"""
