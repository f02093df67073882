"""The pages Queues, Queue, Tenant, Cron, Dead letters, Audit and Settings, without a real browser."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.dashboard.conftest import Browser
from tests.support.builders import GAVE_UP, claim_all, claim_one, complete, run, submit_one
from tests.support.processes import until
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.limits import Limit
from windlass.core.manifest import CronInfo, Manifest
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import TaskId
from windlass.operations import crons, limits, queues, tenants, tokens
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.operations.canary import find_run, find_runs
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter

pytestmark = pytest.mark.anyio

ANN = Author("ann", "because")
SCRIPT = "<script>alert(1)</script>"
CRON = CronInfo(name=f"nightly/{SCRIPT}", handler="work", schedule="30 2 * * *", timezone="Europe/Berlin")


@pytest.fixture
def access(store: MemoryStore, clock: ManualClock) -> Access:
    return Access(store, clock=clock)


def fail(store: MemoryStore, number: int = 3, **fields: object) -> list[TaskId]:
    ids = [submit_one(store, handler="mail", args={"n": each, "pin": "hunter2"}, **fields) for each in range(number)]
    for _ in ids:
        run(store, GAVE_UP, queue=str(fields.get("queue", "default")))
    return ids


def everything(store: MemoryStore) -> list[object]:
    controls = [store.controls(kind) for kind in ("limit", "tenant", "token", "access")]
    return [store.queues(), store.crons(), store.audit(), controls]


def last_entry(store: MemoryStore) -> tuple[str, str, str]:
    entry = store.audit()[0]
    return entry.subject, entry.action, entry.by


async def test_a_queue_is_paused_for_some_time_with_a_reason(
    browser: Browser, store: MemoryStore, access: Access, clock: ManualClock
) -> None:
    submit_one(store, queue="post")

    await browser.open("/queues")
    await browser.post("/queues/pause", name="post", lasts="30m", why=SCRIPT, back="queues")

    paused = queues.get(access, "post").settings
    assert (paused.paused, paused.paused_by, paused.paused_why) == (True, "local", SCRIPT)
    assert paused.paused_until == clock.now() + 30 * 60 * 1_000_000
    assert last_entry(store) == ("queue/post", "paused", "local")
    assert browser.page.url.path == "/queues"
    assert html.escape(SCRIPT) in browser.text.replace("&#34;", "&quot;")
    assert SCRIPT not in browser.text

    await browser.post("/queues/resume", name="post", back="queues/post")
    assert not queues.get(access, "post").settings.paused
    assert browser.page.url.path == "/queues/post"


async def test_many_paused_queues_are_few_banners(browser: Browser, store: MemoryStore) -> None:
    for number in range(5):
        store.configure(Queue(name=f"bulk-{number}", paused=True, paused_by="ops"))

    page = await browser.open("/settings")

    assert [f'id="paused-bulk-{number}"' in page for number in range(5)] == [True, True, True, False, False]
    assert "2 more queues are paused" in page


async def test_the_settings_of_a_queue_are_changed_and_only_what_differs(
    browser: Browser, store: MemoryStore, access: Access
) -> None:
    submit_one(store, queue="post")
    before = len(store.audit())
    given = {"name": "post", "strategy": "aging", "fair": "on", "weight": "3", "max_waiting": "1,000", "step": "2m"}

    await browser.open("/queues/post")
    await browser.post("/queues/configure", **given, horizon="1h", why="more mail")
    changed = queues.get(access, "post").settings
    entry = store.audit()[0].text
    await browser.post("/queues/configure", **given, horizon="1h")

    assert (changed.strategy, changed.fair, changed.weight) == (Strategy.AGING, True, 3)
    assert (changed.max_waiting, changed.step.total_seconds()) == (1_000, 120)
    assert "horizon" not in entry
    assert "more mail" in entry
    assert "Nothing was changed" in browser.text
    assert len(store.audit()) == before + 1


@pytest.mark.parametrize(
    ("path", "fields", "problem"),
    [
        ("/queues/configure", {"strategy": "magic"}, "priority"),
        ("/queues/configure", {"strategy": "fifo", "weight": "many"}, "weight"),
        ("/queues/configure", {"strategy": "fifo", "weight": "5000"}, "1000"),
        ("/queues/configure", {"strategy": "fifo", "weight": "0"}, "weight=0"),
        ("/queues/pause", {"lasts": "soon"}, "for"),
        ("/limits/set", {"queue": "post", "rate": "fast"}, "rate"),
        ("/limits/set", {"max_running": "3"}, "name a queue"),
        ("/tenants/weight", {"weight": "0"}, "weight"),
        ("/settings/tokens/create", {"scope": "all"}, "read"),
        ("/settings/tokens/create", {}, "scopes"),
    ],
)
async def test_wrong_input_changes_nothing_and_says_what_is_right(
    browser: Browser, store: MemoryStore, path: str, fields: dict[str, str], problem: str
) -> None:
    submit_one(store, queue="post", tenant="post")
    before = everything(store)

    await browser.open("/queues")
    answer = await browser.post(path, **({} if path == "/limits/set" else {"name": "post"}), **fields)

    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert problem in answer.text
    assert everything(store) == before


async def test_limits_are_shown_set_and_removed(browser: Browser, store: MemoryStore, access: Access) -> None:
    submit_one(store, queue="post", tenant="acme")

    await browser.open("/queues/post")
    await browser.post(
        "/limits/set", queue="post", tenant="acme", max_running="2", rate="10/1m", why="noisy", back="queues/post"
    )
    shown = browser.text
    [view] = limits.get_all(access)
    await browser.open("/tenants/acme")
    on_tenant = browser.text
    await browser.post("/limits/remove", queue="post", tenant="acme", back="tenants/acme")

    assert (view.limit.max_running, view.limit.set_by and view.limit.set_by.why) == (2, "noisy")
    assert "tenant acme in queue post" in shown
    assert "2 at once, 10/1m" in on_tenant
    assert limits.get_all(access) == []
    assert last_entry(store) == ("limit/queue=post,tenant=acme", "removed", "local")


async def test_a_tenant_gets_a_weight_and_a_pause(browser: Browser, store: MemoryStore, access: Access) -> None:
    submit_one(store, tenant="acme")

    await browser.open("/tenants/acme")
    await browser.post("/tenants/weight", name="acme", weight="5", lasts="1h", why="paid")
    weighed = tenants.get(access, "acme").settings
    await browser.post("/tenants/pause", name="acme", why="overdue")
    paused = tenants.get(access, "acme").settings.paused
    await browser.post("/tenants/resume", name="acme")
    await browser.post("/tenants/weight", name="acme", weight="")

    assert (weighed.weight, weighed.weight_set_by and weighed.weight_set_by.why) == (5, "paid")
    assert paused is not None
    assert paused.why == "overdue"
    assert tenants.get(access, "acme").settings == type(weighed)()


async def test_shares_are_shown_against_what_is_due(browser: Browser, store: MemoryStore) -> None:
    store.configure(Queue(name="default", fair=True))
    for tenant in ("acme", "beta"):
        submit_one(store, tenant=tenant)

    text = await browser.open("/queues")

    assert "due 50%" in text
    assert "nothing ran" in text


async def test_crons_show_both_zones_warnings_and_what_is_no_longer_in_the_code(
    browser: Browser, store: MemoryStore, access: Access
) -> None:
    store.publish(Manifest(crons=(CRON, CronInfo(name="old", handler="work", schedule="* * * * *"))))
    store.open_session("node", about=json.dumps({"crons": [CRON.name]}))

    text = await browser.open("/cron")
    assert "At 02:30 every day" in text
    assert "02:30 +0" in text
    assert "does not exist: it runs at 03:00" in text
    assert "occurs twice: it runs once" in text
    assert text.count("not in the code of any live node") == 1
    assert "more than 150 runs in the next 24 hours" in text
    assert SCRIPT not in text

    await browser.post("/cron/pause", name=CRON.name, why="deploy")
    assert crons.get(access, CRON.name).state.paused_why == "deploy"
    await browser.post("/cron/resume", name=CRON.name)
    await browser.post("/cron/remove", name="old")
    assert [(cron.info.name, cron.paused) for cron in store.crons()] == [(CRON.name, False)]

    await browser.client.post("/cron/run", data={"csrf": browser.csrf, "name": CRON.name}, follow_redirects=False)
    [task] = store.find(Filter()).tasks
    assert task.handler == "work"
    assert last_entry(store) == (f"cron/{CRON.name}", "ran", "local")


async def test_a_cron_is_created_changed_and_removed_at_run_time(
    browser: Browser, store: MemoryStore, access: Access, clock: ManualClock
) -> None:
    await browser.open("/cron")
    await browser.post(
        "/cron/create",
        name="report",
        handler="mail",
        schedule="every 90s",
        args='{"to": "ann", "pin": "hunter2"}',
        queue="post",
        end="2h",
        why="asked for",
    )
    [made] = store.crons()
    assert (made.info.schedule, made.info.queue, made.at_run_time) == ("every 90s", "post", True)
    assert made.info.end == clock.now() + 2 * 3_600 * 1_000_000
    assert "Every 1m30s" in browser.text
    assert "hunter2" not in browser.text
    assert last_entry(store) == ("cron/report", "created", "local")

    shown = {"handler": "mail", "schedule": "@daily", "timezone": "Europe/Berlin", "queue": "post"}
    await browser.post("/cron/change", name="report", args='{"to": "ann", "pin": "[redacted]"}', **shown)
    [changed] = store.crons()
    assert (changed.info.schedule, changed.info.timezone, changed.info.end) == ("@daily", "Europe/Berlin", None)
    assert json.loads(changed.info.args) == {"to": "ann", "pin": "hunter2"}, "a redacted value replaces nothing"
    await browser.post("/cron/change", name="report", args='{"to": "bob", "pin": "[redacted]"}', **shown)
    assert json.loads(store.crons()[0].info.args) == {"to": "bob", "pin": "hunter2"}, "also next to another change"
    wrong = await browser.post("/cron/change", name="report", **{**shown, "schedule": "sometimes"})
    assert wrong.status_code == 422
    await browser.open("/cron")
    await browser.post("/cron/remove", name="report")
    assert store.crons() == []


async def test_a_new_cron_does_not_change_the_ids_of_others(browser: Browser, access: Access) -> None:
    quotes = {"text": 'it\'s "quoted" <b> ' * 20}
    crons.create(access, crons.NewCron(name="later", handler="work", schedule="@daily", args=quotes), ANN)
    before = re.findall(r'<section class="card cron[^>]* id="([^"]*)"', await browser.open("/cron"))
    [arguments] = re.findall(r'<code class="quiet">(\{.*?)</code>', browser.text)
    crons.create(access, crons.NewCron(name="earlier", handler="work", schedule="@daily"), ANN)

    after = re.findall(r'<section class="card cron[^>]* id="([^"]*)"', await browser.open("/cron"))

    assert (before, after) == (["cron-later"], ["cron-earlier", "cron-later"])
    assert 110 <= len(html.unescape(arguments)) <= 125, "it is cut before it is escaped"
    assert not re.search(r"&[#\w]*\.\.\.$", arguments)


async def test_dead_letters_are_groups_first_and_their_tasks_second(browser: Browser, store: MemoryStore) -> None:
    ids = fail(store)

    text = await browser.open("/dead")
    group = re.search(r"/?dead/([0-9a-f]{8})", text)
    assert group is not None
    assert "3 failed tasks, 1 bug" in text
    text = await browser.open(f"/dead/{group[1]}")

    assert all(f"tasks/{id}" in text for id in ids)
    assert "hunter2" not in text
    assert "oops" in text


async def test_a_group_is_retried_dropped_and_edited(browser: Browser, store: MemoryStore) -> None:
    ids = fail(store)
    group = store.dead_groups().groups[0].id

    await browser.open(f"/dead/{group}?changes=" + "%7B%22n%22%3A%22x%22%7D")
    assert "would be submitted again" not in browser.text
    assert "args" in browser.text
    await browser.open(f"/dead/{group}?changes=not+json")
    assert "is not a JSON object" in browser.text
    await browser.open(f"/dead/{group}?changes=" + "%7B%22n%22%3A7%7D")
    assert "3 tasks would be submitted again" in browser.text
    await browser.post(f"/dead/{group}/edit", changes='{"n":7}', why="typo")
    new = store.find(Filter(states=frozenset([State.RUNNABLE]))).tasks
    assert [json.loads(task.args) for task in new] == [{"n": 7, "pin": "hunter2"}] * 3
    assert last_entry(store) == (f"dead/{group}", "edited", "local")

    await browser.post(f"/dead/{group}/retry", why="fixed")
    assert {task.state for task in store.get(ids) if task} == {State.RUNNABLE}
    assert last_entry(store) == (f"dead/{group}", "retried", "local")
    for _ in range(6):
        run(store, GAVE_UP)
    await browser.open(f"/dead/{group}")
    await browser.post(f"/dead/{group}/drop", why="useless")
    assert store.find(Filter()).tasks == []
    assert last_entry(store) == (f"dead/{group}", "dropped", "local")
    assert "No task has failed" in browser.text


async def test_a_canary_goes_on_after_the_request_and_everybody_sees_how_far_it_is(
    browser: Browser, store: MemoryStore, access: Access
) -> None:
    fail(store)
    [group] = store.dead_groups().groups

    await browser.open("/dead")
    await browser.post(f"/dead/{group.id}/canary", why="fixed?")
    assert "retried 1; 2 wait for the result" in browser.text
    again = await browser.post(f"/dead/{group.id}/canary")
    assert again.status_code == 409
    assert "already" in again.text
    complete(store, claim_one(store))
    until(lambda: (run := find_run(access, group)) is not None and run.progress.retried == 3, "the others are retried")

    run = find_run(access, group)
    assert run is not None
    assert not run.ended
    assert [entry.action for entry in store.audit()][:2] == ["retried", "retried"]


def finish_canary(store: MemoryStore, access: Access, group: str) -> None:
    """Complete what a canary retries, until it has ended."""

    def work() -> bool:
        complete(store, *claim_all(store))
        return find_runs(access)[group].ended

    until(work, "the canary has ended")
    complete(store, *claim_all(store))


@pytest.mark.parametrize("number", [1, 12])
async def test_a_canary_that_fixes_the_whole_group_shows_its_result(
    browser: Browser, store: MemoryStore, access: Access, number: int
) -> None:
    ids = fail(store, number)
    [group] = store.dead_groups().groups

    await browser.open("/dead")
    started = await browser.post(f"/dead/{group.id}/canary", why="fixed?")
    assert started.status_code == 200
    assert "Canary running" in started.text
    finish_canary(store, access, group.id)
    text = await browser.open(f"/dead/{group.id}")

    assert f"Fixed: {number} of {number} completed" in text
    assert "No task fails with this bug any more" in text
    assert all(f"tasks/{id}" in text for id in ids)
    assert group.error.kind in text
    assert f"dead/{group.id}/retry" not in text, "there is nothing to retry"
    for path in ("canary", "retry", "drop"):
        answer = await browser.post(f"/dead/{group.id}/{path}")
        assert answer.url.path == "/dead"
        assert "no task fails with bug" in answer.text


async def test_a_bug_that_came_back_after_its_canary_is_not_fixed(
    browser: Browser, store: MemoryStore, access: Access, clock: ManualClock
) -> None:
    fail(store, 1)
    [group] = store.dead_groups().groups
    await browser.open("/dead")
    await browser.post(f"/dead/{group.id}/canary")
    finish_canary(store, access, group.id)
    clock.advance(timedelta(seconds=1))
    fail(store, 1)

    text = await browser.open(f"/dead/{group.id}")

    assert "Not fixed: it failed again after the canary" in text
    assert "Retry with a canary" in text


async def test_a_bug_without_failed_tasks_and_without_a_canary_says_so(browser: Browser, store: MemoryStore) -> None:
    fail(store)
    [group] = store.dead_groups().groups
    store.retry(store.dead_ids(group.id).ids)

    assert "No task fails with this bug any more" in await browser.open(f"/dead/{group.id}")
    assert (await browser.client.get("/dead/nonsense")).status_code == 404


async def test_a_running_canary_is_shown_in_place_of_its_button(browser: Browser, store: MemoryStore) -> None:
    fail(store)
    [group] = store.dead_groups().groups
    assert "Retry 1, then 10, then all" in await browser.open("/dead")
    await browser.post(f"/dead/{group.id}/canary")

    text = await browser.open("/dead")

    assert "Canary running: retried 1; 2 wait for the result" in text
    assert f"dead/{group.id}/canary" not in text


async def test_the_times_of_failures_begin_at_the_oldest_task_that_is_listed(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    fail(store, 5)
    clock.advance(timedelta(days=1))
    fail(store, 50)
    clock.advance(timedelta(minutes=1))
    fail(store, 50)

    text = await browser.open(f"/dead/{store.dead_groups().groups[0].id}")

    assert "When the newest 100 failed" in text
    points = re.search(r'class="spark-line" d="([^"]*)"', text)
    assert points is not None
    heights = [point.split()[1] for point in points[1].strip("M").split("L")]
    assert (heights[0], heights[-1], set(heights[1:-1])) == ("2", "2", {"20"}), "both peaks are apart"


async def test_the_audit_log_is_filtered_and_paged(browser: Browser, store: MemoryStore) -> None:
    for number in range(120):
        by = Author("ann" if number % 2 else "bob")
        store.note([by.entry(f"queue/q{number}", "paused", f"paused queue q{number}")])

    text = await browser.open("/audit")
    assert len(re.findall(r'data-id="entry-', text)) == 50
    older = html.unescape(re.findall(r'href="([^"]*before=\d+)"', text)[0])
    text = await browser.open(f"/{older}")
    assert "q69" in text
    assert "Newest" in text
    text = await browser.open("/audit?by=ann&subject=queue/q7")
    assert re.findall(r"paused queue q\d+", text) == ["paused queue q7"]
    text = await browser.open("/audit?text=nothing+like+this")
    assert "No entry matches" in text


async def test_a_token_is_created_shown_once_and_revoked(
    browse: Callable[..., Browser], browser: Browser, store: MemoryStore
) -> None:
    await browser.open("/settings")
    assert "everybody on this machine" in browser.text
    answer = await browser.post(
        "/settings/tokens/create", name="boss", scope=["admin"], expires="30d", why="first", tenant="", queue=""
    )
    found = re.search(r"wdl_[\w-]+", answer.text)
    assert found is not None
    assert [*browser.client.cookies.jar] == [c for c in browser.client.cookies.jar if found[0] not in (c.value or "")]
    assert tokens.read_tokens(store)["boss"].scopes == (Scope.ADMIN,)
    assert last_entry(store) == ("token/boss", "created", "local")

    browser = browse()  # Another server, which has not read the tokens before.
    await browser.log_in(found[0])
    text = await browser.open("/settings")
    assert found[0] not in text
    await browser.post("/settings/tokens/create", name="ci", scope=["read", "submit"], expires="never", queue="post")
    token = tokens.read_tokens(store)["ci"]
    assert (token.expires, token.queue, token.scopes) == (None, "post", (Scope.READ, Scope.SUBMIT))
    await browser.open("/settings")
    await browser.post("/settings/tokens/revoke", name="ci")
    assert set(tokens.read_tokens(store)) == {"boss"}
    assert last_entry(store) == ("token/ci", "revoked", "boss")


async def test_a_token_expires_after_90_days_unless_the_form_says_otherwise(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    form = (await browser.open("/settings")).partition('action="settings/tokens/create"')[2].partition("</form>")[0]
    found = re.search(r'name="expires" value="(\w+)"', form)
    assert found is not None
    token = await browser.post("/settings/tokens/create", name="shown", scope=["admin"], expires=found[1])
    await browser.log_in(re.findall(r"wdl_[\w-]+", token.text)[0])
    await browser.open("/settings")
    await browser.post("/settings/tokens/create", name="left-out", scope=["read"])
    await browser.open("/settings")
    await browser.post("/settings/tokens/create", name="short", scope=["read"], expires="1h")

    expires = {name: each.expires for name, each in tokens.read_tokens(store).items()}

    days = clock.now() + 90 * 86_400 * 1_000_000
    assert expires == {"shown": days, "left-out": days, "short": clock.now() + 3_600 * 1_000_000}


async def test_readers_see_no_forms_and_no_tokens(
    browse: Callable[..., Browser], store: MemoryStore, token: Callable[..., str]
) -> None:
    fail(store, queue="post", tenant="acme")
    group = store.dead_groups().groups[0].id
    store.publish(Manifest(crons=(CRON,)))
    reader, operator = browse(), browse()
    await reader.log_in(token(Scope.READ))
    await operator.log_in(token(Scope.OPERATE))

    for path in ("/queues", "/queues/post", "/tenants/acme", "/cron", "/dead", f"/dead/{group}", "/audit", "/settings"):
        text = await reader.open(path)
        main = text[text.index("<main") : text.index("</main>")]
        assert 'method="post"' not in main, path
    for path, fields in (
        ("/queues/pause", {"name": "post"}),
        ("/queues/configure", {"name": "post", "strategy": "fifo"}),
        ("/tenants/weight", {"name": "acme", "weight": "3"}),
        ("/limits/set", {"queue": "post", "max_running": "1"}),
        ("/cron/pause", {"name": CRON.name}),
        (f"/dead/{group}/drop", {}),
        ("/settings/tokens/create", {"name": "x", "scope": "admin"}),
    ):
        await reader.open("/")
        assert (await reader.post(path, **fields)).status_code == 403, path
    text = await operator.open("/settings")
    assert "API tokens" not in text
    assert (await operator.post("/settings/tokens/create", name="x", scope="admin")).status_code == 403
    assert [entry.action for entry in store.audit() if entry.by != "local"] == []


async def test_limited_tokens_see_only_theirs(
    browse: Callable[..., Browser], store: MemoryStore, access: Access, token: Callable[..., str]
) -> None:
    fail(store, 1, queue="post", tenant="acme")
    fail(store, 2, queue="other", tenant="beta")
    store.configure(Queue(name="post", fair=True))
    store.configure(Queue(name="other", fair=True))
    limits.put(access, Limit(queue="other", max_running=1), ANN)
    limits.put(access, Limit(queue="post", max_running=2), ANN)
    group = store.dead_groups().groups[0].id
    by_queue, by_tenant = browse(), browse()
    await by_queue.log_in(token(Scope.OPERATE, name="q", queue="post"))
    await by_tenant.log_in(token(Scope.OPERATE, name="t", tenant="acme"))

    for browser in (by_queue, by_tenant):
        for path in ("/queues", "/dead", f"/dead/{group}"):
            text = await browser.open(path)
            assert "beta" not in text, path
            assert "queue other" not in text, path
        assert "1 failed task, 1 bug" in await browser.open("/dead")
        for path in ("/audit", "/settings"):
            assert (await browser.client.get(path)).status_code == 403, path
            assert f'href="{path[1:]}"' not in browser.text, path
        assert (await browser.client.get("/tenants/beta")).status_code == 404
    # Tenants share queues, so only a token that is limited to another queue may not know that it exists.
    assert (await by_queue.client.get("/queues/other")).status_code == 404
    await by_tenant.open("/queues")
    assert (await by_tenant.post("/queues/pause", name="post")).status_code == 403
    await by_queue.open("/queues")
    assert (await by_queue.post("/queues/pause", name="other")).status_code == 404
    await by_queue.open("/queues/post")
    assert (await by_queue.post("/limits/set", queue="other", max_running="9")).status_code == 403
    await by_queue.open("/queues/post")
    await by_queue.post("/queues/pause", name="post", why="mine")
    assert queues.get(access, "post").settings.paused_by == "q"
    assert not queues.get(access, "other").settings.paused


async def test_the_95th_percentile_of_waits_is_shown(browser: Browser, store: MemoryStore, clock: ManualClock) -> None:
    submit_one(store, queue="post")
    assert "nothing completed recently" in await browser.open("/")
    clock.advance(timedelta(minutes=2))
    complete(store, claim_one(store, queue="post"))

    for path in ("/", "/queues/post"):
        page = re.sub(r"<[^>]+>|\s+", " ", await browser.open(path))
        assert re.search(r"p95 wait\s+2 min\s+of the last 1,", page), page[:2_000]


async def test_the_message_after_an_action_offers_to_undo_it(
    browser: Browser, store: MemoryStore, access: Access
) -> None:
    submit_one(store, queue="post")
    await browser.open("/queues/post")
    await browser.post("/queues/pause", name="post", why="import", back="queues/post")
    [number] = re.findall(r'name="number" value="(\d+)"', browser.text)
    assert "Queue post is paused" in browser.text

    await browser.post("/audit/undo", number=number, back="queues/post")

    assert str(browser.page.url).endswith("/queues/post")
    assert f"Undid #{number}: paused queue post: import." in html.unescape(browser.text)
    assert not queues.get(access, "post").settings.paused
    assert last_entry(store) == ("queue/post", "undone", "local")


async def test_an_action_that_cannot_be_undone_offers_nothing(browser: Browser, store: MemoryStore) -> None:
    id = submit_one(store)
    run(store, GAVE_UP)
    await browser.open(f"/tasks/{id}")

    await browser.post(f"/tasks/{id}/retry")

    assert store.audit()[0].action == "retried"
    assert 'action="audit/undo"' not in browser.text
    assert "/audit/undo" not in browser.text


async def test_several_changes_of_one_action_are_undone_together(browser: Browser, store: MemoryStore) -> None:
    ids = [submit_one(store) for _ in range(3)]
    await browser.open("/tasks")
    await browser.post("/tasks/bulk", verb="priority", id=[str(id) for id in ids], priority="7")
    numbers = re.findall(r'name="number" value="(\d+)"', browser.text)
    assert len(numbers) == 3

    await browser.post("/audit/undo", number=numbers)

    assert "Undid 3 entries." in browser.text
    assert [task.priority for task in store.find(Filter()).tasks] == [0, 0, 0]


async def test_the_audit_log_offers_to_undo_what_nobody_has_changed_since(
    browser: Browser, store: MemoryStore, access: Access
) -> None:
    submit_one(store, queue="post")
    queues.pause(access, "post", ANN)
    first = store.audit()[0].number
    queues.resume(access, "post", ANN)
    second = store.audit()[0].number
    store.publish(Manifest(crons=(CRON,)))
    crons.run(access, CRON.name, ANN)

    await browser.open("/audit")
    assert re.findall(r'name="number" value="(\d+)"', browser.text) == [str(second)]

    refused = await browser.post("/audit/undo", number=first)
    assert (refused.status_code, f"Undo #{second} first." in html.unescape(browser.text)) == (409, True)

    await browser.open("/audit")
    await browser.post("/audit/undo", number=second)
    assert queues.get(access, "post").settings.paused


async def test_a_reader_is_not_offered_to_undo(
    browse: Callable[..., Browser], access: Access, store: MemoryStore
) -> None:
    submit_one(store, queue="post")
    queues.pause(access, "post", ANN)
    browser = browse(read_only=True)

    await browser.open("/audit")

    assert "audit/undo" not in browser.text
    assert (await browser.post("/audit/undo", number=store.audit()[0].number)).status_code == 403
    assert queues.get(access, "post").settings.paused
