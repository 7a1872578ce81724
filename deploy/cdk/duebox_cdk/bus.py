"""The event bus, and who hears what. The detail type of an event is its Duebox type."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from duebox_cdk.queues import Queues


class Bus(Construct):
    def __init__(self, scope: Construct, id: str, queues: Queues) -> None:
        super().__init__(scope, id)
        self.bus = events.EventBus(self, "Bus", event_bus_name="duebox")
        self._undeliverable = queues.dead_letters("Rules")
        self._rule("Public", events.Match.prefix("public."), queues.integration)
        self._rule("Reminders", events.Match.suffix(".reminder_due"), queues.notification)
        # A replay keeps no order, and brings events that were handled before; consumers drop them by their id.
        self.bus.archive("Archive", event_pattern=events.EventPattern(version=["0"]), retention=Duration.days(30))

    def _rule(self, id: str, detail_type: list[str], queue: sqs.Queue) -> None:
        """What a rule cannot hand over within a day goes to the dead letters too, not to nowhere."""
        target = targets.SqsQueue(
            queue, dead_letter_queue=self._undeliverable, max_event_age=Duration.hours(24), retry_attempts=185
        )
        pattern = events.EventPattern(detail_type=detail_type)
        events.Rule(self, id, event_bus=self.bus, event_pattern=pattern, targets=[target])
