"""The dashboard: the commands of an operator as web pages, in the site of the Django admin.

apps models   the app, and its permissions
page          who may see a page, how long its statements may take, and what is sent with it
snapshot      one answer for all viewers, for a second
overview      the status, the service levels, throughput and lateness
events        events and deliveries: lists with filters, one event with its history
explain       what happened to something, in words
dead_letters  deliveries that failed for good: groups, retry, park, discard
schedules     what is to come: list, histogram, pause, cancel, preview of a rule
calendar      a month of schedules
plans         plans, and what became of schedules: moved, missed, skipped
destinations  where events are sent: health, pause, webhook endpoints
workers       processes with a heartbeat
catalogue     event types, their versions and who receives them
audit         the audit log: search, verify
urls          the URLs
"""
