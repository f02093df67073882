"""Encodes a handler's arguments and result to JSON and back, by the handler's annotations.

Annotations are interpreted by msgspec: dataclasses, datetimes, UUIDs, Decimals, bytes, enums, msgspec and attrs
classes; pydantic models use their own methods. A parameter without annotation takes plain JSON. Values are checked when
they are enqueued, so a wrong one fails at the call and not hours later in a worker.

Annotations are resolved on first use, because they may name classes that are defined later in their module. `*args` are
stored as a list under their name, `**kwargs` one by one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter
from types import SimpleNamespace
from typing import Any, NoReturn, cast, get_type_hints

import msgspec

from windlass.core.limit_keys import check_template, fill_key, refuse_secrets
from windlass.core.payload import encode_args, encode_result
from windlass.core.references import REFERENCE_KEY
from windlass.core.task import NewTask
from windlass.errors import InvalidPayload, InvalidTask
from windlass.redaction import hides

SCALARS = (str, int, float, bool, type(None))
_QUOTED = f'"{REFERENCE_KEY}"'.encode()
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_json = msgspec.json.Encoder()
_decode_json = msgspec.json.Decoder().decode


class Signature:
    """The parameters and the result of one function: encodes a call to JSON by argument name, and decodes it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._name: str = getattr(function, "__qualname__", repr(function))
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        self._positional = tuple(p.name for p in parameters if p.kind in _BY_POSITION)
        self._only_positional = tuple(p.name for p in parameters if p.kind is Parameter.POSITIONAL_ONLY)
        self._rest = next((p.name for p in parameters if p.kind is Parameter.VAR_POSITIONAL), None)
        self._by_position = bool(self._only_positional or self._rest is not None)
        """Whether a call may need arguments by position. All others are passed by name."""
        self._others = next((p.name for p in parameters if p.kind is Parameter.VAR_KEYWORD), None)
        self._named = frozenset(p.name for p in parameters if p.name not in (self._rest, self._others))
        self.required = frozenset(p.name for p in parameters if p.default is Parameter.empty and p.name in self._named)
        if REFERENCE_KEY in self._named:
            raise InvalidTask(f"{self._name}: the parameter name {REFERENCE_KEY!r} is reserved. Rename it.")

    @cached_property
    def _types(self) -> dict[str, ValueType]:
        types = value_types(self._function)
        if self._rest is not None and not types[self._rest].is_open:
            types[self._rest] = ValueType(list[types[self._rest].annotation])
        return types

    def type_of(self, name: str) -> ValueType:
        """Return the type of an argument; one that is not a parameter belongs to `**kwargs`."""
        return self._types.get(name) or self._types[self._others or ""]

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by name, or raise the `TypeError` that Python would."""
        given = dict(zip(self._positional, args, strict=False))
        fits = len(args) <= len(self._positional) or self._rest is not None
        if kwargs:
            fits = fits and given.keys().isdisjoint(kwargs) and self._takes(kwargs)
            given.update(kwargs)
        if not fits or not self.required <= given.keys():
            self._signature.bind(*args, **kwargs)
            raise TypeError(f"{self._name}: these argument names clash: {sorted(kwargs)}")
        if len(args) > len(self._positional) and self._rest is not None:
            given[self._rest] = list(args[len(self._positional) :])
        return given

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments as plain JSON by name, checked against the annotations."""
        given = self.by_name(args, kwargs)
        for name, value in given.items():
            given[name] = self.type_of(name).encode(value, name)
        return given

    def decode(self, text: str) -> tuple[Sequence[Any], dict[str, Any]]:
        """Decode JSON text to positional and keyword arguments, or raise `InvalidPayload`."""
        given: dict[str, Any] = _decode_json(text)
        if given.keys() != self._named:
            self._check_names(given)
        for name, value in given.items():
            kind = self.type_of(name)
            if type(value) is not kind.scalar:
                given[name] = kind.decode(value, name)
        return (self._positions(given) if self._by_position else ()), given

    def encode_result(self, value: Any, max_bytes: int) -> str | None:
        """Return a handler's result as JSON text."""
        kind = self._types["return"]
        if value is not None and not kind.is_open and type(value) is not kind.scalar:
            value = kind.to_plain(value, "result")
        return encode_result(value, max_bytes=max_bytes)

    def decode_result(self, text: str | None) -> Any:
        """Decode a result by the return annotation, or raise `InvalidPayload`."""
        kind = self._types["return"]
        if text is None or kind.annotation is type(None):
            return None
        return kind.decode(msgspec.json.decode(text), "result")

    def check_key(self, template: object, field: str = "limit") -> None:
        """Raise `InvalidTask` unless the placeholders in a key are arguments that every call has."""
        check_template(template, self.required, is_open=self._others is not None, field=field)

    @cached_property
    def _secrets(self) -> frozenset[str]:
        return frozenset(
            name for name, kind in self._types.items() if hides(name, {"properties": {name: _schema(kind, {})}})
        )

    def fill_key(self, new: NewTask) -> NewTask:
        """Return a task with its arguments in its keys: of its limit, and of equal tasks."""
        refuse_secrets(new.limit, self._secrets.__contains__)
        return fill_key(new)

    def schemas(self) -> tuple[str, str]:
        """Return the JSON schemas of the arguments and of the result. A type without a schema accepts anything."""
        defined: dict[str, Any] = {}
        properties = {name: _schema(kind, defined) for name, kind in self._types.items()}
        returns = properties.pop("return")
        others = None if self._others is None else properties.pop(self._others)
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": sorted(self.required)}
        schema["additionalProperties"] = False if others is None else others
        if defined:
            schema["$defs"] = defined
            returns = {**returns, "$defs": defined}
        return msgspec.json.encode(schema).decode(), msgspec.json.encode(returns).decode()

    def _check_names(self, given: Mapping[str, Any]) -> None:
        """Raise `InvalidPayload` if an argument is missing, or is not a parameter."""
        missing = self.required - given.keys()
        if missing:
            raise InvalidPayload(f"{min(missing)}: the handler requires this argument, and the task does not have it.")
        if not self._takes(given):
            raise InvalidPayload(f"{min(given.keys() - self._named)}: the handler does not take this argument.")

    def _takes(self, given: Mapping[str, Any]) -> bool:
        return self._others is not None or given.keys() <= self._named or given.keys() - self._named == {self._rest}

    def _positions(self, given: dict[str, Any]) -> list[Any]:
        """Remove the arguments that must be passed by position from `given`, and return them."""
        rest: list[Any] = [] if self._rest is None else given.pop(self._rest, [])
        names = self._positional if rest else self._only_positional
        if rest and not given.keys() >= set(names):
            raise InvalidPayload(f"{self._rest}: also pass {', '.join(names)}, which precede it.")
        return [given.pop(name) for name in names if name in given] + rest


