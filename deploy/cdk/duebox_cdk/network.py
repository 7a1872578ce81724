"""A network of its own, over several zones."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

ZONES = 2


class Network(Construct):
    """Programs reach the world through a gateway, as webhooks must; the database reaches nobody."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=ZONES,
            # One a zone: a zone that is lost takes no other zone's way out with it.
            nat_gateways=ZONES,
            restrict_default_security_group=False,  # doing so takes a custom resource; nothing here uses that group
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="public", subnet_type=ec2.SubnetType.PUBLIC, map_public_ip_on_launch=False
                ),
                ec2.SubnetConfiguration(name="programs", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
                ec2.SubnetConfiguration(name="data", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            ],
        )
        self.programs = ec2.SubnetSelection(subnet_group_name="programs")
        self.data = ec2.SubnetSelection(subnet_group_name="data")

    def group(self, id: str, description: str, *, outbound: bool) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(self, id, vpc=self.vpc, description=description, allow_all_outbound=outbound)
