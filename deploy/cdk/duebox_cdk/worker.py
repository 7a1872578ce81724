"""Workers on Fargate: what delivers within milliseconds."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_logs as logs
from constructs import Construct

from duebox_cdk.database import Database
from duebox_cdk.network import Network
from duebox_cdk.program import Program

IMAGE = "registry.example.com/shop:1.0.0"
COMMAND = ["python", "manage.py", "duebox", "worker", "--threads", "4"]
ALIVE = ["CMD", "python", "manage.py", "duebox", "health", "--patient"]
"""Patient: a worker waits for a database that is away, and a restart would not bring it back."""


class Workers(Construct):
    def __init__(self, scope: Construct, id: str, *, network: Network, database: Database, program: Program) -> None:
        super().__init__(scope, id)
        self.task = ecs.FargateTaskDefinition(self, "Task", cpu=512, memory_limit_mib=1024)
        self._add_container(database, program)
        program.allow(self.task.task_role)
        self.service = ecs.FargateService(
            self,
            "Service",
            cluster=ecs.Cluster(self, "Cluster", vpc=network.vpc),
            task_definition=self.task,
            desired_count=2,
            # New ones first: at no moment does nobody deliver.
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            assign_public_ip=False,
            vpc_subnets=network.programs,
            security_groups=[network.group("WorkerGroup", "Workers", outbound=True)],
        )
        database.let_in(self.service)

    def _add_container(self, database: Database, program: Program) -> None:
        log = logs.LogGroup(self, "Log", retention=logs.RetentionDays.ONE_MONTH)
        self.task.add_container(
            "worker",
            image=ecs.ContainerImage.from_registry(self.node.try_get_context("image") or IMAGE),
            command=COMMAND,
            environment={
                **program.environment(database.instance.db_instance_endpoint_address),
                "AWS_DEFAULT_REGION": Stack.of(self).region,  # a function is told by Lambda
            },
            secrets={
                "DATABASE_USER": ecs.Secret.from_secrets_manager(database.secret, "username"),
                "DATABASE_PASSWORD": ecs.Secret.from_secrets_manager(database.secret, "password"),
            },
            # After SIGTERM a worker gives what runs SHUTDOWN_SECONDS (25) to end.
            stop_timeout=Duration.seconds(40),
            health_check=ecs.HealthCheck(
                command=ALIVE,
                interval=Duration.seconds(60),
                timeout=Duration.seconds(15),
                retries=3,
                start_period=Duration.seconds(120),
            ),
            # Duebox writes no files; a handler that does needs a volume.
            readonly_root_filesystem=True,
            logging=ecs.LogDriver.aws_logs(stream_prefix="worker", log_group=log),
        )
