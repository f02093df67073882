from __future__ import annotations

from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.ids import fresh_id, keyed_id, workflow_id

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
instants = st.integers(0, 2**48 * 1_000 - 1)
chances = st.integers(0, 2**62 - 1)


@given(tenant=names, workflow=st.none() | names, key=names)
def test_the_same_key_is_always_the_same_id(tenant: str, workflow: str | None, key: str) -> None:
    id = keyed_id(tenant, workflow, key)

    assert id == keyed_id(tenant, workflow, key)
    assert (id.version, id.variant) == (8, RFC_4122)


def test_an_id_made_today_is_the_id_made_by_every_later_release() -> None:
    assert keyed_id("default", None, "welcome:42") == UUID("ce8125bd-847d-83a5-89ed-50bb0fec66db")
    assert keyed_id("acme", "nightly", "☂") == UUID("18029100-ebc1-8e50-b980-ff38d7b8dc91")
    assert workflow_id("acme", "nightly") == UUID("8b19bf08-adb8-8c12-bdb4-bc664a436c0b")


@given(one=st.tuples(names, names, names), other=st.tuples(names, names, names))
def test_other_names_are_another_id(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (keyed_id(*one) == keyed_id(*other)) == (one == other)


@given(text=st.text("ab", min_size=1, max_size=8))
def test_no_two_ways_of_cutting_a_text_into_names_give_one_id(text: str) -> None:
    cuts = [(i, j) for i in range(len(text) + 1) for j in range(i, len(text) + 1)]

    ids = {keyed_id(text[:i], text[i:j], text[j:]) for i, j in cuts}
    ids |= {workflow_id(text[:i], text[i:]) for i in range(len(text) + 1)}

    assert len(ids) == len(cuts) + len(text) + 1


def test_no_workflow_is_the_empty_workflow() -> None:
    assert keyed_id("t", None, "k") == keyed_id("t", "", "k")


@given(now=instants, chance=chances)
def test_a_fresh_id_is_a_version_7_uuid_that_contains_its_time(now: int, chance: int) -> None:
    id = fresh_id(now, chance)

    assert (id.version, id.variant) == (7, RFC_4122)
    assert id.int >> 80 == now // 1_000
    assert id.int & (1 << 62) - 1 == chance


@given(times=st.lists(instants, min_size=2, max_size=5, unique=True), data=st.data())
def test_fresh_ids_sort_by_creation_time(times: list[int], data: st.DataObject) -> None:
    ids = [fresh_id(now, data.draw(chances)) for now in sorted(times)]

    assert ids == sorted(ids)
    assert [id.hex for id in ids] == sorted(id.hex for id in ids)
