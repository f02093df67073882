"""A handler's parameters: how a call becomes JSON by argument name, and how that becomes a call again.

Everything that can be known beforehand is looked up once, at the first use, because annotations may name classes that
are defined further down in their module. `*args` are kept as a list under their name, `**kwargs` one by one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import Parameter
from typing import Any

import msgspec

from windlass.client.arguments import Kind, kinds_of
from windlass.core.payload import encode_result
from windlass.core.references import REFERENCE_KEY
from windlass.errors import InvalidPayload, InvalidTask

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Signature:
    """The parameters and the result of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._name: str = getattr(function, "__qualname__", repr(function))
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        self._positional = tuple(p.name for p in parameters if p.kind in _BY_POSITION)
        self._only_positional = tuple(p.name for p in parameters if p.kind is Parameter.POSITIONAL_ONLY)
        self._rest = next((p.name for p in parameters if p.kind is Parameter.VAR_POSITIONAL), None)
        self._others = next((p.name for p in parameters if p.kind is Parameter.VAR_KEYWORD), None)
        self._named = frozenset(p.name for p in parameters if p.name not in (self._rest, self._others))
        self.required = frozenset(p.name for p in parameters if p.default is Parameter.empty and p.name in self._named)
        if REFERENCE_KEY in self._named:
            raise InvalidTask(f"a parameter cannot be called {REFERENCE_KEY!r}")

    @cached_property
    def _kinds(self) -> dict[str, Kind]:
        kinds = kinds_of(self._function)
        if self._rest is not None and not kinds[self._rest].is_open:
            kinds[self._rest] = Kind(list[kinds[self._rest].annotation])
        return kinds

    def kind(self, name: str) -> Kind:
        """What the argument of this name may hold; what is not a parameter is one of `**kwargs`."""
        return self._kinds.get(name) or self._kinds[self._others or ""]

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments by name. A call that does not fit is refused with Python's own `TypeError`."""
        given = dict(zip(self._positional, args, strict=False))
        fits = len(args) <= len(self._positional) or self._rest is not None
        if kwargs:
            fits = fits and given.keys().isdisjoint(kwargs) and self._takes(kwargs)
            given.update(kwargs)
        if not fits or not self.required <= given.keys():
            self._signature.bind(*args, **kwargs)
            raise TypeError(f"{self._name}: the names of these arguments clash: {sorted(kwargs)}")
        if len(args) > len(self._positional) and self._rest is not None:
            given[self._rest] = list(args[len(self._positional) :])
        return given

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments as plain JSON by name, checked against the annotations."""
        given = self.by_name(args, kwargs)
        for name, value in given.items():
            given[name] = self.kind(name).encode(value, name)
        return given

    def decode(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """The call that this JSON text of arguments stands for, or `InvalidPayload` naming what does not fit."""
        given: dict[str, Any] = msgspec.json.decode(text)
        missing = self.required - given.keys()
        if missing:
            raise InvalidPayload(f"{min(missing)}: the handler needs this argument, and the task does not have it")
        if not self._takes(given):
            raise InvalidPayload(f"{min(given.keys() - self._named)}: the handler does not take this argument")
        for name, value in given.items():
            given[name] = self.kind(name).decode(value, name)
        return self._positions(given), given

    def encode_result(self, value: Any, max_bytes: int) -> str | None:
        """What a handler returned, as JSON text."""
        kind = self._kinds["return"]
        if value is not None and not kind.is_open:
            value = kind.to_plain(value, "result")
        return encode_result(value, max_bytes=max_bytes)

    def decode_result(self, text: str | None) -> Any:
        """The result as the return annotation says; text that does not fit it is refused."""
        kind = self._kinds["return"]
        if text is None or kind.annotation is type(None):
            return None
        return kind.decode(msgspec.json.decode(text), "result")

    def schemas(self) -> tuple[str, str]:
        """The JSON schemas of the arguments and of the result. What cannot be described is left open."""
        defined: dict[str, Any] = {}
        shown = {name: _schema(kind, defined) for name, kind in self._kinds.items()}
        returns = shown.pop("return")
        others = None if self._others is None else shown.pop(self._others)
        whole: dict[str, Any] = {"type": "object", "properties": shown, "required": sorted(self.required)}
        whole["additionalProperties"] = False if others is None else others
        if defined:
            whole["$defs"] = defined
            returns = {**returns, "$defs": defined}
        return msgspec.json.encode(whole).decode(), msgspec.json.encode(returns).decode()

    def _takes(self, given: Mapping[str, Any]) -> bool:
        return self._others is not None or given.keys() <= self._named or given.keys() - self._named == {self._rest}

    def _positions(self, given: dict[str, Any]) -> list[Any]:
        """Take out of `given` what must be passed by position."""
        rest: list[Any] = [] if self._rest is None else given.pop(self._rest, [])
        names = self._positional if rest else self._only_positional
        if rest and not given.keys() >= set(names):
            raise InvalidPayload(f"{self._rest}: given without all of {', '.join(names)}, which stand before it")
        return [given.pop(name) for name in names if name in given] + rest


def _schema(kind: Kind, defined: dict[str, Any]) -> dict[str, Any]:
    if kind.is_open:
        return {}
    try:
        [schema], found = msgspec.json.schema_components(
            [kind.annotation], ref_template="#/$defs/{name}", schema_hook=_schema_of
        )
    except (TypeError, NotImplementedError):
        return {}
    defined.update(found)
    return schema


def _schema_of(kind: type[Any]) -> dict[str, Any]:
    return kind.model_json_schema() if hasattr(kind, "model_json_schema") else {}
