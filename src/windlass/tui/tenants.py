"""The page Tenants: task counts, weights, pauses, and what each tenant got of the fair queues."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from windlass.core.lifecycle import State
from windlass.core.limit_text import describe_amounts, describe_author, describe_scope
from windlass.core.shares import Share
from windlass.operations.limits import LimitView
from windlass.operations.presentation import Palette
from windlass.operations.shares import TenantShare
from windlass.operations.tenants import TenantView
from windlass.tui import actions
from windlass.tui.actions import Action
from windlass.tui.drawing import STATES, fact_lines, format_pause, number_text, plain, section
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import ChangeRequest
from windlass.tui.snapshot import Snapshot

SHOWN = (*STATES[:5], State.FAILED)


class TenantsPage(Vertical):
    """A table of the tenants, and all about the tenant under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "weight", "weight"),
        Binding("p", "pause", "pause"),
        Binding("u", "resume", "resume"),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._shown: tuple[Snapshot, Palette] | None = None

    def compose(self) -> ComposeResult:
        heads = ("tenant", *(state.value for state in SHOWN), "weight", "status")
        yield LiveTable(heads, id="tenant-rows")
        with VerticalScroll():
            yield Static(id="tenant-text")

    def show(self, snapshot: Snapshot, palette: Palette) -> None:
        """Draw a snapshot."""
        self._shown = snapshot, palette
        self.query_one(LiveTable).show([(each.name, tenant_row(each, palette)) for each in snapshot.tenants])
        self._show_selected()

    def on_data_table_row_highlighted(self) -> None:
        self._show_selected()

    def _show_selected(self) -> None:
        if self._shown is None:
            return
        snapshot, palette = self._shown
        tenant = next((each for each in snapshot.tenants if each.name == self._tenant_name), None)
        text = Text("No tenant has tasks yet.") if tenant is None else tenant_page(tenant, snapshot, palette)
        self.query_one("#tenant-text", Static).update(text)

    @property
    def _tenant_name(self) -> str | None:
        return self.query_one(LiveTable).selected

    def action_weight(self) -> None:
        if name := self._tenant_name:
            question = f"Set the weight of tenant {name}: a number from 1 to 1000, or none for 1, then a reason."
            self.post_message(ChangeRequest(question, lambda typed: _parse_weight(name, typed), "weight and reason"))

    def action_pause(self) -> None:
        if name := self._tenant_name:
            question = f"Pause tenant {name} in all queues? Running tasks continue, no other task starts."
            self.post_message(ChangeRequest.of(question, actions.pause_tenant(name)))

    def action_resume(self) -> None:
        if name := self._tenant_name:
            self.post_message(ChangeRequest.of(f"Resume tenant {name}?", actions.resume_tenant(name)))


def _parse_weight(name: str, typed: str) -> tuple[Action, str]:
    weight, _, why = typed.strip().partition(" ")
    return actions.weigh_tenant(name, None if weight == "none" else actions.parse_weight(weight)), why.strip()


def tenant_row(tenant: TenantView, palette: Palette) -> list[Text]:
    """Return the row of a tenant."""
    paused = tenant.settings.paused
    return [
        plain(tenant.name),
        *(number_text(f"{tenant.tasks.get(state, 0):,}") for state in SHOWN),
        number_text(str(tenant.settings.weight)),
        Text("open", palette.quiet)
        if paused is None
        else plain(format_pause("", "", paused.by, paused.why, paused.until).replace("  ", ""), palette.brass),
    ]


def tenant_page(tenant: TenantView, snapshot: Snapshot, palette: Palette) -> Text:
    """Return all about one tenant: its settings, its limits, and its shares of the fair queues."""
    settings = tenant.settings
    facts = [
        ("weight", f"{settings.weight}{describe_author(settings.weight_set_by)}"),
        ("paused", describe_author(settings.paused).strip()),
        ("queues", ", ".join(tenant.queues)),
    ]
    limits = [each for each in snapshot.limits if each.limit.tenant == tenant.name]
    shares = [each for each in snapshot.shares if each.tenant == tenant.name]
    lines = [plain(tenant.name, "bold"), *fact_lines(facts, palette)]
    lines += section("Limits", [plain(_limit_line(each)) for each in limits], palette)
    lines += section("Fair queues", [plain(_share_line(each)) for each in shares], palette)
    return Text("\n").join(lines)


def _limit_line(view: LimitView) -> str:
    limit, full = view.limit, ", no more may start" if view.blocks else ""
    used = f"{describe_amounts(limit)}, {view.running} running{full}"
    return f"{describe_scope(limit)}: {used}, set{describe_author(limit.set_by)}"


def _share_line(share: TenantShare) -> str:
    return f"{share.queue}: {_period('last minute', share.minute)} · {_period('last hour', share.hour)}"


def _period(name: str, share: Share | None) -> str:
    if share is None or share.got is None or share.borrowed is None:
        return f"{name} –"
    borrowed = f", borrowed {share.borrowed:.1%}" if share.borrowed else ""
    return f"{name} due {share.due:.1%}, got {share.got:.1%}{borrowed}"
