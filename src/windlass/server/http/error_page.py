"""Errors as a web page, for browsers. Programs get the same problem as JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape

from windlass.wire.problems import Problem

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color:#222}"
    "h1{font-size:1.4rem}code{background:#eee;padding:.1rem .3rem}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#222}code{background:#333}}"
)
HEADERS: Mapping[str, str] = {
    "content-type": "text/html; charset=utf-8",
    # Nothing may load or run except the style sheet inside the page, which is allowed by its hash.
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
}


def prefers_html(accept: str) -> bool:
    """Return True if an Accept header rates HTML higher than JSON, as browsers do when they open a page."""
    ranges = _parse_accept(accept)
    json = max(_quality(ranges, "application/problem+json"), _quality(ranges, "application/json"))
    return _quality(ranges, "text/html") > json


def render(problem: Problem) -> bytes:
    """Return the page for a problem. All text is escaped."""
    title = f"{problem.status} {escape(problem.title)}"
    fields = "".join(f"<li><code>{escape(each.field)}</code>: {escape(each.message)}</li>" for each in problem.errors)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        f"<p>{escape(problem.detail)}</p>",
        f"<ul>{fields}</ul>" if fields else "",
        f"<p>Code: <code>{escape(problem.code)}</code></p>",
        f"<p>Log id: <code>{escape(problem.id)}</code></p>" if problem.id else "",
        "</body></html>",
    ]
    return "\n".join(filter(None, lines)).encode()


def _parse_accept(accept: str) -> dict[str, float]:
    """Return the quality of each media range. Ranges with an invalid quality are ignored."""
    found: dict[str, float] = {}
    for item in accept.split(","):
        range, *parameters = (part.strip().lower() for part in item.split(";"))
        quality = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        try:
            found[range] = float(quality)
        except ValueError:
            continue
    return found


def _quality(ranges: Mapping[str, float], media_type: str) -> float:
    """Return the quality of a media type: by the most specific range that matches it, else 0."""
    kind = media_type.partition("/")[0]
    return next((ranges[each] for each in (media_type, f"{kind}/*", "*/*") if each in ranges), 0.0)
