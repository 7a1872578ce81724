"""PostgreSQL in two zones, and the proxy in front of it."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_rds as rds
from constructs import Construct

from duebox_cdk.network import Network

NAME = "shop"
PORT = 5432


class Database(Construct):
    """Everything that Duebox promises rests on this one: a standby in another zone, encrypted, backed up."""

    def __init__(self, scope: Construct, id: str, network: Network) -> None:
        super().__init__(scope, id)
        self._group = network.group("DatabaseGroup", "The database", outbound=False)
        self._proxy_group = network.group("ProxyGroup", "The proxy of the database", outbound=False)
        self.instance = self._instance(network)
        assert self.instance.secret is not None
        self.secret = self.instance.secret
        self.proxy = self.instance.add_proxy(
            "Proxy",
            secrets=[self.secret],
            vpc=network.vpc,
            vpc_subnets=network.data,
            security_groups=[self._proxy_group],
            require_tls=True,
            # A client that leaves its transaction open must not hold a connection for ever.
            idle_client_timeout=Duration.minutes(10),
            max_connections_percent=80,
        )

    def let_in(self, program: ec2.IConnectable) -> None:
        """Straight: for a worker, which stays, has few connections, and listens."""
        self._group.connections.allow_from(program, ec2.Port.tcp(PORT))

    def let_in_by_proxy(self, program: ec2.IConnectable) -> None:
        """For what comes and goes in numbers, as functions do."""
        self._proxy_group.connections.allow_from(program, ec2.Port.tcp(PORT))

    def _instance(self, network: Network) -> rds.DatabaseInstance:
        engine = rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.VER_17)
        return rds.DatabaseInstance(
            self,
            "Instance",
            engine=engine,
            database_name=NAME,
            credentials=rds.Credentials.from_generated_secret("duebox"),
            instance_type=ec2.InstanceType.of(ec2.InstanceClass.M7G, ec2.InstanceSize.LARGE),
            vpc=network.vpc,
            vpc_subnets=network.data,
            security_groups=[self._group],
            publicly_accessible=False,
            multi_az=True,
            storage_encrypted=True,
            storage_type=rds.StorageType.GP3,
            allocated_storage=100,
            max_allocated_storage=1000,
            backup_retention=Duration.days(14),
            auto_minor_version_upgrade=True,
            deletion_protection=True,
            removal_policy=RemovalPolicy.SNAPSHOT,
            cloudwatch_logs_exports=["postgresql"],
            parameter_group=rds.ParameterGroup(
                self,
                "Parameters",
                engine=engine,
                parameters={
                    "rds.force_ssl": "1",
                    # An open transaction keeps dead rows from being cleaned up, and workers get slower.
                    "idle_in_transaction_session_timeout": "60000",
                },
            ),
        )
