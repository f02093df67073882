"""The style sheet and the modules of the dashboard, kept in memory.

Their address contains a hash of all of them, so browsers may keep them for as long as they like.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import resources

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import Refused

TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class StaticFiles(Struct, frozen=True):
    """All files by name, plain and compressed, and their common version."""

    files: Mapping[str, tuple[bytes, bytes]]
    version: str


@cache
def static_files() -> StaticFiles:
    """Read the files of this package."""
    folder = resources.files("windlass.dashboard") / "static"
    names = sorted(each.name for each in folder.iterdir() if each.name.rpartition(".")[2] in TYPES)
    found = {name: (folder / name).read_bytes() for name in names}
    version = sha256(b"".join(name.encode() + data for name, data in found.items())).hexdigest()[:12]
    return StaticFiles({name: (data, gzip.compress(data, mtime=0)) for name, data in found.items()}, version)


async def serve_file(request: Request) -> Response:
    """Serve one file."""
    known, name = static_files(), str(request.path_params["name"])
    if request.path_params["version"] != known.version or name not in known.files:
        raise Refused("not_found", "No such file.")
    plain, packed = known.files[name]
    accepts = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if accepts:
        headers["Content-Encoding"] = "gzip"
    media_type = TYPES[name.rpartition(".")[2]]
    return Response(packed if accepts else plain, headers=headers, media_type=media_type)
