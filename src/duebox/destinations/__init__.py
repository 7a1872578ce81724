"""Where events go outside. A destination is a class with one method; routes say what it gets.

base             what a destination is
terms            on which terms it is served: retries, rate, breaker, order
envelope         an event as it travels
routes patterns  which events
subscription configured engines             what the settings say, as subscribers; who has them open
drivers naming given options                drivers that may be missing; names with places; values as given
known_names                                 handlers, destinations and endpoints as people name them

eventbridge sqs  (aws aws_batch)            Amazon EventBridge, SQS, SQS FIFO
webhooks         signed HTTP to the endpoints of organizations, and the guard of addresses
celery           (celery_broker)            a Celery task
tasks            a task of django.tasks
redis_streams rabbitmq (confirms) nats (looping) kafka     brokers
debezium         the configuration of a connector that reads the database's log instead
"""

from __future__ import annotations
