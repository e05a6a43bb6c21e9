"""Types of requests and responses derived from records, so that a field is declared once.

`shaped` types the documents of nouns after their shapes in `rota.documents`; `derived` types the documents that
orchestrators and the API exchange after the records themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Meta, Struct

from rota.api.schemas import requests
from rota.api.schemas.requests import NonNegative, Request, Text
from rota.core.record import Record
from rota.core.times import SECOND
from rota.store.remote.records import fields, machine_records

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S", bound=type[Struct])
_PLAIN: dict[str, Any] = {"int": int, "str": str, "bool": bool, "Instant": requests.Timestamp, "Duration": float}
_BOUNDED: dict[str, Any] = {
    "int": NonNegative,
    "str": Text,
    "bool": bool,
    "Duration": Annotated[float, Meta(ge=0, le=1e9)],
}
# The names Slot and Death belong to the documents shown to people.
_NAMES = {"Slot": "CrewSlot", "Death": "WitnessedDeath"}
_WIRE = {"Instant": "requests.Timestamp", "Duration": "float", "tuple[int, ...]": "list[int]", "frozenset[": "list["}
_documents: dict[str, Any] = {}  # the types of documents by their names, for records that hold such a noun
_derived: dict[tuple[type[Record], Any], Any] = {}


class Answer(Struct):
    """A response, or a part of one."""


def shaped(record: type[Record], names: tuple[str, ...] | None = None) -> Callable[[S], S]:
    """Give a type the fields of a document, which have the types of the record.

    What the class declares itself narrows these types, or is added at the end.

    Args:
        record: The record that the document is made from.
        names: The fields, as in `rota.documents`; all of the record by default.
    """

    def shape(own: S) -> S:
        narrower = get_type_hints(own, include_extras=True)
        defaults = dict(zip(reversed(own.__struct_fields__), reversed(own.__struct_defaults__), strict=False))
        definitions: list[Any] = []
        for field in names or record._fields:
            name, _, kind = field.partition(": ")
            definitions.append((name, narrower.pop(name, None) or _wire(kind or _annotation(record, name))))
        for name, kind in narrower.items():
            definitions.append((name, kind, defaults[name]) if name in defaults else (name, kind))
        namespace = {"__doc__": own.__doc__}
        # The annotations of records are resolved here, where `requests` and `Any` are known.
        struct: S = cast(
            "S", msgspec.defstruct(own.__name__, definitions, bases=own.__bases__, namespace=namespace, module=__name__)
        )
        _documents[own.__name__] = struct
        return struct

    return shape


def _annotation(record: type[Record], name: str) -> str:
    return "Any" if f"{name}_json" in record._fields else str(record.__annotations__[name])


def _wire(annotation: str) -> str:
    """Return the annotation of a field of a record as JSON has it."""
    for inside, outside in _WIRE.items():
        annotation = annotation.replace(inside, outside)
    return annotation


def derived(record: type[Record], base: Any, **narrower: Any) -> Any:
    """Return the type of a record's document. Requests are bounded; `narrower` overrides types of fields."""
    if (record, base) in _derived:
        return _derived[record, base]
    definitions: list[Any] = []
    for field in fields(record):
        inner = narrower.get(field.name) or _type(field.kind, base)
        kind: Any = Any if field.is_json else list.__class_getitem__(inner) if field.collection else inner
        if field.collection and base is Request:
            kind = Annotated[kind, Meta(max_length=1000)]
        kind = kind | None if field.may_be_none else kind
        has_default = field.name not in record._needed and base is Request
        definitions.append((field.shown, kind, _default(record, field.name)) if has_default else (field.shown, kind))
    struct = msgspec.defstruct(
        _NAMES.get(record.__name__, record.__name__),
        definitions,
        bases=(base,),
        namespace={"__doc__": record.__doc__},
        kw_only=True,
        module=__name__,
    )
    _derived[record, base] = struct
    return struct


def _type(kind: str, base: Any) -> Any:
    if kind in machine_records():
        return derived(machine_records()[kind], base)
    if base is Request and kind in _BOUNDED:
        return _BOUNDED[kind]
    return _PLAIN[kind] if kind in _PLAIN else _documents[kind]


def _default(record: type[Record], name: str) -> Any:
    value = getattr(record, name)
    if isinstance(value, Record):
        return msgspec.field(default_factory=_type(type(value).__name__, Request))
    if isinstance(value, frozenset | tuple):
        return msgspec.field(default_factory=list)
    return value / SECOND if record.__annotations__[name] == "Duration" else value
