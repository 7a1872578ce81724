"""Where events wait for their consumers, and where those go that nobody could handle."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from duebox_cdk.alarms import Alarms

TRIES = 5
LONGEST = Duration.days(14)
"""As long as SQS keeps anything."""


class Queues(Construct):
    def __init__(self, scope: Construct, id: str, alarms: Alarms) -> None:
        super().__init__(scope, id)
        self._alarms = alarms
        self.integration = self._with_dead_letters("Integration")
        self.notification = self._with_dead_letters("Notification")
        # In order for each aggregate. No rule of a bus can do that: a rule knows one message group only. So Duebox
        # writes to this queue itself.
        self.ordered = self._with_dead_letters("Ordered", fifo=True)
        # What somebody looked at and set aside: kept as long as SQS keeps anything, read by people alone.
        self.parking = self._queue("Parking", retention_period=LONGEST)

    def dead_letters(self, id: str, *, fifo: bool = False) -> sqs.Queue:
        queue = self._queue(f"{id}Dead", fifo=fifo, retention_period=LONGEST)
        self._alarms.when_not_empty(queue)
        return queue

    def _with_dead_letters(self, id: str, *, fifo: bool = False) -> sqs.Queue:
        dead = sqs.DeadLetterQueue(queue=self.dead_letters(id, fifo=fifo), max_receive_count=TRIES)
        return self._queue(
            id,
            fifo=fifo,
            dead_letter_queue=dead,
            retention_period=Duration.days(4),
            visibility_timeout=Duration.minutes(3),
        )

    def _queue(self, id: str, *, fifo: bool = False, **options: object) -> sqs.Queue:
        if fifo:
            # The deduplication id is the id of the event. Limits are counted for each aggregate, not for all.
            options |= {
                "fifo": True,
                "content_based_deduplication": False,
                "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
                "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
            }
        return sqs.Queue(self, id, encryption=sqs.QueueEncryption.SQS_MANAGED, enforce_ssl=True, **options)
