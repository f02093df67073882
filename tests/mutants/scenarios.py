"""Scenarios that fail if a promise is broken. Every scenario passes on the unmodified stores."""

from __future__ import annotations

from contextlib import suppress

import psycopg
from msgspec.structs import replace

from tests.mutants.laboratory import (
    COMMIT,
    Background,
    Death,
    Gate,
    Laboratory,
    PromiseBroken,
    database_of,
    die_at,
    promise,
)
from tests.support.builders import (
    DAY,
    GAVE_UP,
    HOUR,
    MINUTE,
    OOPS,
    RAISED,
    SECOND,
    a_session,
    a_task,
    claim_all,
    claim_one,
    complete,
    decided,
    report,
    run_all,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from tests.support.processes import until
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, Manifest
from windlass.core.settlement import Crashed, Released
from windlass.core.task import Change, OnFailure, TaskId
from windlass.errors import CommitUnknown, SessionLost, StoreUnavailable, UnknownPrerequisite
from windlass.stores.postgres import database
from windlass.stores.postgres.claim_partitions import ClaimPartitions
from windlass.stores.protocol import SESSION_TTL, Filter, LeaseLost, Settled
from windlass.stores.sql import endings, settle
from windlass.stores.sql.store import SqlStore


def a_stale_lease_is_refused(lab: Laboratory) -> None:
    store = lab.open()
    task = submit_one(store)
    stale = claim_one(store)
    lab.clock.advance(SESSION_TTL + SECOND)
    sweep_until_quiet(store)
    fresh = claim_one(store)

    [verdict] = complete(store, stale)

    promise(isinstance(verdict, LeaseLost), "a lease that was swept is refused")
    promise(state_of(store, task) is State.LEASED, "a refused report changes nothing")
    promise(task_of(store, task).session == fresh.lease.session, "the task stays with its new holder")
    promise(lab.check() == [], "a refused report is written nowhere")


def every_grant_has_a_greater_fence(lab: Laboratory) -> None:
    store = lab.open()
    submit_one(store)
    session = a_session(store)
    first = claim_one(store, session)
    report(store, first, Released())
    second = claim_one(store, session)

    promise(second.lease.fence > first.lease.fence, "a fence grows with every grant")
    promise(isinstance(complete(store, first)[0], LeaseLost), "the same node's earlier lease is refused too")


def a_restored_store_hands_out_greater_fences_than_before(lab: Laboratory) -> None:
    store = lab.open()
    submit_one(store)
    session = a_session(store)
    for _ in range(3):
        before = claim_one(store, session)
        report(store, before, Released())
    store.raise_epoch()

    after = claim_one(store, session)

    # The restored copy may be from before the first grant: only the epoch distinguishes its leases from those.
    promise(after.lease.fence >> 40 == 1, "a fence carries the epoch")


def what_is_acknowledged_is_committed(lab: Laboratory) -> None:
    store, other = lab.open(), lab.open()

    task = submit_one(store, deadline=SECOND)  # not plain, so it has a commit of its own

    promise(other.get([task]) != [None], "everybody sees an acknowledged task")


def what_is_committed_is_durable(lab: Laboratory) -> None:
    with database_of(lab.open())._connection() as connection:
        [(setting,)] = connection.execute("SHOW synchronous_commit").fetchall()

    promise(setting in ("on", "remote_apply"), "a commit waits until it is on disk")


def no_wake_up_is_lost_when_submit_meets_settle(lab: Laboratory) -> None:
    """The submitter has seen the parent unfinished and has not committed; now the parent is completed."""
    submitter, settler = lab.open(), lab.open()
    parent = submit_one(settler)
    sweep_until_quiet(settler)  # With a snapshot of its own, a submit leaves it to the sweep to make a task runnable.
    claim = claim_one(settler)
    gate = lab.gate(submitter, "submit")

    submitting = lab.in_background(lambda: submit_one(submitter, key="child", prerequisites=[parent]))
    gate.await_somebody()
    settling = lab.in_background(lambda: complete(settler, claim))
    lab.await_standstill(settling)
    gate.open()
    child = submitting.result()
    settling.result()

    promise(state_of(settler, child) is State.RUNNABLE, "a dependent of a completed task does not wait")


def no_wake_up_is_lost_when_submit_meets_claim_and_settle(lab: Laboratory) -> None:
    """The submitter has seen the parent runnable and has not committed; now the parent is claimed and completed."""
    submitter, node = lab.open(), lab.open()
    parent = submit_one(node)
    gate = lab.gate(submitter, "submit")

    submitting = lab.in_background(lambda: submit_one(submitter, queue="children", prerequisites=[parent]))
    gate.await_somebody()
    complete(node, *claim_all(node))
    gate.open()
    child = submitting.result()
    complete(node, *claim_all(node))

    promise(state_of(node, child) is State.RUNNABLE, "a dependent of a completed task does not wait")


def no_wake_up_is_lost_when_submit_meets_cancel(lab: Laboratory) -> None:
    """The submitter has seen the parent waiting and has not committed; now the parent is cancelled."""
    submitter, operator = lab.open(), lab.open()
    above = submit_one(operator)
    parent = submit_one(operator, queue="children", prerequisites=[above])
    gate = lab.gate(submitter, "submit")

    submitting = lab.in_background(lambda: submit_one(submitter, queue="children", prerequisites=[parent]))
    gate.await_somebody()
    cancelling = lab.in_background(lambda: operator.cancel([parent], reason="no longer wanted"))
    lab.await_standstill(cancelling)
    gate.open()
    child = submitting.result()
    cancelling.result()

    promise(state_of(operator, child) is State.CANCELLED, "a dependent of a cancelled task does not wait")


def no_wake_up_is_lost_when_adoption_meets_settle(lab: Laboratory) -> None:
    """The settle has looked for dependents and not committed; now one comes in a caller's transaction, and a sweep."""
    settler, sweeper = lab.open(), lab.open()
    parent = submit_one(settler)
    claim = claim_one(settler)
    connection = lab.connect()
    [child] = sweeper.submit([a_task(prerequisites=[parent])], conn=connection)
    gate = lab.gate(settler, COMMIT)

    settling = lab.in_background(lambda: complete(settler, claim))
    gate.await_somebody()
    connection.commit()
    sweeping = lab.in_background(sweeper.sweep)
    lab.await_standstill(sweeping)
    gate.open()
    settling.result()
    sweeping.result()
    sweep_until_quiet(sweeper)

    promise(state_of(settler, child.id) is State.RUNNABLE, "a dependent of a completed task does not wait")


def children_reached_in_opposite_orders_cause_no_deadlock(lab: Laboratory) -> None:
    """Two settles meet at two children. A bystander holds a third one for each, so that both are half way."""
    lab.patch(endings, "LEVELS", 0)
    lab.patch(settle, "LEVELS", 0)  # No edge is resolved in the transaction of the ends, which waits for nobody.
    states = watch_conflicts(lab)
    one, other = lab.open(), lab.open()
    first, mine, yours, last = in_id_order("c0", "c1", "c2", "c3")
    up = [key for key, _ in in_id_order("p0", "p1", "p2")]
    down = [key for key, _ in in_id_order("q0", "q1", "q2")]
    submit(one, *(a_task(key=key, queue="up") for key in up))
    submit(one, *(a_task(key=key, queue="down") for key in down))
    # Resolved in the order of their parents: `up` reaches first, mine, last; `down` reaches last, yours, first.
    children = {first: (up[0], down[2]), mine: (up[1],), yours: (down[1],), last: (up[2], down[0])}
    submit(one, *(a_task(key=child[0], queue="children", prerequisites=above) for child, above in children.items()))
    lab.clock.advance(SECOND)  # The later ones of a batch are due some microseconds later.
    rising, falling = claim_all(one, queues=["up"]), claim_all(other, queues=["down"])
    bystander = lab.connect()
    locked = [mine[1], yours[1]]
    bystander.execute("SELECT id FROM windlass.task WHERE id = ANY (%s) FOR UPDATE", [locked]).fetchall()

    calls = [lab.in_background(lambda: complete(one, *rising)), lab.in_background(lambda: complete(other, *falling))]
    lab.await_standstill(*calls)
    bystander.rollback()
    for call in calls:
        call.result()

    promise("40P01" not in states, "settles that share children never deadlock")
    promise(set(states_of(one, [child[1] for child in children])) == {State.RUNNABLE}, "every child is runnable")


def leases_in_opposite_orders_cause_no_deadlock(lab: Laboratory) -> None:
    """A settle and a submit meet at two leases. A bystander holds a third one for each, so that both are half way."""
    states = watch_conflicts(lab)
    one, other = lab.open(), lab.open()
    first, mine, yours, last = in_id_order("p0", "p1", "p2", "p3")
    submit(one, *(a_task(key=key) for key, _ in (first, mine, yours, last)))
    lab.clock.advance(SECOND)
    claims = {claim.id: claim for claim in claim_all(one)}
    bystander = lab.connect()
    locked = [mine[1], yours[1]]
    bystander.execute("SELECT id FROM windlass.leased WHERE id = ANY (%s) FOR UPDATE", [locked]).fetchall()

    falling = [claims[id] for _, id in (last, mine, first)]
    rising = [key for key, _ in (first, yours, last)]
    calls = [
        lab.in_background(lambda: complete(one, *falling)),
        lab.in_background(lambda: submit_one(other, queue="children", prerequisites=rising)),
    ]
    lab.await_standstill(*calls)
    bystander.rollback()
    for call in calls:
        call.result()
    complete(one, claims[yours[1]])

    promise("40P01" not in states, "settles and submits that share prerequisites never deadlock")
    promise(len(claim_all(one, queues=["children"])) == 1, "the dependent is runnable")


def a_cancel_that_meets_a_claim_asks_its_holder_to_stop(lab: Laboratory) -> None:
    """The operator is about to look at the hot tables, or waits for one of their rows, when a claim commits."""
    operator, slow, node = lab.open(), lab.open(), lab.open()
    early, late = submit_one(node, queue="early"), submit_one(node, queue="late")
    looking, committing = lab.gate(operator, "lock_runnable"), lab.gate(slow, COMMIT)

    claiming = lab.in_background(lambda: slow.claim(a_session(node), ["late"], 1))
    committing.await_somebody()
    cancelling = lab.in_background(lambda: operator.cancel([early, late], reason="no longer wanted"))
    looking.await_somebody()
    claims = [claim_one(node, queue="early")]
    looking.open()
    lab.await_standstill(cancelling)
    committing.open()
    claims += claiming.result()
    cancelling.result()

    promise(states_of(node, [early, late]) == [State.LEASED] * 2, "what runs is not cancelled behind its holder's back")
    promise({task_of(node, claim.id).cancel_requested for claim in claims} == {True}, "its holder is asked to stop")


def what_a_cancel_has_locked_is_neither_claimed_nor_completed(lab: Laboratory) -> None:
    """The operator has locked a runnable and a leased task, and is about to write."""
    operator, node = lab.open(), lab.open()
    running = submit_one(node)
    claim = claim_one(node)
    ready = submit_one(node)
    gate = lab.gate(operator, "drop_runnable")

    cancelling = lab.in_background(lambda: operator.cancel([ready, running], reason="no longer wanted"))
    gate.await_somebody()
    claims = claim_all(node)
    settling = lab.in_background(lambda: complete(node, claim))
    lab.await_standstill(settling)
    gate.open()
    changed = cancelling.result()
    settling.result()

    promise(not claims, "no attempt of a cancelled task starts")
    promise(changed == 2, "both were cancelled")
    promise(states_of(node, [ready, running]) == [State.CANCELLED] * 2, "both stay cancelled")


def a_cancel_that_meets_a_settle_changes_nothing(lab: Laboratory) -> None:
    """The operator has found no runnable row, and is about to look for a lease, when the attempt completes."""
    operator, node = lab.open(), lab.open()
    task = submit_one(node)
    claim = claim_one(node)
    gate = lab.gate(operator, "lock_leased")

    cancelling = lab.in_background(lambda: operator.cancel([task], reason="no longer wanted"))
    gate.await_somebody()
    settling = lab.in_background(lambda: complete(node, claim))
    lab.await_standstill(settling)
    gate.open()
    changed = cancelling.result()
    [verdict] = settling.result()

    promise(isinstance(verdict, Settled), "the attempt is reported")
    promise((changed, state_of(node, task)) == (0, State.COMPLETED), "what has completed is not cancelled")


def what_is_no_longer_runnable_is_not_claimed(lab: Laboratory) -> None:
    store = lab.open()
    wanted = submit_one(store, key="wanted")
    cancelled = submit_one(store)
    later = submit_one(store, deadline=HOUR)
    lab.clock.advance(SECOND)
    store.cancel([cancelled], reason="no longer wanted")
    store.update(later, Change(at=HOUR))

    promise([claim.id for claim in claim_all(store)] == [wanted], "what was cancelled or postponed is not claimed")


def an_expired_task_is_no_longer_runnable(lab: Laboratory) -> None:
    store = lab.open()
    task = submit_one(store, expires=SECOND)
    lab.clock.advance(MINUTE)
    sweep_until_quiet(store)

    promise(state_of(store, task) is State.EXPIRED, "what was not claimed in time expires")
    promise(lab.check() == [], "an expired task is in no other table")


def a_merge_and_a_cancel_do_not_wait_for_each_other(lab: Laboratory) -> None:
    """The operator has locked the task, and is about to lock its runnable row, when a merge moves that."""
    operator, store = lab.open(), lab.open()
    states = watch_conflicts(lab)
    task = submit_one(store)
    renew_the_lot(lab, "default")
    gate = lab.gate(operator, "lock_runnable")
    lots = database_of(store)._lots

    cancelling = lab.in_background(lambda: operator.cancel([task], reason="no longer wanted"))
    gate.await_somebody()
    with psycopg.connect(lab.url, autocommit=True) as connection:
        merging = lab.in_background(lambda: lots._run(connection, "merge_lot", queue="default", number=0, limit=100))
        lab.await_standstill(merging)
        waited = not merging.ended
        gate.open()
        cancelling.result()
        with suppress(psycopg.errors.DeadlockDetected):
            merging.result()

    promise(not waited and not states, "a merge passes over what somebody else has locked")
    promise(not claim_all(store), "no attempt starts after a cancel")


def the_same_keys_in_opposite_orders_cause_no_deadlock(lab: Laboratory) -> None:
    """Two submits meet at two keys. A bystander is about to take a third one from each, so that both are half way."""
    states = watch_conflicts(lab)
    one, other = lab.open(), lab.open()
    first, mine, yours, last = in_id_order("k0", "k1", "k2", "k3")
    bystander = lab.connect()
    submit_rows(bystander, [mine[1], yours[1]])

    rising = [a_task(key=key) for key, _ in (first, mine, last)]
    falling = [a_task(key=key) for key, _ in (last, yours, first)]
    calls = [lab.in_background(lambda: one.submit(rising)), lab.in_background(lambda: other.submit(falling))]
    lab.await_standstill(*calls)
    bystander.rollback()
    receipts = [receipt for call in calls for receipt in call.result()]

    promise("40P01" not in states, "submits that share keys never deadlock")
    promise(sum(receipt.created for receipt in receipts) == 4, "each task is created once")


def a_child_of_two_parents_in_one_batch_counts_both(lab: Laboratory) -> None:
    store = lab.open()
    parents = submit(store, a_task(), a_task())
    child = submit_one(store, queue="children", prerequisites=parents)

    complete(store, *claim_all(store))

    promise(state_of(store, child) is State.RUNNABLE, "each ended prerequisite is counted")


def a_cancelled_child_stays_cancelled(lab: Laboratory) -> None:
    store = lab.open()
    parent = submit_one(store)
    child = submit_one(store, queue="children", prerequisites=[parent])
    store.cancel([child], reason="no longer wanted")

    complete(store, claim_one(store))

    promise(state_of(store, child) is State.CANCELLED, "its last prerequisite does not bring a cancelled task back")
    promise(not claim_all(store, queues=["children"]), "no attempt starts after a cancel")


def a_task_that_kills_its_process_goes_to_the_dead_letters(lab: Laboratory) -> None:
    store = lab.open()
    task = submit_one(store)

    for _ in range(3):
        report(store, claim_one(store), Crashed(OOPS))
        if state_of(store, task) is State.FAILED:
            break

    promise(state_of(store, task) is State.FAILED, "three crashes are poison")


def a_task_that_loses_its_nodes_goes_to_the_dead_letters(lab: Laboratory) -> None:
    store = lab.open()
    task = submit_one(store)

    for _ in range(10):
        claim_one(store)
        lab.clock.advance(SESSION_TTL + SECOND)
        sweep_until_quiet(store)
        if state_of(store, task) is State.FAILED:
            break

    promise(state_of(store, task) is State.FAILED, "ten lost nodes are enough")


def a_renewed_session_keeps_what_it_holds(lab: Laboratory) -> None:
    store = lab.open()
    submit_one(store)
    session = a_session(store)
    claim = claim_one(store, session)

    for _ in range(3):
        lab.clock.advance(SESSION_TTL - SECOND)
        store.renew(session)
        swept = sweep_until_quiet(store)
        promise((swept.lost_sessions, swept.requeued) == (0, 0), "a renewed session is not lost")

    promise(isinstance(complete(store, claim)[0], Settled), "what it holds can be reported")


def a_claim_that_commits_after_its_session_was_marked_is_found(lab: Laboratory) -> None:
    slow, store = lab.open(), lab.open()
    task = submit_one(store)
    session = a_session(store)
    gate = lab.gate(slow, COMMIT)

    claiming = lab.in_background(lambda: slow.claim(session, ["default"], 1))
    gate.await_somebody()
    lab.clock.advance(SESSION_TTL + SECOND)
    sweep_until_quiet(store)
    gate.open()
    claiming.result()
    sweep_until_quiet(store)

    promise(state_of(store, task) is State.RUNNABLE, "no task stays with a lost session")


def a_lost_session_claims_nothing(lab: Laboratory) -> None:
    store = lab.open()
    submit_one(store)
    session = a_session(store)
    lab.clock.advance(SESSION_TTL + SECOND)
    sweep_until_quiet(store)

    try:
        claims = store.claim(session, ["default"], 1)
    except SessionLost:
        return
    promise(not claims, "a lost session claims nothing")


def a_closed_session_gives_back_what_it_held(lab: Laboratory) -> None:
    store = lab.open()
    tasks = submit(store, a_task(), a_task())
    session = a_session(store)
    claim_all(store, session)

    store.close_session(session)

    promise(set(states_of(store, tasks)) == {State.RUNNABLE}, "what was held is runnable at once")
    promise({task_of(store, task).losses for task in tasks} == {0}, "a release costs nothing")


def a_cron_fires_once_for_each_time(lab: Laboratory) -> None:
    """Two nodes fire the same cron for the same time, and then one for an earlier time."""
    one, other = lab.open(), lab.open()
    one.publish(Manifest(crons=(CronInfo(name="daily", handler="work", schedule="@daily"),)))
    nominal = lab.clock.now()

    fired = [store.fire("daily", nominal, [a_task()]) for store in (one, other)]
    earlier = other.fire("daily", nominal - 1, [a_task()])

    promise(fired[0] is not None, "the first node fires")
    promise(fired[1] is None, "the second node does not fire again")
    promise(earlier is None, "an earlier time does not fire any more")
    promise(len(claim_all(one)) == 1, "one firing makes one task")


def a_task_of_another_tenant_cannot_be_a_prerequisite(lab: Laboratory) -> None:
    store = lab.open()
    theirs = submit_one(store, tenant="theirs")

    try:
        submit_one(store, tenant="ours", prerequisites=[theirs])
    except UnknownPrerequisite:
        return
    raise PromiseBroken("another tenant's task answers like one that does not exist")


def a_filter_by_tenant_shows_no_other_tenants_task(lab: Laboratory) -> None:
    store = lab.open()
    submit(store, a_task(tenant="theirs"), a_task(tenant="ours"))

    found = store.find(Filter(tenant="ours")).tasks

    promise({task.tenant for task in found} == {"ours"}, "a tenant sees its own tasks alone")


def another_tenants_workflow_keeps_nothing_from_being_pruned(lab: Laboratory) -> None:
    store = lab.open()
    old = submit_one(store, tenant="ours", workflow="w")
    run_all(store)
    submit_one(store, tenant="theirs", workflow="w")

    lab.clock.advance(8 * DAY)
    sweep_until_quiet(store)

    promise(store.get([old]) == [None], "a workflow is its tenant's own, whatever its name")


def an_attempt_and_its_record_are_written_together(lab: Laboratory) -> None:
    """The process dies at the moment at which it would write the record."""
    dying, store = lab.open(), lab.open()
    task = submit_one(store)
    claim = claim_one(store)
    die_at(dying, "record_attempts")

    with suppress(Death):
        dying.settle([(claim.lease, decided(claim, RAISED))])

    recorded = bool(store.attempts(task))
    promise(recorded == (state_of(store, task) is not State.LEASED), "an ended attempt has its record")


def a_claim_waits_for_nobody(lab: Laboratory) -> None:
    """Somebody, a submit that names it or an operator, holds the row of the first task."""
    store = lab.open()
    first, second = submit(store, a_task(), a_task())
    bystander = lab.connect()
    bystander.execute("SELECT id FROM windlass.runnable WHERE id = %s FOR UPDATE", [first]).fetchall()

    claiming = lab.in_background(lambda: claim_all(store))
    lab.await_standstill(claiming)
    waited = not claiming.ended
    bystander.rollback()

    promise(not waited, "a claim passes over what somebody else has locked")
    promise([claim.id for claim in claiming.result()] == [second], "and takes what comes after it")


def a_claim_by_kinds_waits_for_nobody(lab: Laboratory) -> None:
    """Another claim has taken the first task, and is about to commit."""
    slow, store = lab.open(), lab.open()
    first, second = submit(store, a_task(), a_task())
    gate = lab.gate(slow, COMMIT)

    taking = lab.in_background(lambda: slow.claim(a_session(store), ["default"], 1))
    gate.await_somebody()
    session = a_session(store)
    claiming = lab.in_background(lambda: store.claim(session, ["default", "other"], 10, merge=True))
    lab.await_standstill(claiming)
    waited = not claiming.ended
    gate.open()
    claims = taking.result() + claiming.result()

    promise(not waited, "a claim passes over what somebody else has locked")
    promise([claim.id for claim in claims] == [first, second], "and takes what comes after it")


def no_task_is_in_two_leases(lab: Laboratory) -> None:
    """A claim is about to commit when another one chooses, and is held up until the first has run its task."""
    slow, store = lab.open(), lab.open()
    tasks = submit(store, a_task(), a_task(), a_task())
    bystander = lab.connect()
    bystander.execute("DELETE FROM windlass.runnable WHERE id = %s", [tasks[1]])
    gate = lab.gate(slow, COMMIT)

    claiming = lab.in_background(lambda: slow.claim(a_session(store), ["default"], 1))
    gate.await_somebody()
    others = lab.in_background(lambda: claim_all(store))
    lab.await_standstill(others)
    gate.open()
    claims = claiming.result()
    complete(slow, *claims)
    bystander.rollback()
    claims += others.result()
    claims += claim_all(store)

    promise(len({claim.id for claim in claims}) == len(claims) == 3, "no task is leased again while or after it runs")


def a_late_submit_in_an_old_transaction_has_the_present_time(lab: Laboratory) -> None:
    store = lab.open(clock=RealTime())
    connection = lab.connect()
    connection.execute("SELECT 1")
    [(late,)] = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchall()

    [receipt] = store.submit([a_task()], conn=connection)
    connection.commit()

    promise(task_of(store, receipt.id).submitted >= late, "time advances while a transaction is open")


def a_submit_whose_answer_was_lost_is_not_done_twice(lab: Laboratory) -> None:
    store = lab.open()
    lose_the_next_answer(store)

    submit_one(store, deadline=SECOND)

    promise(len(claim_all(store)) == 1, "one submit makes one task, whatever happened to the answer")


def a_claim_whose_answer_was_lost_is_not_lost_itself(lab: Laboratory) -> None:
    store = lab.open()
    task = submit_one(store)
    session = a_session(store)
    store.claim(session, ["other"], 1)  # Reads the settings.
    lose_the_next_answer(store)

    claims = store.claim(session, ["default"], 10)

    promise([claim.id for claim in claims] == [task], "what was leased is known to its holder")


def a_claim_whose_commit_is_in_progress_is_not_lost(lab: Laboratory) -> None:
    """The connection is lost during the commit, and the server carries it out while the claimer tries to find out."""
    store = lab.open()
    task = submit_one(store)
    session = a_session(store)
    store.claim(session, ["other"], 1)  # Reads the settings.
    gate = lab.gate(store, COMMIT)
    server = leave_the_next_transaction_to_the_server(lab, store, gate)

    claiming = lab.in_background(lambda: store.claim(session, ["default"], 10))
    gate.await_somebody()
    lab.await_standstill(claiming)
    gate.open()
    server[0].result()
    claims = claiming.result()

    promise([claim.id for claim in claims] == [task], "what was leased is known to its holder")


def two_writers_never_spoil_each_others_transaction(lab: Laboratory) -> None:
    """One has read and is about to write when the other one commits."""
    slow, store = lab.open(), lab.open()
    first = submit_one(store)
    claim = claim_one(store)
    gate = lab.gate(slow, "settle")

    settling = lab.in_background(lambda: slow.settle([(claim.lease, decided(claim, RAISED))]))
    gate.await_somebody()
    submitting = lab.in_background(lambda: submit_one(store))
    lab.await_standstill(submitting)
    gate.open()

    try:
        settling.result()
        submitting.result()
    except StoreUnavailable as error:
        raise PromiseBroken("a transaction that has begun to read can still write") from error
    promise(state_of(store, first) is State.RETRYING, "what it wrote is there")


def a_failed_prerequisite_ends_those_that_wait(lab: Laboratory) -> None:
    store = lab.open()
    parent = submit_one(store)
    cancelled = submit_one(store, queue="children", prerequisites=[parent])
    below = submit_one(store, queue="children", prerequisites=[cancelled])
    runs = submit_one(store, queue="children", prerequisites=[parent], on_failure=OnFailure.RUN)

    report(store, claim_one(store), GAVE_UP)

    ends = [State.CANCELLED, State.CANCELLED, State.RUNNABLE]
    promise(states_of(store, [cancelled, below, runs]) == ends, "a failure reaches all dependents")


def a_merge_meets_the_close_of_its_target(lab: Laboratory) -> None:
    store = lab.open()
    submit_one(store, key="left behind")
    renew_the_lot(lab, "default")
    lots, gate = database_of(store)._lots, lab.connect()
    gate.execute(PAUSE)
    gate.execute("SELECT pg_advisory_lock(18)")
    gate.commit()
    merge = lots._statements["merge_lot"]
    paused = merge.text.replace("LIMIT", "AND windlass.pause() LIMIT", 1)
    assert paused != merge.text
    lots._statements["merge_lot"] = replace(merge, text=paused)

    with psycopg.connect(lab.url, autocommit=True) as connection:
        merging = lab.in_background(lambda: lots._run(connection, "merge_lot", queue="default", number=0, limit=100))
        lab.await_standstill(merging)  # It has its snapshot, in which lot 1 is open, and has locked nothing yet.
        renew_the_lot(lab, "default")
        gate.execute("SELECT pg_advisory_unlock(18)")
        gate.commit()
        merging.result()
    gate.execute("DROP FUNCTION windlass.pause")
    gate.commit()

    promise([claim.key for claim in claim_all(store)] == ["left behind"], "what is runnable can be claimed")


PAUSE = """
CREATE FUNCTION windlass.pause() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_lock_shared(18);
    PERFORM pg_advisory_unlock_shared(18);
    RETURN true;
END $$"""


def renew_the_lot(laboratory: Laboratory, queue: str) -> None:
    """What the upkeep does to a queue whose open lot has a slow head."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND datname <> current_database()"
    with psycopg.connect(laboratory.url, autocommit=True) as connection:
        lots = ClaimPartitions()
        lots._run(connection, "open_lot", queue=queue)
        lots._run(connection, "close_lots", queue=queue)
        # Transactions are numbered for the whole server: those of other tests' databases hold the upkeep up too.
        [(closed,)] = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchall()
        older = others + " AND backend_xid::text::bigint < %s"
        until(lambda: connection.execute(older, [closed]).fetchone() == (0,), "other databases' transactions ended")
        lots._keep(connection, queue)


class RealTime:
    """No time of ours: the database's own clock is asked."""

    def now(self) -> None:
        return None


def in_id_order(*keys: str) -> list[tuple[str, TaskId]]:
    """Keys and the ids that they stand for, the smallest id first."""
    return sorted(((key, keyed_id("default", None, key)) for key in keys), key=lambda pair: pair[1])


def submit_rows(connection: psycopg.Connection[tuple[object, ...]], ids: list[TaskId]) -> None:
    """Take these ids by hand, in a transaction that stays open."""
    for id in ids:
        connection.execute(
            "INSERT INTO windlass.task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, kind,"
            " handler, args, priority, first_due, submitted)"
            " VALUES (%s, 'default', 'default', 'scheduled', 0, 0, 0, 0, 0, 'cancel', 0, 'work', '[]', 0, 0, 0)",
            [id],
        )


def watch_conflicts(lab: Laboratory) -> list[str | None]:
    """Every fault of a transaction that the stores go on to retry unseen, by its SQLSTATE."""
    seen: list[str | None] = []
    is_passing = database._is_passing

    def noted(error: psycopg.Error) -> bool:
        seen.append(error.sqlstate)
        return is_passing(error)

    lab.patch(database, "_is_passing", noted)
    return seen


def lose_the_next_answer(store: SqlStore) -> None:
    """The next transaction commits, but its answer is lost."""
    inside = database_of(store)
    once = inside._once

    def unheard(work: object) -> object:
        inside._once = once
        once(work)
        raise CommitUnknown("the connection was lost while the commit was under way")

    inside._once = unheard


def leave_the_next_transaction_to_the_server(lab: Laboratory, store: SqlStore, gate: Gate) -> list[Background[object]]:
    """The next transaction continues in the background from the gate on. Its caller has lost the connection."""
    inside = database_of(store)
    once = inside._once
    server: list[Background[object]] = []

    def unheard(work: object) -> object:
        inside._once = once
        server.append(lab.in_background(lambda: once(work)))
        gate.await_somebody()
        raise CommitUnknown("the connection was lost while the commit was under way")

    inside._once = unheard
    return server
