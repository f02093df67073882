"""The page Now: what needs a person, and numbers that say what they are of."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from urllib.parse import unquote_plus

import msgspec
import pytest

from tests.dashboard.conftest import Browser
from tests.support.builders import GAVE_UP, a_session, run, submit_one
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.autoscale.stored_state import POOL, PoolDecision, encode_document
from windlass.clock import ManualClock
from windlass.core.breaker import BreakerState
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.core.retry import Error
from windlass.operations import breakers, pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.dead_letters import DeadGroups
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

ANN = Author("ann", 'the "import"')


@pytest.fixture
def access(store: MemoryStore, clock: ManualClock) -> Access:
    return Access(store, clock=clock)


@pytest.fixture
def node(store: MemoryStore, clock: ManualClock) -> None:
    """A node with a pool named mail, which has decided."""
    session = a_session(store, ttl=timedelta(days=1), about='{"pools": {"mail": {"queues": ["default"]}}}')
    report = NodeReport(pools={"mail": PoolReport(queues=("default",), min=1, max=8, target=3, ready=3, running=1)})
    store.report(session, msgspec.json.encode(report).decode())
    decision = PoolDecision(tick=clock.now() // 1_000_000, target=3, queues=("default",), needs=2.6, by="node-1")
    assert store.put_control(POOL, "mail", encode_document(decision), expect=0)


async def read(browser: Browser, path: str) -> str:
    """Return the text of a page as it is read."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", await browser.open(path))))


def fail_with(store: MemoryStore, number: int, message: str = "oops") -> None:
    for each in range(number):
        submit_one(store)
        run(store, msgspec.structs.replace(GAVE_UP, error=Error(kind=f"Bug{each}", message=message)))


async def test_all_bugs_are_counted_and_the_rest_is_a_link(browser: Browser, store: MemoryStore) -> None:
    fail_with(store, 8)

    page = await read(browser, "/")

    assert "8 bugs" in page
    assert "and 3 more" in page
    assert '<a href="dead">and 3 more</a>' in browser.text


async def test_a_sample_of_the_bugs_does_not_look_complete(
    browser: Browser, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(store, 8)
    whole = store.dead_groups()

    def sample(**_: object) -> DeadGroups:
        return DeadGroups(whole.groups, complete=False)

    monkeypatch.setattr(store, "dead_groups", sample)

    page = await read(browser, "/")
    dead = await read(browser, "/dead")

    assert "at least 8 bugs in the newest 100,000" in page
    assert "and at least 3 more" in page
    assert "The newest 8 failed tasks, 8 bugs. There are more" in dead


@pytest.mark.usefixtures("node")
async def test_a_pool_that_a_person_holds_needs_a_person(browser: Browser, access: Access) -> None:
    assert "All is well" in await browser.open("/")

    pools.pause(access, "mail", author=ANN)
    paused = await read(browser, "/")
    pools.resume(access, "mail", author=ANN)
    pools.set_size(access, "mail", 0, author=ANN, lasts="1h")
    by_hand = await read(browser, "/")
    pools.freeze(access, "mail", author=ANN, lasts=None)
    frozen = await read(browser, "/")

    assert "All is well" not in paused + by_hand + frozen
    assert re.search('Pool mail is paused by ann since .*, until a person resumes it: the "import"', paused)
    assert re.search('Pool mail is set to 0 workers by ann, until .* in 1 h: the "import"', by_hand)
    assert re.search(r"Pool mail is set to \d workers? by ann, until a person resumes it", frozen)
    assert 'href="pool?name=mail"' in browser.text
    pools.resume(access, "mail", author=ANN)
    assert "All is well" in await browser.open("/")


async def test_messages_are_cut_before_they_are_escaped(browser: Browser, store: MemoryStore) -> None:
    fail_with(store, 1, "it's 'Berlin' \"<b>\" " * 20)

    await browser.open("/")
    [message] = re.findall(r'<span class="quiet">(it.*?)</span>', browser.text)

    assert not re.search(r"&[#\w]*\.\.\.$", message)
    assert 190 <= len(html.unescape(message)) <= 205


async def test_an_open_breaker_shows_what_it_holds_and_is_closed_and_held(
    browser: Browser, store: MemoryStore, access: Access
) -> None:
    pay = HandlerInfo(name="pay", template='{"handler":"pay","downstream":"bank"}')
    store.publish(Manifest(handlers=(pay, HandlerInfo(name="work"))))
    for _ in range(3):
        submit_one(store, handler="pay", downstream="bank")
    breakers.hold(access, "bank", BreakerState.OPEN, author=ANN, lasts="1h")

    now = await read(browser, "/")
    assert "3 tasks wait for it." in now
    assert 'href="queues#downstreams"' in browser.text
    page = await read(browser, "/queues")
    assert re.search('bankpay held open .* probes start at .* in 1 h 3 held by ann: the "import"', page), page
    assert "tasks?q=state:runnable downstream:bank" in unquote_plus(browser.text)

    await browser.post("/breakers/close", name="bank", why="is up", back="queues")
    assert breakers.get(access, "bank").breaker.state is BreakerState.CLOSED
    assert "Close the breaker" not in browser.text
    await browser.post("/breakers/hold", name="bank", lasts="30m", why="maintenance", back="queues")
    held = breakers.get(access, "bank").breaker
    assert (held.state, held.forced_by, held.reason) == (BreakerState.OPEN, "local", "maintenance")
    assert [entry.action for entry in store.audit("breaker/bank")] == ["held", "closed", "held"]
    unknown = await browser.post("/breakers/hold", name="bnak", why="typo")
    assert (unknown.status_code, len(store.controls("breaker"))) == (404, 1)


async def test_low_rates_are_shown_per_minute(browser: Browser, store: MemoryStore) -> None:
    submit_one(store)

    page = await read(browser, "/")

    assert "1/min arrive" in page
    assert "0.0/s" not in page


async def test_columns_of_the_chart_lead_to_the_tasks_of_their_time(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    submit_one(store)
    run(store, GAVE_UP)
    clock.advance(timedelta(seconds=60))

    links = re.findall(r'<a class="chart-hit" href="([^"]*)"', await browser.open("/"))

    queries = [unquote_plus(html.unescape(link)).removeprefix("tasks?q=") for link in links]
    [failures] = [each for each in queries if "failed" in each]
    assert len(queries) == 48
    assert re.fullmatch(r"state:failed age>=\d+s", failures), failures
    assert all(re.fullmatch(r"age<=\S+ age>=\S+", each) for each in queries if each != failures), queries
    page = await browser.client.get(html.unescape(next(link for link in links if "failed" in link)))
    assert "1 task" in re.sub(r"<[^>]+>|\s+", " ", page.text) or "data-id" in page.text
