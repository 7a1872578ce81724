"""Rounds in a Lambda function: once a minute, or whenever somebody calls it."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from duebox_cdk.database import Database
from duebox_cdk.network import Network
from duebox_cdk.program import Program
from duebox_cdk.queues import Queues

HANDLER = "duebox.integrations.lambda_handler.handler"
SOURCE = Path(__file__).parents[3] / "src"
"""Duebox alone: enough to synthesise. What is deployed needs your project and its packages too: -c code=FOLDER."""


class Rounds(Construct):
    def __init__(
        self, scope: Construct, id: str, *, network: Network, database: Database, queues: Queues, program: Program
    ) -> None:
        super().__init__(scope, id)
        self._dead = queues.dead_letters("Function")
        self.function = self._function(network, database, program)
        database.let_in_by_proxy(self.function)
        database.secret.grant_read(self.function)
        program.allow(self.function)
        # The schedule is the truth; a ping from the database would only be quicker.
        every_minute = events.Schedule.rate(Duration.minutes(1))
        target = targets.LambdaFunction(self.function, dead_letter_queue=self._dead, retry_attempts=0)
        events.Rule(self, "EveryMinute", schedule=every_minute, targets=[target])

    def _function(self, network: Network, database: Database, program: Program) -> lambda_.Function:
        code = self.node.try_get_context("code") or str(SOURCE)
        environment = program.environment(database.proxy.endpoint)
        return lambda_.Function(
            self,
            "Function",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            handler=HANDLER,
            code=lambda_.Code.from_asset(code, exclude=["**/__pycache__", "**/*.pyc"]),
            # A round ends by itself before this is over, and gives back what it could not do.
            timeout=Duration.minutes(1),
            memory_size=512,
            # Many calls at a time would only share the same work, and fill the database with connections.
            reserved_concurrent_executions=2,
            # The next minute is the retry.
            retry_attempts=0,
            dead_letter_queue=self._dead,
            environment={**environment, "DATABASE_SECRET": database.secret.secret_arn, "DUEBOX_LISTEN": "0"},
            vpc=network.vpc,
            vpc_subnets=network.programs,
            security_groups=[network.group("FunctionGroup", "Rounds in a function", outbound=True)],
            log_group=logs.LogGroup(self, "Log", retention=logs.RetentionDays.ONE_MONTH),
        )
