"""Charts as files: one SVG, or an HTML page with a picture, the numbers and the ledger of each policy.

A page stands alone: no script, no font, no request; it opens in ten years as it does today.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from windlass.simulation.load import InvalidLoad
from windlass.simulation.picture import draw_svg
from windlass.simulation.report import format_seconds
from windlass.simulation.results import Resize, SimulationResult

MOST_LINES = 500
"""So many lines of a ledger stand on a page."""
HEADS = ("policy", "setting", "late", "p50 wait", "p99 wait", "longest wait", "cost", "resizes/h", "recovery", "score")
PAGE_STYLE = """
:root{color-scheme:light dark;--ground:#F7F6F2;--card:#FFFFFF;--ink:#14212B;--quiet:#52616B;--line:#DAD7CE}
@media (prefers-color-scheme:dark){:root{--ground:#0E171E;--card:#15222B;--ink:#E8EEF1;--quiet:#9DB0BB;--line:#2A3B46}}
body{margin:0 auto;max-width:1040px;padding:24px;background:var(--ground);color:var(--ink);
font:14px/20px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
font-variant-numeric:tabular-nums}
h1{font-size:20px;line-height:28px}figure{margin:32px 0 8px}svg{display:block;width:100%;height:auto}
.wide{overflow-x:auto}table{border-collapse:collapse;background:var(--card)}
th,td{padding:4px 12px;border:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--quiet);font-weight:600}td:first-child,th:first-child,.why{text-align:left}
summary{cursor:pointer;color:var(--quiet);padding:8px 0}p{color:var(--quiet)}
"""


def write_chart(path: Path, results: Sequence[SimulationResult]) -> None:
    """Write what the ending says: `.svg` has the first result's picture, `.html` all of them."""
    if path.suffix not in (".svg", ".html"):
        raise InvalidLoad(f"chart={str(path)!r} is neither a picture nor a page; give a name in .svg or .html")
    content = draw_svg(results[0]) if path.suffix == ".svg" else render_page(results)
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InvalidLoad(f"chart={str(path)!r} cannot be written: {error}") from None


def render_page(results: Sequence[SimulationResult]) -> str:
    """A page that stands alone."""
    title = escape(f"{results[0].load}: {len(results)} {'policy' if len(results) == 1 else 'policies'}")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{title} · windlass pool simulate</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>",
            f"<h1>{title}</h1>",
            render_table(HEADS, [format_cells(result) for result in results]),
            "<p>Cost is relative to the clairvoyant bound; a score of 1 is the limit.</p>",
            *(f"<figure>{draw_svg(each, at)}</figure>\n{render_ledger(each.ledger)}" for at, each in enumerate(results)),
            "</body>\n</html>\n",
        ]
    )


def format_cells(result: SimulationResult) -> list[str]:
    """One line of the table."""
    return [
        result.policy,
        result.setting,
        f"{result.late:.2%}",
        f"{result.wait_p50:.1f} s",
        f"{result.wait_p99:.1f} s",
        f"{result.wait_max:.1f} s",
        f"{result.cost:.2f}",
        f"{result.resizes_per_hour:.1f}",
        format_seconds(result.recovery),
        f"{result.score:.2f}",
    ]


def render_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under their heads."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}</table></div>'


def render_ledger(resizes: Sequence[Resize]) -> str:
    """Every change of size and why, folded."""
    rows = "".join(
        f"<tr><td>{at.second // 3600}:{at.second // 60 % 60:02}:{at.second % 60:02}</td><td>{at.before}→{at.after}</td>"
        f'<td class="why">{escape(at.why)}</td></tr>\n'
        for at in resizes[:MOST_LINES]
    )
    more = f"<p>and {len(resizes) - MOST_LINES:,} more</p>" if len(resizes) > MOST_LINES else ""
    return f"<details><summary>{len(resizes):,} resizes</summary>\n<table>\n{rows}</table>{more}</details>"
