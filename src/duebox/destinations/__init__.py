"""Destinations, to which events are sent. A destination is a class with one method; routes select its events.

options                               validation of OPTIONS, drivers, name templates
envelope                              an event as it is sent
base                                  the class `Destination`, and its policy: retries, rate, circuit breaker, order
aws                                   Amazon EventBridge, SQS, SQS FIFO
django_tasks                          a task of django.tasks
redis_streams rabbitmq nats kafka     brokers
celery_broker                         the broker of a Celery app
event_pattern_matchers event_pattern  patterns of events, as EventBridge has them
routes                                which events go to which destination
registry                              the settings as subscribers
celery                                a Celery task
webhooks/                             signed HTTP to the endpoints of organizations
names                                 find handlers, destinations and endpoints by name
endpoint_health                       which endpoints are paused, failing or about to be disabled
checks                                system checks
"""

from __future__ import annotations

from duebox.destinations.base import Breaker, Destination, DestinationPolicy

__all__ = ["Breaker", "Destination", "DestinationPolicy"]
