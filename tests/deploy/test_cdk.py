"""The AWS CDK app, synthesised as `cdk synth` would, and the template asked what it says."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from tests.deploy.commands import DEFAULTS, DEPLOY, STOP_SECONDS, parsed

APP = DEPLOY / "cdk"


def _missing() -> str:
    if shutil.which("node") is None:
        return "the CDK runs on node, and there is none on this machine"
    try:
        import aws_cdk  # noqa: F401
    except ModuleNotFoundError:
        return "aws-cdk-lib is not installed; run: pip install --group deploy"
    return ""


@pytest.fixture(scope="module")
def resources():
    """By type, the properties of every resource of the stack."""
    if reason := _missing():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        # Its warning about the version of node is for people.
        patch.setenv("JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION", "1")
        patch.setenv("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "1")
        patch.syspath_prepend(str(APP))
        template = _synthesised()
        for name in [name for name in sys.modules if name.startswith("duebox_cdk")]:
            del sys.modules[name]
    found: dict[str, dict[str, dict]] = {}
    for id, resource in template["Resources"].items():
        found.setdefault(resource["Type"], {})[id] = resource
    return found


def _synthesised():
    from aws_cdk import App
    from aws_cdk.assertions import Template
    from duebox_cdk.stack import DueboxStack

    app = App(context=json.loads((APP / "cdk.json").read_text())["context"])
    return Template.from_stack(DueboxStack(app, "Duebox")).to_json()


def properties(resources, kind):
    return [each.get("Properties", {}) for each in resources[kind].values()]


def one(resources, kind):
    [only] = properties(resources, kind)
    return only


def queue_ids(resources, ending):
    return {id for id in resources["AWS::SQS::Queue"] if id.removeprefix("Queues").rstrip("0123456789ABCDEF") == ending}


def dead_letter_queues(resources):
    return {id for id in resources["AWS::SQS::Queue"] if "Dead" in id}


pytestmark = pytest.mark.soak


def test_the_database_stands_in_two_zones_encrypted_and_out_of_reach(resources):
    database = one(resources, "AWS::RDS::DBInstance")
    assert (database["MultiAZ"], database["StorageEncrypted"], database["PubliclyAccessible"]) == (True, True, False)
    assert database["DeletionProtection"] is True
    assert database["BackupRetentionPeriod"] >= 7
    assert one(resources, "AWS::RDS::DBParameterGroup")["Parameters"]["rds.force_ssl"] == "1"
    [row] = resources["AWS::RDS::DBInstance"].values()
    assert row["DeletionPolicy"] == "Snapshot"


def test_its_password_is_made_and_kept_by_aws(resources):
    assert len(resources["AWS::SecretsManager::Secret"]) == 1
    password = json.dumps(one(resources, "AWS::RDS::DBInstance")["MasterUserPassword"])
    assert "resolve:secretsmanager" in password
    told = json.dumps(one(resources, "AWS::Lambda::Function")["Environment"])
    assert "resolve:secretsmanager" not in told


def test_a_proxy_stands_in_front_of_it_and_insists_on_tls(resources):
    proxy = one(resources, "AWS::RDS::DBProxy")
    assert (proxy["RequireTLS"], proxy["EngineFamily"]) == (True, "POSTGRESQL")
    assert len(proxy["VpcSubnetIds"]) >= 2


def test_nothing_can_be_reached_from_outside(resources):
    assert [each for each in properties(resources, "AWS::EC2::Subnet") if each.get("MapPublicIpOnLaunch")] == []
    assert [each for each in properties(resources, "AWS::EC2::SecurityGroup") if each.get("SecurityGroupIngress")] == []
    inbound = properties(resources, "AWS::EC2::SecurityGroupIngress")
    assert inbound
    assert all("CidrIp" not in each and "SourceSecurityGroupId" in each for each in inbound)
    network = one(resources, "AWS::ECS::Service")["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["AssignPublicIp"] == "DISABLED"


def test_every_zone_has_its_own_way_out(resources):
    assert len(resources["AWS::EC2::NatGateway"]) >= 2


@pytest.mark.parametrize("name", ["Integration", "Notification", "Ordered"])
def test_a_queue_hands_what_nobody_can_handle_to_its_dead_letters(resources, name):
    [id] = queue_ids(resources, name)
    redrive = resources["AWS::SQS::Queue"][id]["Properties"]["RedrivePolicy"]
    target = redrive["deadLetterTargetArn"]["Fn::GetAtt"][0]
    assert redrive["maxReceiveCount"] >= 2
    assert target in dead_letter_queues(resources)
    assert target.startswith(f"Queues{name}Dead")


def test_every_queue_of_dead_letters_has_an_alarm_that_tells_somebody(resources):
    alarms = properties(resources, "AWS::CloudWatch::Alarm")
    watched = {each["Dimensions"][0]["Value"]["Fn::GetAtt"][0] for each in alarms}
    assert len(watched) >= 5
    assert watched == dead_letter_queues(resources)
    for each in alarms:
        assert each["MetricName"] == "ApproximateNumberOfMessagesVisible"
        assert (each["Threshold"], each["ComparisonOperator"]) == (0, "GreaterThanThreshold")
        assert each["AlarmActions"] == [{"Ref": next(iter(resources["AWS::SNS::Topic"]))}]


def test_every_queue_is_encrypted_and_refuses_what_is_not(resources):
    assert all(each["SqsManagedSseEnabled"] is True for each in properties(resources, "AWS::SQS::Queue"))
    guarded = {queue["Ref"] for each in properties(resources, "AWS::SQS::QueuePolicy") for queue in each["Queues"]}
    assert guarded == set(resources["AWS::SQS::Queue"])
    for each in properties(resources, "AWS::SQS::QueuePolicy"):
        assert any(statement["Effect"] == "Deny" for statement in each["PolicyDocument"]["Statement"])


def test_the_ordered_queue_and_its_dead_letters_are_fifo_and_drop_repeats_by_the_id_of_the_event(resources):
    queues = resources["AWS::SQS::Queue"]
    fifo = {id for id, each in queues.items() if each["Properties"].get("FifoQueue")}
    assert fifo == queue_ids(resources, "Ordered") | {id for id in queues if id.startswith("QueuesOrderedDead")}
    assert len(fifo) == 2
    assert all(queues[id]["Properties"].get("ContentBasedDeduplication") is False for id in fifo)


def test_what_is_parked_is_kept_as_long_as_can_be(resources):
    [id] = queue_ids(resources, "Parking")
    parking = resources["AWS::SQS::Queue"][id]["Properties"]
    assert parking["MessageRetentionPeriod"] == 14 * 24 * 60 * 60
    assert "RedrivePolicy" not in parking


def test_rules_send_public_events_and_reminders_to_their_queues_and_lose_nothing(resources):
    routed = {}
    for each in properties(resources, "AWS::Events::Rule"):
        for target in each["Targets"]:
            assert target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] in dead_letter_queues(resources)
            if "EventPattern" in each:
                assert "EventBusName" in each
                routed[target["Arn"]["Fn::GetAtt"][0]] = each["EventPattern"]["detail-type"]
    [integration], [notification] = queue_ids(resources, "Integration"), queue_ids(resources, "Notification")
    assert routed == {integration: [{"prefix": "public."}], notification: [{"suffix": ".reminder_due"}]}


def test_no_rule_writes_to_the_ordered_queue_for_it_could_not_keep_the_order(resources):
    targets = json.dumps(properties(resources, "AWS::Events::Rule"))
    assert "QueuesOrdered" not in targets


def test_the_function_has_a_handler_that_there_is(resources):
    from importlib import import_module

    module, _, name = one(resources, "AWS::Lambda::Function")["Handler"].rpartition(".")
    assert callable(getattr(import_module(module), name))


def test_the_function_runs_every_minute_beside_the_proxy_and_its_failures_are_kept(resources):
    function = one(resources, "AWS::Lambda::Function")
    [proxy] = resources["AWS::RDS::DBProxy"]
    assert function["Environment"]["Variables"]["DATABASE_HOST"] == {"Fn::GetAtt": [proxy, "Endpoint"]}
    assert function["DeadLetterConfig"]["TargetArn"]["Fn::GetAtt"][0] in dead_letter_queues(resources)
    assert function["VpcConfig"]["SubnetIds"]
    assert function["Timeout"] > DEFAULTS.SHUTDOWN_SECONDS
    schedules = [each.get("ScheduleExpression") for each in properties(resources, "AWS::Events::Rule")]
    assert "rate(1 minute)" in schedules


def test_the_worker_runs_a_command_that_there_is_and_has_time_to_stop(resources):
    [worker] = one(resources, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    assert parsed(worker["Command"])["verb"] == "worker"
    assert worker["StopTimeout"] >= STOP_SECONDS
    kind, *alive = worker["HealthCheck"]["Command"]
    assert kind == "CMD"
    assert (parsed(alive)["verb"], parsed(alive)["patient"]) == ("health", True)
    assert {secret["Name"] for secret in worker["Secrets"]} == {"DATABASE_USER", "DATABASE_PASSWORD"}
    assert one(resources, "AWS::ECS::Service")["DesiredCount"] >= 2


def test_a_worker_goes_to_the_database_itself_where_it_can_listen(resources):
    [worker] = one(resources, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    told = {each["Name"]: each["Value"] for each in worker["Environment"]}
    [database] = resources["AWS::RDS::DBInstance"]
    assert told["DATABASE_HOST"] == {"Fn::GetAtt": [database, "Endpoint.Address"]}


def test_no_right_is_wider_than_its_use(resources):
    for each in properties(resources, "AWS::IAM::Policy"):
        for statement in each["PolicyDocument"]["Statement"]:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            assert not [action for action in actions if "*" in action]
            assert "*" not in json.dumps(statement["Resource"])


def test_the_worker_may_write_to_the_bus_and_to_the_ordered_queue_and_nothing_else(resources):
    [rights] = [
        each["PolicyDocument"]["Statement"]
        for id, row in resources["AWS::IAM::Policy"].items()
        if id.startswith("WorkersTaskTaskRole")
        for each in [row["Properties"]]
    ]
    assert [statement["Action"] for statement in rights] == ["events:PutEvents", "sqs:SendMessage"]
