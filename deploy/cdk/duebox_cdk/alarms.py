"""Whom to tell when something needs people."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class Alarms(Construct):
    """All alarms go to one topic; subscribe whoever is on call."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.topic = sns.Topic(self, "Topic", enforce_ssl=True)

    def when_not_empty(self, queue: sqs.Queue) -> cloudwatch.Alarm:
        """A dead letter is news, and the first one is."""
        alarm = queue.metric_approximate_number_of_messages_visible(
            period=Duration.minutes(1), statistic="Maximum"
        ).create_alarm(
            queue,
            "NotEmpty",
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            # A queue that nobody used for hours tells nothing, and that is no alarm.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=f"Dead letters in {queue.node.path}: look at them, repair the cause, retry them.",
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        return alarm
