"""What clients and operators do in one run: submit graphs, cancel, retry, pause, limit; all drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from tests.checker.records import End, Invoke
from tests.simulation.scheduler import Host
from tests.simulation.store import LONGEST_DELAY, Connection
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue, Strategy
from windlass.core.retry import Retry
from windlass.core.task import Change, NewTask, OnFailure, TaskId
from windlass.errors import CommitUnknown, StoreUnavailable, WindlassError
from windlass.stores.protocol import Filter

if TYPE_CHECKING:
    from tests.simulation.cluster import World

T = TypeVar("T")
HANDLERS = ("work", "mail")
QUEUES = ("default", "bulk")
TENANTS = ("acme", "zoo")
CRON = CronInfo(name="tick", handler="work", schedule="*/2 * * * * *", args='{"cron":true}')
MANIFEST = Manifest(handlers=tuple(HandlerInfo(name=name) for name in HANDLERS), crons=())
AGAIN_SECONDS = 0.2
MAX_TRIES = 100


class Client:
    """One client process: it calls the store, records what it asked and was answered, and tries again."""

    def __init__(self, world: World, name: str, tenant: str) -> None:
        self.world = world
        self.name = name
        self.tenant = tenant
        self.host = Host(name)
        self.store: Any = Connection(world.network, self.host)
        self.known: list[TaskId] = []
        """The tasks that it has submitted."""
        self._calls = 0

    def call(self, what: str, action: Callable[[], T], tasks: Sequence[TaskId] = (), *, all: bool = False) -> T:
        """Make one call, and record its begin and end."""
        self._calls += 1
        call, records, clock = f"{self.name}:{self._calls}", self.world.store.records, self.world.store.clock
        about, now = tuple(map(str, tasks)), clock.now() / 1e6
        records.append(
            Invoke(call=call, process=self.name, what=what, at=now, tenant=self.tenant, tasks=about, all=all)
        )
        self.world.say(self.name, f"{what} {' '.join(about)}")
        try:
            answer = action()
        except WindlassError as error:
            status = "unknown" if isinstance(error, CommitUnknown) else "fail"
            records.append(End(call=call, status=status, at=clock.now() / 1e6, error=error.code))
            self.world.say(self.name, f"{what}: {error.code}")
            raise
        named: Any = answer
        found = tuple(str(one.id) for one in named) if what in ("submit", "read") else ()
        records.append(End(call=call, status="ok", at=clock.now() / 1e6, tasks=found))
        return answer

    def try_once(self, what: str, action: Callable[[], T], tasks: Sequence[TaskId] = (), *, all: bool = False) -> None:
        """Make a call that may fail."""
        with suppress(WindlassError):
            self.call(what, action, tasks, all=all)

    def insist(self, what: str, action: Callable[[], T], tasks: Sequence[TaskId] = ()) -> T | None:
        """Make a call that has the same effect if it is repeated, until it is answered. Return None if refused."""
        for _ in range(MAX_TRIES):
            try:
                return self.call(what, action, tasks)
            except WindlassError as error:
                if not isinstance(error, StoreUnavailable | CommitUnknown):
                    return None
                self.world.scheduler.sleep(AGAIN_SECONDS)
        raise AssertionError(f"{self.name} could not {what}")


class Producer:
    """Submits graphs and changes its mind about some of them."""

    def __init__(self, world: World, number: int, random: Random, style: Style) -> None:
        self.client = Client(world, f"producer-{number}", random.choice(TENANTS[: style.tenants]))
        self.done = False
        self._world = world
        self._number = number
        self._random = random
        self._style = style
        self._graphs = 0
        self._poisoned = False
        self._stored_keys: list[tuple[str, list[str]]] = []
        """The latest workflows that are in the store, each with the keys of its tasks."""

    def run(self) -> None:
        """The body of its process."""
        for _ in range(self._style.actions):
            self._world.scheduler.sleep(self._random.expovariate(1 / self._style.pause))
            self._act()
        self.done = True

    def _act(self) -> None:
        random, client = self._random, self.client
        doing = random.choice(self._style.doing)
        mine = client.known[-6:]
        store, some = client.store, [random.choice(mine)] if mine else []
        if doing == "submit" or not some:
            self._submit()
        elif doing == "cancel":
            grace = timedelta(seconds=random.choice((0.0, 0.5, 2.0)))
            client.try_once("cancel", lambda: store.cancel(some, reason="not wanted", grace=grace), some)
        elif doing == "cancel_all":
            everything = Filter(tenant=client.tenant)
            client.try_once("cancel", lambda: store.cancel(everything, reason="everything is cancelled"), all=True)
        elif doing == "retry":
            dependents = random.random() < 0.5
            client.try_once("retry", lambda: store.retry(some, dependents=dependents), client.known)
        elif doing == "update":
            client.try_once("update", lambda: store.update(some[0], Change(priority=random.randint(-3, 3))))
        elif doing == "chase":
            self._chase()
        elif doing == "purge":
            client.try_once("purge", lambda: store.purge(some), some)
        elif doing == "read":
            client.try_once("read", lambda: store.find(Filter(tenant=client.tenant)).tasks)

    def _chase(self) -> None:
        """Wait until a task runs, and then submit another that waits for it, or cancel it: just when it may end."""
        random, client = self._random, self.client
        if not self._stored_keys:
            return
        workflow, keys = self._stored_keys[-1]
        key = random.choice(keys)
        id = keyed_id(client.tenant, workflow, key)
        for _ in range(20):
            [task] = client.insist("get", lambda: client.store.get([id])) or [None]
            if task is None or task.state.final or task.state is State.LEASED:
                break
            self._world.scheduler.sleep(0.02)
        self._world.scheduler.sleep(random.choice((0.0, 0.001, 0.01, 0.05, 0.2)) * random.random())
        if random.random() < 0.3:
            client.try_once("cancel", lambda: client.store.cancel([id], reason="caught", grace=timedelta(0)), [id])
            return
        self._graphs += 1
        child = self._draw_task(key=f"chase{self._graphs}", workflow=workflow, prerequisites=[key])
        ids = [keyed_id(client.tenant, workflow, child.key or "")]
        if client.insist("submit", lambda: client.store.submit([child]), ids) is not None:
            client.known += ids

    def _submit(self) -> None:
        random, client = self._random, self.client
        self._graphs += 1
        tasks = self._draw_graph(f"w{self._number}.{self._graphs}")
        ids = [task.id or keyed_id(task.tenant, task.workflow, task.key or "") for task in tasks]
        if tasks[0].workflow is not None and random.random() < self._style.unsealed:
            self._submit_in_parts(tasks, ids)
        elif client.insist("submit", lambda: client.store.submit(tasks), ids) is not None:
            client.known += ids
            if tasks[0].workflow is not None:
                self._stored_keys.append((tasks[0].workflow, [task.key for task in tasks if task.key is not None]))

    def _submit_in_parts(self, tasks: list[NewTask], ids: list[TaskId]) -> None:
        """Submit a workflow that runs only when it is whole."""
        workflow, client = tasks[0].workflow, self.client
        first, rest = tasks[:1], tasks[1:]

        def open_workflow() -> Any:
            return client.store.open_workflow(workflow, tenant=client.tenant, sealed=False, tasks=first)

        if client.insist("submit", open_workflow, ids[:1]) is None:
            return
        client.known += ids[:1]
        if rest and client.insist("submit", lambda: client.store.submit(rest), ids[1:]) is not None:
            client.known += ids[1:]
        client.insist("seal", lambda: client.store.seal_workflow(workflow, tenant=client.tenant))

    def _draw_graph(self, name: str) -> list[NewTask]:
        random, style = self._random, self._style
        shape = random.choice(style.shapes)
        size = 1 if shape == "single" else random.randint(2, style.most_tasks)
        if shape == "single" and random.random() < 0.5:
            id = fresh_id(self._world.store.clock.now(), random.getrandbits(62))
            return [self._draw_task(id=id)]
        edges: dict[int, list[int]] = {}
        for nth in range(size):
            match shape:
                case "chain":
                    edges[nth] = [nth - 1] if nth else []
                case "out":
                    edges[nth] = [0] if nth else []
                case "in":
                    edges[nth] = list(range(size - 1)) if nth == size - 1 else []
                case _:
                    edges[nth] = sorted({above for above in range(nth) if random.random() < 0.4})
        follows = self._stored_keys and random.random() < style.follows
        workflow, earlier = self._stored_keys[-1] if follows else (name, [])
        keys = [f"{name}.k{nth}" for nth in range(size)]
        above = {nth: [keys[one] for one in edges[nth]] for nth in range(size)}
        if earlier:  # Wait for a task of an earlier submit, which may be ending just now.
            above[0] = [random.choice(earlier)]
        return [self._draw_task(key=key, workflow=workflow, prerequisites=above[nth]) for nth, key in enumerate(keys)]

    def _draw_task(self, **fields: Any) -> NewTask:
        random, style = self._random, self._style

        def sometimes(option: str, *values: Any) -> Any:
            return random.choice(values) if option in style.options and random.random() < 0.4 else None

        options: dict[str, Any] = {
            "delay": sometimes("delay", timedelta(seconds=0.3), timedelta(seconds=1.0)),
            "deadline": sometimes("deadline", timedelta(seconds=1), timedelta(minutes=1)),
            "expires": sometimes("expires", timedelta(seconds=0.5), timedelta(seconds=2), timedelta(seconds=30)),
            "timeout": timedelta(seconds=3),
            "limit": sometimes("limit_key", "key-1", "key-2"),
            "downstream": sometimes("downstream", "bank"),
        }
        if options["limit"] is not None:
            options["max_running"] = 1
        retry = Retry(retries=random.randint(0, 3), base=timedelta(seconds=0.1), cap=timedelta(seconds=0.5))
        return NewTask(
            handler=random.choice(HANDLERS),
            args=self._draw_args(),
            tenant=self.client.tenant,
            queue=random.choice(style.queues),
            priority=sometimes("priority", 1, 2, 3) or 0,
            on_failure=sometimes("on_failure", OnFailure.RUN) or OnFailure.CANCEL,
            retry=Retry(retries=0) if (once := bool(sometimes("at_most_once", True))) else retry,
            at_most_once=once,
            slots=sometimes("slots", 2) or 1,
            **{field: value for field, value in options.items() if value is not None},
            **fields,
        )

    def _draw_args(self) -> dict[str, bool]:
        options = self._style.options
        drawn = [option for option in ("poison", "submits") if option in options and self._random.random() < 0.15]
        if "poison" in drawn and self._poisoned:  # A pool that only dies waits longer and longer, on purpose.
            drawn.remove("poison")
        self._poisoned |= "poison" in drawn
        return dict.fromkeys(drawn, True)


class OperatorAtWork:
    """Pauses and resumes queues, tenants and crons, and sets limits. It puts everything right when faults end."""

    def __init__(self, world: World, random: Random, style: Style) -> None:
        self.client = Client(world, "operator", "")
        self.done = False
        self._world = world
        self._random = random
        self._style = style

    def run(self) -> None:
        """The body of its process."""
        scheduler = self._world.scheduler
        while self._style.controls and scheduler.now < self._world.faults.until:
            scheduler.sleep(self._random.expovariate(0.7))
            if scheduler.now < self._world.faults.until:
                self._act(self._random.choice(self._style.controls))
        late = LONGEST_DELAY + 0.1 if "late_commits" in self._world.faults.kinds else 0.0
        scheduler.sleep(max(0, self._world.faults.until - scheduler.now) / 1e6 + late)
        self._put_right()
        self.done = True

    def _act(self, control: str) -> None:
        queue, store, client = self._random.choice(self._style.queues), self.client.store, self.client
        match control:
            case "pause":
                paused = self._random.random() < 0.5
                client.try_once("configure", lambda: store.configure(self._queue(queue, paused=paused)))
            case "limit":
                self._set_limit(queue, self._random.randint(1, 2))
            case "tenant":
                by = SetBy(by="operator", at=0)
                value = encode_tenant(Tenant(paused=by)) if self._random.random() < 0.5 else None
                self._put(TENANT, TENANTS[0], value)
            case "epoch":
                client.try_once("raise_epoch", store.raise_epoch)
            case _:
                client.try_once("pause_cron", lambda: store.pause_cron(CRON.name, self._random.random() < 0.5))

    def _queue(self, name: str, *, paused: bool = False) -> Queue:
        return Queue(name=name, paused=paused, strategy=self._style.strategy, fair=self._style.fair)

    def configure(self) -> None:
        """Set up the queues of the run."""
        for name in self._style.queues:
            self._world.store.configure(self._queue(name))

    def _put(self, kind: str, name: str, value: str | None) -> None:
        """Change a control as it is now. If the answer is lost, it may or may not have been changed."""
        store, client = self.client.store, self.client

        def change() -> bool:
            versions = {control.name: control.version for control in store.controls(kind)}
            return store.put_control(kind, name, value, expect=versions.get(name, 0))

        client.try_once("control", change)

    def _set_limit(self, queue: str, most: int) -> None:
        limit = Limit(queue=queue, max_running=most)
        self._put(LIMIT, limit.name, encode_limit(limit))

    def _put_right(self) -> None:
        client, store = self.client, self.client.store
        for name in self._style.queues:
            client.insist("configure", lambda name=name: store.configure(self._queue(name)))
        for kind in (LIMIT, TENANT):
            for control in client.insist("controls", lambda kind=kind: store.controls(kind)) or ():
                while any(one.name == control.name for one in self._world.store.controls(kind)):
                    self._put(kind, control.name, None)


class Style:
    """What kind of workload a run has: drawn once, so that runs differ more than their single actions do."""

    def __init__(self, random: Random) -> None:
        def some(*values: Any) -> list[Any]:
            return [value for value in values if random.random() < 0.4]

        self.tenants = random.choice((1, 1, 2))
        self.queues = QUEUES[: random.choice((1, 1, 2))]
        self.producers = random.choice((1, 1, 2))
        self.actions = random.randint(1, 8)
        self.pause = random.choice((0.005, 0.05, 0.3, 0.7))
        self.follows = random.choice((0.0, 0.3, 1.0))
        self.most_tasks = random.choice((2, 3, 4, 6))
        self.shapes = some("chain", "out", "in", "any") or ["single"]
        self.doing = [
            "submit",
            "submit",
            *some("cancel", "cancel_all", "retry", "update", "read", "purge"),
            *some("chase") * 3,
        ]
        self.options = some(
            "delay",
            "deadline",
            "expires",
            "limit_key",
            "poison",
            "priority",
            "on_failure",
            "at_most_once",
            "slots",
            "submits",
        )
        self.unsealed = random.choice((0.0, 0.0, 0.5))
        self.has_cron = random.random() < 0.2
        controls = ("pause", "limit", "tenant", "epoch", *(["cron"] if self.has_cron else []))
        if random.random() < 0.1:
            self.options.append("downstream")
        self.controls = some(*controls) if random.random() < 0.5 else []
        self.strategy = random.choice((Strategy.PRIORITY, Strategy.PRIORITY, Strategy.DEADLINE, Strategy.AGING))
        self.fair = self.tenants > 1 and random.random() < 0.5
