"""What workers of other languages have to offer: published here, so that submits are checked as those of Python are."""

from __future__ import annotations

import msgspec
from msgspec import UnsetType
from msgspec.structs import asdict

from windlass.client.options import check_fields, task_fields
from windlass.core.manifest import HandlerInfo, HandlerSeen, Manifest
from windlass.core.task import NewTask
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.sessions import GiveHandler, GiveManifest, Published

route = Routes("work")


@route("POST", "/manifest", Scope.WORK, unrestricted=True, errors=["invalid_task"])
def publish_manifest(call: Call, body: GiveManifest) -> Published:
    """Make handlers known by name, with the schemas of their arguments and the options of their tasks."""
    manifest = Manifest(handlers=tuple(map(_info, body.handlers))).checked()
    before = {each.name: each for each in call.store.handlers()}
    changed = [each.name for each in manifest.handlers if not _is_same(each, before.get(each.name))]
    call.store.publish(manifest)
    if changed:
        names = ", ".join(changed[:20]) + (" and more" if len(changed) > 20 else "")
        call.note("manifest", "published", f"published {names}", handlers=changed[:100])
    return Published(changed=changed)


def _info(given: GiveHandler) -> HandlerInfo:
    options = {name: value for name, value in asdict(given.options).items() if not isinstance(value, UnsetType)}
    fields = check_fields({**task_fields(options, {}), "handler": given.name, "queue": given.queue})
    return HandlerInfo(
        name=given.name,
        queue=given.queue,
        doc=given.doc,
        parameters=_text(given.parameters),
        returns=_text(given.returns),
        template=_template(NewTask(**fields)),
    )


def _template(new: NewTask) -> str:
    """The options that are not the defaults, as a handler's own are kept."""
    plain, default = msgspec.to_builtins(new), msgspec.to_builtins(NewTask())
    said = {name: value for name, value in plain.items() if value != default[name] and name not in ("handler", "queue")}
    return msgspec.json.encode(said).decode()


def _text(schema: dict[str, object]) -> str:
    return msgspec.json.encode(schema, order="deterministic").decode() if schema else ""


def _is_same(info: HandlerInfo, seen: HandlerSeen | None) -> bool:
    fields = HandlerInfo.__struct_fields__
    return seen is not None and all(getattr(info, field) == getattr(seen, field) for field in fields)
