from __future__ import annotations

from math import inf, nan

import pytest
from msgspec.structs import replace

from tests.support.builders import (
    MINUTE,
    SECOND,
    a_session,
    a_task,
    claim_all,
    claim_one,
    complete,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.task import Progress, TaskId
from windlass.stores.protocol import ProgressSeen, Store


def test_the_latest_report_of_an_attempt_is_kept(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    lease = claim_one(store).lease
    store.progress([Progress(lease=lease, share=0.25, message="a quarter")])
    clock.advance(SECOND)

    stale = store.progress([Progress(lease=lease, message="more"), Progress(lease=lease, share=0.5)])

    assert stale == []
    assert store.progress_of([id]) == [ProgressSeen(lease.fence, 0.5, None, clock.now())]


def test_the_task_itself_stays_as_it_is(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    lease = claim_one(store).lease
    before = task_of(store, id)
    clock.advance(SECOND)

    store.progress([Progress(lease=lease, share=1.0)])

    assert task_of(store, id) == before


def test_answers_come_in_the_order_asked_for(store: Store, clock: ManualClock) -> None:
    first, second, silent = submit(store, a_task(), a_task(), a_task())
    leases = {claim.id: claim.lease for claim in claim_all(store)}

    store.progress([Progress(lease=leases[id], message=str(id)) for id in (second, first)])

    unknown = TaskId(a_session(store))
    seen = store.progress_of([second, unknown, silent, first, second])
    assert [None if one is None else one.message for one in seen] == [str(second), None, None, str(first), str(second)]
    assert store.progress_of([]) == []
    assert store.progress([]) == []


def test_a_stale_report_changes_nothing_is_named_and_harms_no_neighbour(store: Store, clock: ManualClock) -> None:
    lost, kept = submit(store, a_task(), a_task(queue="other"))
    stale = claim_one(store).lease
    clock.advance(MINUTE)
    sweep_until_quiet(store)
    session = a_session(store)
    again, other = claim_one(store, session).lease, claim_one(store, session, queue="other").lease
    store.progress([Progress(lease=again, message="mine")])

    answer = store.progress(
        [
            Progress(lease=stale, message="old"),
            Progress(lease=other, message="fine"),
            Progress(lease=replace(again, session=stale.session), message="forged"),
            Progress(lease=stale, message="old"),
            Progress(lease=again, message="mine still"),
        ]
    )

    assert answer == [stale, replace(again, session=stale.session)]
    assert [one and one.message for one in store.progress_of([lost, kept])] == ["mine still", "fine"]


def test_an_attempt_that_has_ended_reports_no_more(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    store.progress([Progress(lease=claim.lease, share=0.5)])
    complete(store, claim)

    assert store.progress([Progress(lease=claim.lease, share=0.75)]) == [claim.lease]
    assert [one and one.share for one in store.progress_of([id])] == [0.5]


@pytest.mark.parametrize(
    ("given", "kept"), [(None, None), (nan, None), (inf, 1.0), (-1, 0.0), (2, 1.0), (1e-9, 1e-9), (1 / 3, 1 / 3)]
)
def test_any_share_is_taken_for_one_from_nothing_to_all(store: Store, given: float | None, kept: float | None) -> None:
    id = submit_one(store)

    store.progress([Progress(lease=claim_one(store).lease, share=given, message='\0 \\ " é')])

    [seen] = store.progress_of([id])
    assert seen is not None
    assert (seen.share, seen.message) == (kept, '\ufffd \\ " é')


def test_progress_goes_with_its_task(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    store.progress([Progress(lease=claim.lease, share=0.5)])
    complete(store, claim)

    store.purge([id])

    assert store.progress_of([id]) == [None]