class ValueType:
    """The type of one parameter or result: encodes, checks and decodes its values."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self.is_open = annotation is Any or annotation is inspect.Parameter.empty
        self.scalar = annotation if annotation in (str, int, float, bool) else None
        """The type whose values are plain JSON already."""

    def encode(self, value: Any, where: str) -> Any:
        """Return the value as plain JSON, or raise `InvalidPayload` with the argument's name and type."""
        if type(value) is self.scalar:
            return value
        if self.is_open:
            return check_plain(value, where)
        encoded = self.to_plain(value, where)
        self.check(encoded, where, value)
        _reject_references(encoded, where)
        return encoded

    def decode(self, value: Any, where: str) -> Any:
        """Convert plain JSON to a value of the annotated type."""
        return value if self.is_open or type(value) is self.scalar else self.check(value, where, value)

    def to_plain(self, value: Any, where: str) -> Any:
        """Return the value as plain JSON, without checking it against the annotation."""
        try:
            return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_model)
        except RecursionError:
            raise InvalidPayload(f"{where}: the value is nested too deeply or contains itself.") from None
        except (TypeError, NotImplementedError, ValueError) as error:
            raise InvalidPayload(f"{where} cannot be stored as JSON: {error}.") from None

    def check(self, encoded: Any, where: str, value: Any) -> Any:
        """Convert plain JSON by the annotation, or raise `InvalidPayload` with the argument's name."""
        try:
            return msgspec.convert(encoded, self.annotation, str_keys=True, dec_hook=_decode_model)
        except msgspec.ValidationError as error:
            raise InvalidPayload(f"{where}: {error}") from None
        except TypeError as error:
            raise InvalidPayload(
                f"{where}: a {type(value).__qualname__} for the annotation {format_type(self.annotation)} cannot be "
                f"stored as JSON ({error})."
            ) from None


