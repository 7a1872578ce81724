from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from duebox.events.identities import uuid7


def test_an_id_is_a_uuid_of_version_7_and_of_the_standard_variant():
    made = uuid7()
    assert (made.version, made.variant) == (7, "specified in RFC 4122")


def test_an_id_begins_with_the_milliseconds_of_its_making():
    before = time.time_ns() // 1_000_000
    made = uuid7()
    after = time.time_ns() // 1_000_000
    # The tick may run ahead of the clock by as many ids as were made in a burst before this.
    assert before <= made.int >> 80 <= after + 1


def test_ids_made_one_after_the_other_are_strictly_increasing():
    made = [uuid7() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_ids_made_by_several_threads_are_all_different():
    with ThreadPoolExecutor(4) as pool:
        made = [each for many in pool.map(lambda _: [uuid7() for _ in range(2_000)], range(4)) for each in many]
    assert len(set(made)) == 8_000
