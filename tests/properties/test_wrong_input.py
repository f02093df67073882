"""Whatever a field contains, a task is either stored unchanged or refused with an error."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.wrong_values import JSON_LIKE
from windlass import App
from windlass.client.options import TaskOptions, UsingOptions
from windlass.core.task import NewTask
from windlass.errors import InvalidTask
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter

FIELDS = st.sampled_from(NewTask.__struct_fields__)
OPTIONS = st.sampled_from(sorted({*TaskOptions.__annotations__, *UsingOptions.__annotations__} - {"conn"}))


@given(fields=st.dictionaries(FIELDS, JSON_LIKE, min_size=1, max_size=4))
def test_a_store_takes_or_refuses_any_fields(fields: dict[str, Any]) -> None:
    store = MemoryStore()
    try:
        store.submit([NewTask(handler="work"), NewTask(**{"handler": "work", **fields})])
    except InvalidTask:
        assert store.find(Filter()).tasks == []
    else:
        assert len(store.find(Filter()).tasks) == 2


@given(options=st.dictionaries(OPTIONS, JSON_LIKE, min_size=1, max_size=4), argument=JSON_LIKE)
def test_enqueue_takes_or_refuses_any_options(options: dict[str, Any], argument: Any) -> None:
    store = MemoryStore()
    app = App(store=store)

    @app.task(name="work")
    def work(_n: Any = None) -> None:
        pass

    try:
        work.using(**options).enqueue(argument)
    except InvalidTask:
        assert store.find(Filter()).tasks == []
    else:
        assert len(store.find(Filter()).tasks) == 1


@given(options=st.dictionaries(st.sampled_from(sorted(TaskOptions.__annotations__)), JSON_LIKE, min_size=1, max_size=4))
def test_a_handler_is_registered_or_refused_with_any_options(options: dict[str, Any]) -> None:
    app = App(store=MemoryStore())
    try:
        app.task(name="work", **options)(lambda: None)
    except InvalidTask:
        assert not app.handlers


@given(after=JSON_LIKE, key=JSON_LIKE, on_failure=JSON_LIKE)
def test_a_step_is_added_or_refused_with_anything(after: Any, key: Any, on_failure: Any) -> None:
    store = MemoryStore()
    app = App(store=store)
    work = app.task(name="work")(lambda: None)
    try:
        with app.workflow("w") as wf:
            wf.add(work, after=after, key=key, on_failure=on_failure)
    except InvalidTask:
        assert store.find(Filter()).tasks == []
