"""What the worker and the function share: the settings they are given, and the rights they need."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from duebox_cdk.bus import Bus
from duebox_cdk.database import NAME, PORT, Database
from duebox_cdk.queues import Queues

SETTINGS_MODULE = "shop.settings"


class Program(Construct):
    def __init__(self, scope: Construct, id: str, *, bus: Bus, queues: Queues, database: Database) -> None:
        super().__init__(scope, id)
        self._bus, self._queues, self._database = bus, queues, database

    def environment(self, host: str) -> dict[str, str]:
        """Nothing secret: the password is fetched with the secret's name, or put in by the platform."""
        return {
            "DJANGO_SETTINGS_MODULE": SETTINGS_MODULE,
            "DATABASE_HOST": host,
            "DATABASE_PORT": str(PORT),
            "DATABASE_NAME": NAME,
            "DUEBOX_BUS": self._bus.bus.event_bus_name,
            "DUEBOX_ORDERED_QUEUE": self._queues.ordered.queue_url,
        }

    def allow(self, role: iam.IGrantable) -> None:
        """Two verbs on two things. Rules write to the other queues, and consumers read them."""
        self._bus.bus.grant_put_events_to(role)
        role.grant_principal.add_to_principal_policy(
            iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[self._queues.ordered.queue_arn])
        )
