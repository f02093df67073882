"""The OpenAPI 3.1 document, built from the route table that also serves the requests."""

from __future__ import annotations

import http
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from windlass.distribution import DISTRIBUTION
from windlass.server.http.event_stream import EVENT_STREAM
from windlass.server.http.routing import Mode, Route
from windlass.wire.problems import Problem, status_of

_REFERENCE = "#/components/schemas/{name}"
_HEADERS: Mapping[str, str] = {
    "Idempotency-Key": "The key of the task, if the body has none. The same key means the same task.",
    "Last-Event-ID": "The id of the last event you received. The stream starts with the audit entries after it.",
    "If-Match": "The ETag you last saw. If the resource has changed since, nothing is done (412).",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document for these routes."""
    table = list(routes)
    schemas = _Schemas(table)
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": version(DISTRIBUTION),
            "summary": "A durable task scheduler with a worker pool that sizes itself.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """The JSON schemas of all requests and responses."""

    def __init__(self, table: Iterable[Route]) -> None:
        types: dict[int, Any] = {id(Problem): Problem}
        for route in table:
            types |= {id(type): type for type in (route.body, route.result, route.query) if type is not None}
            types |= {id(type): type for type in route.path_params.values()}
        found, self._components = msgspec.json.schema_components(types.values(), ref_template=_REFERENCE)
        self._schemas = dict(zip(types, found, strict=True))
        self._hidden = {self._name(route.query) for route in table if route.query is not None}
        for event in {
            ref for route in table if route.mode is Mode.EVENTS for ref in _references(self.of(route.result))
        }:
            _encode_data(self._components[_component(event)])

    def of(self, type: Any) -> dict[str, Any]:
        """Return the schema of a type."""
        return self._schemas[id(type)]

    def fields(self, struct: Any) -> dict[str, Any]:
        """Return the schemas of a struct's fields, for parameters."""
        return self._components[self._name(struct)]["properties"]

    def components(self) -> dict[str, Any]:
        """Return the components of the document: all but the query structs, which are shown as parameters."""
        return {name: schema for name, schema in self._components.items() if name not in self._hidden}

    def _name(self, struct: Any) -> str:
        return _component(self._schemas[id(struct)]["$ref"])


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    summary, _, more = route.summary.partition("\n")
    found: dict[str, Any] = {"operationId": route.name, "tags": [route.tag], "summary": summary.strip()}
    if more.strip():
        found["description"] = more.strip()
    if parameters := [*_path_params(route, schemas), *_query_params(route, schemas), *_header_params(route)]:
        found["parameters"] = parameters
    if route.mode is Mode.LINES:
        found["requestBody"] = {"required": True, "content": {"application/x-ndjson": _lines(schemas, route.body)}}
    elif route.body is not None:
        content = {"application/json": {"schema": schemas.of(route.body)}}
        found["requestBody"] = {"required": not route.body_optional, "content": content}
    found["responses"] = _responses(route, schemas)
    found["security"] = [] if route.scope is None else [{"token": []}]
    if route.scope is not None:
        found["x-scope"] = route.scope.value
    return found


def _path_params(route: Route, schemas: _Schemas) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": schemas.of(type)}
        for name, type in route.path_params.items()
    ]


def _query_params(route: Route, schemas: _Schemas) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in schemas.fields(route.query).items()
    ]


def _header_params(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "description": _HEADERS[name], "schema": {"type": "string"}}
        for name in route.headers
    ]


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": schemas.of(route.result)}}
    if route.mode is Mode.LINES:
        content = {"application/x-ndjson": _lines(schemas, route.result)}
    elif route.mode is Mode.PROGRESS:
        content["application/x-ndjson"] = _lines(schemas, route.result)
    elif route.mode is Mode.EVENTS:
        content = {EVENT_STREAM: {"schema": _one_of(schemas.of(route.result))}}
    elif route.mode is Mode.TEXT:
        content = {route.media_type.partition(";")[0]: {"schema": {"type": "string"}}}
    good = {
        str(status): {"description": http.HTTPStatus(status).phrase, "content": content}
        for status in (route.status, *route.also)
    }
    problem = {"application/problem+json": {"schema": schemas.of(Problem)}, "text/html": {"schema": {"type": "string"}}}
    codes: dict[int, list[str]] = {}
    for code in route.errors:
        codes.setdefault(status_of(code), []).append(code)
    bad = {str(status): {"description": ", ".join(names), "content": problem} for status, names in codes.items()}
    return {**good, **bad, "default": {"description": "An error. Its `code` says which.", "content": problem}}


def _lines(schemas: _Schemas, type: Any) -> dict[str, Any]:
    """Describe NDJSON. OpenAPI 3.1 has no keyword for it: the body is text, and an extension describes each line."""
    return {"schema": {"type": "string"}, "x-line-schema": schemas.of(type)}


def _one_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe one event of a stream: the fields of a server-sent event. Its `event` decides which of them it is."""
    return {"oneOf" if name == "anyOf" else name: value for name, value in schema.items()}


def _references(union: dict[str, Any]) -> list[str]:
    return [member["$ref"] for member in union["anyOf"]]


def _component(reference: str) -> str:
    return reference.rpartition("/")[2]


def _encode_data(event: dict[str, Any]) -> None:
    """Describe `data` as clients receive it: text that contains JSON, because every field of an event is text."""
    fields = event["properties"]
    fields["data"] = {"type": "string", "contentMediaType": "application/json", "contentSchema": fields["data"]}
