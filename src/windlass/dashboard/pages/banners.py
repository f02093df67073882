"""What the banners on every page offer: a paused queue can be resumed from wherever one sees it."""

from __future__ import annotations

from msgspec import Struct

from windlass.dashboard.page import Goto, Pages
from windlass.dashboard.visit import Visit
from windlass.operations import queues

pages = Pages()


class ResumeForm(Struct, frozen=True, kw_only=True):
    """Which queue to resume."""

    name: str
    back: str = ""
    why: str = ""


@pages.act("/queues/resume")
def resume_queue(visit: Visit, form: ResumeForm) -> Goto:
    """Claim tasks of a queue again."""
    queues.resume(visit.access, form.name, visit.author(form.why))
    return Goto(back=form.back, text=f"Resumed queue {form.name}.")
