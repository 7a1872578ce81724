"""All of it together."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from duebox_cdk.alarms import Alarms
from duebox_cdk.bus import Bus
from duebox_cdk.database import Database
from duebox_cdk.function import Rounds
from duebox_cdk.network import Network
from duebox_cdk.program import Program
from duebox_cdk.queues import Queues
from duebox_cdk.worker import Workers


class DueboxStack(Stack):
    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id, description="Duebox: database, bus, queues, worker and function")
        network = Network(self, "Network")
        alarms = Alarms(self, "Alarms")
        queues = Queues(self, "Queues", alarms)
        bus = Bus(self, "Bus", queues)
        database = Database(self, "Database", network)
        program = Program(self, "Program", bus=bus, queues=queues, database=database)
        Rounds(self, "Rounds", network=network, database=database, queues=queues, program=program)
        Workers(self, "Workers", network=network, database=database, program=program)
        self._tell("Alarms topic", alarms.topic.topic_arn)
        self._tell("Bus name", bus.bus.event_bus_name)
        self._tell("Integration queue", queues.integration.queue_url)
        self._tell("Notification queue", queues.notification.queue_url)
        self._tell("Ordered queue", queues.ordered.queue_url)
        self._tell("Parking queue", queues.parking.queue_url)
        self._tell("Database proxy", database.proxy.endpoint)

    def _tell(self, what: str, value: str) -> None:
        CfnOutput(self, what.title().replace(" ", ""), value=value, description=what)
