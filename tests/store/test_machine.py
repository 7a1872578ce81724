from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.store.machine import Deliveries
from tests.support import examples


@pytest.mark.django_db
def test_whatever_workers_do_nothing_is_lost_twice_or_out_of_order(on):
    on("machine.ran", name="plain")(lambda event: None)
    on("machine.ran", name="blocking", ordered=True)(lambda event: None)
    on("machine.ran", name="skipping", ordered=True, on_dead="skip")(lambda event: None)
    run_state_machine_as_test(
        Deliveries,
        settings=settings(
            max_examples=examples(40),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
