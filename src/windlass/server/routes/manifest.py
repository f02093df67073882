"""Handlers over HTTP: list them, and publish those of workers in other languages."""

from __future__ import annotations

from windlass.operations import manifest
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.manifest import GiveManifest, HandlerShape, Published, handler_shape, manifest_of

route = Routes("manifest")


@route("GET", "/handlers", Scope.READ)
def list_handlers(call: Call) -> list[HandlerShape]:
    """List the handlers that were ever published, with the schemas of their arguments."""
    return [handler_shape(handler) for handler in manifest.handlers(call.access)]


@route("POST", "/manifest", Scope.WORK, unrestricted=True, errors=["invalid_task"])
def publish_manifest(call: Call, body: GiveManifest) -> Published:
    """Publish handlers with the schemas of their arguments, so that submits can be checked."""
    return Published(changed=manifest.publish(call.access, manifest_of(body), call.author(body)))