def _schema(kind: ValueType, defined: dict[str, Any]) -> dict[str, Any]:
    if kind.is_open:
        return {}
    try:
        [schema], found = msgspec.json.schema_components(
            [kind.annotation], ref_template="#/$defs/{name}", schema_hook=_model_schema
        )
    except (TypeError, NotImplementedError):
        return {}
    defined.update(found)
    return schema


def _model_schema(kind: type[Any]) -> dict[str, Any]:
    return kind.model_json_schema() if hasattr(kind, "model_json_schema") else {}


def check_plain(value: Any, where: str) -> Any:
    """Return the value if it is plain JSON; raise `InvalidPayload` if it is not."""
    if type(value) not in SCALARS:
        _reject_references(value, where, encode_args({where: value}).encode())
    return value


def value_types(function: Callable[..., Any]) -> dict[str, ValueType]:
    """Return the type of each parameter, and that of the result under `return`.

    String annotations, also from `from __future__ import annotations`, are resolved one by one and must resolve at
    run time. One that cannot be resolved raises `InvalidTask` on first use.
    """
    signature = inspect.signature(function)
    raw = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    raw["return"] = signature.return_annotation
    return {name: ValueType(_resolve(function, name, annotation)) for name, annotation in raw.items()}


def format_type(annotation: Any) -> str:
    """Return an annotation as text for a message."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def _resolve(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    holder = SimpleNamespace(__annotations__={name: annotation})
    scope = {**getattr(inspect.unwrap(function), "__globals__", {}), **_closure(function)}
    try:
        return get_type_hints(holder, globalns=scope, include_extras=True)[name]
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        if name == "return":
            return inspect.Parameter.empty
        owner = getattr(function, "__qualname__", repr(function))
        raise InvalidTask(
            f"{owner}: cannot resolve the annotation {annotation!r} of {name!r} ({error}). "
            "Import the name at run time, at the top of its module."
        ) from None


def _closure(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return inspect.getclosurevars(function).nonlocals
    except (TypeError, ValueError):
        return {}


def _encode_model(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    hint = ", for example with .item() or .tolist()" if hasattr(value, "tolist") else ""
    raise TypeError(f"a value of type {type(value).__qualname__} has no JSON form, convert it first{hint}")


def _decode_model(kind: type[Any], value: Any) -> Any:
    if hasattr(kind, "model_validate_json"):
        try:
            return kind.model_validate_json(_json.encode(value))
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None
    if isinstance(value, kind):
        return value
    raise TypeError(f"{kind.__qualname__} has no JSON form")


def _reject_references(value: Any, where: str, text: bytes | None = None) -> None:
    """Reject `{"$result": …}` in a caller's data, where it would be read as a reference."""
    if type(value) in SCALARS:
        return
    if _QUOTED in (_json.encode(value) if text is None else text) and count_references(value):
        reject_references(where)


def reject_references(where: str) -> NoReturn:
    """Raise `InvalidPayload` for a caller's data that would be read as a reference."""
    raise InvalidPayload(
        f'{where}: a dict with the key "{REFERENCE_KEY}" would be read as a reference. Rename the key.'
    )


def count_references(value: Any) -> int:
    """Count the dicts in plain JSON that have the key of a reference."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return (REFERENCE_KEY in members) + sum(map(count_references, members.values()))
    return sum(map(count_references, cast("list[Any]", value))) if isinstance(value, list | tuple) else 0
