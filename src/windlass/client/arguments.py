"""From Python values to JSON and back, by the annotations of a handler.

What a parameter may hold is said by its annotation, through msgspec: dataclasses, datetimes, UUIDs, Decimals, bytes,
enumerations, msgspec and attrs classes; pydantic models by their own methods. A parameter without annotation takes
plain JSON. Values are checked where they are enqueued, so that a wrong one fails at the call and not in the night.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn, cast, get_type_hints

import msgspec

from windlass.core.payload import encode_args
from windlass.core.references import REFERENCE_KEY
from windlass.errors import InvalidPayload, InvalidTask

PLAIN = (str, int, float, bool, type(None))
_QUOTED = f'"{REFERENCE_KEY}"'.encode()
_json = msgspec.json.Encoder()


class Kind:
    """What one parameter, or a result, may hold."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self.is_open = annotation is Any or annotation is inspect.Parameter.empty
        self._scalar = annotation if annotation in (str, int, float, bool) else None

    def encode(self, value: Any, where: str) -> Any:
        """The value as plain JSON, or `InvalidPayload` naming the argument and its type."""
        if type(value) is self._scalar:
            return value
        if self.is_open:
            return plain(value, where)
        encoded = self.to_plain(value, where)
        self.check(encoded, where, value)
        _refuse_marks(encoded, where)
        return encoded

    def decode(self, value: Any, where: str) -> Any:
        """The value of plain JSON as the annotation wants it."""
        if self.is_open or type(value) is self._scalar:
            return value
        return self.check(value, where, value)

    def to_plain(self, value: Any, where: str) -> Any:
        """The value as plain JSON, not held against the annotation."""
        try:
            return msgspec.to_builtins(value, str_keys=True, enc_hook=_encoded)
        except RecursionError:
            raise InvalidPayload(f"{where}: nested too deeply, or it contains itself") from None
        except (TypeError, NotImplementedError, ValueError) as error:
            raise InvalidPayload(f"{where}: a {type(value).__qualname__} cannot be kept as JSON ({error})") from None

    def check(self, encoded: Any, where: str, value: Any) -> Any:
        """Convert, or refuse naming the argument."""
        try:
            return msgspec.convert(encoded, self.annotation, str_keys=True, dec_hook=_decoded)
        except msgspec.ValidationError as error:
            raise InvalidPayload(f"{where}: {error}") from None
        except TypeError as error:
            raise InvalidPayload(
                f"{where}: a {type(value).__qualname__} for the annotation {shown_type(self.annotation)} cannot be "
                f"kept as JSON ({error})"
            ) from None


def plain(value: Any, where: str) -> Any:
    """Plain JSON as it is; anything else is refused."""
    if type(value) not in PLAIN:
        _refuse_marks(value, where, encode_args({where: value}).encode())
    return value


def kinds_of(function: Callable[..., Any]) -> dict[str, Kind]:
    """The kind of each parameter, and that of the result under `return`.

    Annotations are resolved one by one: what stands in quotes, or comes from `from __future__ import annotations`, must
    be there at run time. Only what cannot be resolved is refused, and only when it is used.
    """
    signature = inspect.signature(function)
    raw = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    raw["return"] = signature.return_annotation
    return {name: Kind(_resolved(function, name, annotation)) for name, annotation in raw.items()}


def shown_type(annotation: Any) -> str:
    """An annotation as a message shows it."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def _resolved(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    holder = SimpleNamespace(__annotations__={name: annotation})
    scope = {**getattr(inspect.unwrap(function), "__globals__", {}), **_enclosed(function)}
    try:
        return get_type_hints(holder, globalns=scope, include_extras=True)[name]
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        if name == "return":
            return inspect.Parameter.empty
        owner = getattr(function, "__qualname__", repr(function))
        raise InvalidTask(
            f"{owner}: the annotation of {name!r}, {annotation!r}, cannot be resolved ({error}); "
            "import it at run time, at the top of its module"
        ) from None


def _enclosed(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return inspect.getclosurevars(function).nonlocals
    except (TypeError, ValueError):
        return {}


def _encoded(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__qualname__} is not JSON")


def _decoded(kind: type[Any], value: Any) -> Any:
    if hasattr(kind, "model_validate_json"):
        try:
            return kind.model_validate_json(_json.encode(value))
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None
    if isinstance(value, kind):
        return value
    raise TypeError(f"a {kind.__qualname__} is not JSON")


def _refuse_marks(value: Any, where: str, text: bytes | None = None) -> None:
    """Refuse `{"$result": …}` in a caller's own data, where it would be taken for a reference."""
    if type(value) in PLAIN:
        return
    if _QUOTED in (_json.encode(value) if text is None else text) and marks(value):
        refuse_marks(where)


def refuse_marks(where: str) -> NoReturn:
    """Refuse a caller's own data that would be taken for a reference."""
    raise InvalidPayload(
        f'{where}: a dict with the key "{REFERENCE_KEY}" would be taken for a reference; rename the key'
    )


def marks(value: Any) -> int:
    """How many dicts in this plain JSON have the key that makes a reference."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return (REFERENCE_KEY in members) + sum(map(marks, members.values()))
    return sum(map(marks, cast("list[Any]", value))) if isinstance(value, list | tuple) else 0
