from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.moments import Moments
from tests.support import examples


@pytest.mark.django_db
def test_whatever_happens_to_a_schedule_each_occurrence_fires_once_and_not_before_its_time():
    run_state_machine_as_test(
        Moments,
        settings=settings(
            max_examples=examples(60),
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
