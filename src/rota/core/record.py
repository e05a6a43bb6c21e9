"""Frozen values that cost nothing to import.

`dataclasses` and `typing` take longer to import than a whole heartbeat takes to run, and a bash loop pays that at every
call. A `Record` reads like a frozen dataclass, to people and to the type checker.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


OFTEN = 100  # instances of a class, from which on it gets a constructor of its own


@dataclass_transform(frozen_default=True)
class Record:
    """Immutable: fields by annotation, defaults by class attribute, equality by value; copied with `replace`."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _needed: ClassVar[frozenset[str]] = frozenset()
    _made: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        cls._fields = (*cls._fields, *cls.__annotations__)
        cls._needed = frozenset(name for name in cls._fields if not hasattr(cls, name))
        type.__setattr__(cls, "__match_args__", cls._fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind, fields, values = type(self), self._fields, self.__dict__
        kind._made += 1
        # Compiling a constructor pays only for a class with many instances.
        if kind._made == OFTEN:
            type.__setattr__(kind, "__init__", _own_init(kind))
        # Without `strict`, which would take as long as all the rest. The number of values is checked below.
        values.update(zip(fields, args))  # noqa: B905
        if len(args) == len(fields) and not kwargs:
            return
        name = kind.__name__
        if len(args) > len(fields):
            raise TypeError(f"{name} takes {len(fields)} values, not {len(args)}")
        for field in kwargs:
            if field in values or field not in fields:
                raise TypeError(f"{name} has no room for {field!r}")
        values.update(kwargs)
        if not self._needed <= values.keys():
            raise TypeError(f"{name} needs {', '.join(sorted(self._needed - values.keys()))}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: copy it with replace({name}=…)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self._values(), strict=True))
        return f"{type(self).__name__}({inside})"

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed.

        Raises:
            TypeError: There is no such field.
        """
        return type(self)(**{name: changes.pop(name, getattr(self, name)) for name in self._fields}, **changes)


def _own_init(kind: type[Record]) -> Any:
    """Compile an `__init__` for one class. It is several times as fast, which pays for a class with many instances."""
    defaults = {name: getattr(kind, name) for name in kind._fields if name not in kind._needed}
    params = ", ".join(f"{name}=defaults[{name!r}]" if name in defaults else name for name in kind._fields)
    body = "".join(f"\n    values[{name!r}] = {name}" for name in kind._fields)
    namespace: dict[str, Any] = {"defaults": defaults}
    exec(f"def __init__(self, {params}):\n    values = self.__dict__{body}", namespace)  # noqa: S102 - of field names only
    return namespace["__init__"]
