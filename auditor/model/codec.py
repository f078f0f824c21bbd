"""Write dataclasses as JSON values and read them back, by the names and types of their fields.

A field is written under its own name, or under the one that `field_named` gives it, in the order of
the class. `decode` checks each value against the type of its field: integers, floats, texts,
booleans, enumerations, dataclasses, tuples, mappings with texts as keys, and any of these or None.
What a file has beyond these fields is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Self, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Json = Any
"""A value as the json module reads and writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An object in a file.

    `absent` are the fields that the file does not have, by their names there. They have their
    defaults, and `encode` leaves them out.
    """

    absent: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def has(self, name: str) -> bool:
        """Return whether the file has a field."""
        return name not in self.absent

    def with_only(self, *names: str) -> Self:
        """Return the object with no fields but these in its file."""
        known = frozenset(known_field.name for known_field in _shape(type(self)))
        assert known >= set(names), f"{type(self).__name__} has no {set(names) - known}"
        return replace(self, absent=known - set(names))

    def with_also(self, *names: str) -> Self:
        """Return the object with these fields in its file too."""
        return replace(self, absent=self.absent - set(names))

    def without(self, *names: str) -> Self:
        """Return the object without these fields in its file."""
        return replace(self, absent=self.absent | set(names))


def field_named(name: str, **given: Any) -> Any:
    """Return a field of a dataclass that has another name in the file."""
    return field(metadata={"name": name}, **given)


def encode(value: object) -> Json:
    """Return a value as JSON, which `decode` reads."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: encode(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        absent = value.absent if isinstance(value, Part) else frozenset()
        return {
            written.name: encode(getattr(value, written.attribute))
            for written in _shape(type(value))
            if written.name not in absent
        }
    return value


def decode(kind: type[T], stored: Json) -> T:
    """Return what `encode` wrote of a value of type `kind`.

    A field that is missing gets its default, and so does one that is null and may not be None.
    Raises KeyError for a missing field without a default, and TypeError or ValueError for a value
    of another type.
    """
    wanted: Any = kind
    return cast(T, _decoder(wanted)(stored))


_Decoder = Callable[[Json], object]


class _Field(NamedTuple):
    """A field of a dataclass: its name there and in the file, and how its values are read."""

    attribute: str
    name: str
    read: _Decoder
    is_required: bool
    can_be_none: bool


def _shape(kind: Any) -> tuple[_Field, ...]:
    return _cached_shape(kind)


@cache
def _cached_shape(kind: type) -> tuple[_Field, ...]:
    types = get_type_hints(kind)
    return tuple(
        _Field(
            declared.name,
            declared.metadata.get("name", declared.name),
            _decoder(types[declared.name]),
            declared.default is MISSING and declared.default_factory is MISSING,
            types[declared.name] is object or NoneType in get_args(types[declared.name]),
        )
        for declared in fields(kind)
        if declared.name != "absent"
    )


@cache
def _decoder(kind: Any) -> _Decoder:
    origin, of = get_origin(kind), get_args(kind)
    if kind is object:
        return lambda stored: stored
    if origin is UnionType or NoneType in of:
        (inner,) = (_decoder(choice) for choice in of if choice is not NoneType)
        return lambda stored: None if stored is None else inner(stored)
    if origin is tuple:
        return _list_decoder(of[0]) if of[-1] is Ellipsis else _row_decoder(of)
    if origin is Mapping:
        return _mapping_decoder(of[1])
    if issubclass(kind, Enum):
        return lambda stored: kind(stored)
    if is_dataclass(kind):
        return _object_decoder(kind)
    return _plain_decoder(kind)


_PLAIN: Mapping[type, tuple[type, ...]] = {
    int: (int,), float: (int, float), str: (str,), bool: (bool,),
}  # fmt: skip


def _plain_decoder(kind: type) -> _Decoder:
    allowed, is_bool = _PLAIN[kind], kind is bool

    def read(stored: Json) -> object:
        if not isinstance(stored, allowed) or isinstance(stored, bool) is not is_bool:
            raise TypeError(f"{stored!a:.40} is not of type {kind.__name__}")
        return stored

    return read


def _list_decoder(kind: Any) -> _Decoder:
    inner = _decoder(kind)
    return lambda stored: tuple(inner(part) for part in _checked(stored, (list, tuple), "a list"))


def _row_decoder(kinds: tuple[Any, ...]) -> _Decoder:
    inner = tuple(map(_decoder, kinds))

    def read(stored: Json) -> object:
        values = _checked(stored, (list, tuple), "a list")
        return tuple(read_part(value) for read_part, value in zip(inner, values, strict=True))

    return read


def _mapping_decoder(kind: Any) -> _Decoder:
    inner = _decoder(kind)
    return lambda stored: {
        str(key): inner(part) for key, part in _checked(stored, (Mapping,), "an object").items()
    }


def _object_decoder(kind: Any) -> _Decoder:
    def read(stored: Json) -> object:
        found = _checked(stored, (Mapping,), "an object")
        given: dict[str, object] = {}
        for wanted in _shape(kind):
            value = found.get(wanted.name)
            if wanted.is_required and wanted.name not in found:
                raise KeyError(wanted.name)
            if (
                value is not None
                or wanted.is_required
                or (wanted.can_be_none and wanted.name in found)
            ):
                given[wanted.attribute] = _read_field(wanted, value)
        if issubclass(kind, Part):
            absent = frozenset(wanted.name for wanted in _shape(kind) if wanted.name not in found)
            return kind(absent=absent, **given)
        return kind(**given)

    return read


def _read_field(wanted: _Field, value: Json) -> object:
    try:
        return wanted.read(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{wanted.name}: {error}") from None


def _checked(stored: Json, kinds: tuple[type, ...], name: str) -> Json:
    if not isinstance(stored, kinds):
        raise TypeError(f"{stored!a:.40} is not {name}")
    return stored
