"""JSON forms of dataclasses, read and written by pydantic from the annotations.

A class that inherits :class:`JsonForm` needs no ``as_dict`` and ``from_dict`` of its own. The form contains
the fields by name and nothing else; :func:`slc_ops.base.digests.canonical_json` serialises it.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class JsonForm:
    """Add ``as_dict`` and ``from_dict`` to a dataclass.

    >>> from dataclasses import dataclass
    >>> from pathlib import Path
    >>> @dataclass(frozen=True)
    ... class Kept(JsonForm):
    ...     log: Path
    ...     methods: tuple[str, ...] = ()
    >>> Kept(Path("a.parquet"), ("base",)).as_dict()
    {'log': 'a.parquet', 'methods': ['base']}
    >>> Kept.from_dict({"log": "a.parquet"})
    Kept(log=PosixPath('a.parquet'), methods=())
    >>> Kept.from_dict({"logs": "a.parquet"})
    Traceback (most recent call last):
    ValueError: Kept: log: Field required; logs: Unexpected keyword argument
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "arbitrary_types_allowed": True}

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, as JSON values."""
        form: dict[str, Any] = to_json(self)
        return form

    @classmethod
    def from_dict(cls, value: Any) -> Self:
        """Parse the output of :meth:`as_dict`; raise ``ValueError`` for missing and unknown fields."""
        return read_as(cls, value)


class OwnForm:
    """A class that defines its own ``as_dict`` and ``from_dict``, which nested forms use, too."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Any) -> Any:
        from pydantic import PlainSerializer, PlainValidator

        own: Any = cls

        def read(value: Any) -> Any:
            return value if isinstance(value, cls) else own.from_dict(value)

        return handler.generate_schema(
            Annotated[Any, PlainValidator(read), PlainSerializer(own.as_dict, dict[str, Any])]
        )


def to_json(value: Any, exclude: set[str] | None = None) -> Any:
    """Return the JSON form of a dataclass, by its annotations.

    NaN and infinities remain; the serialiser refuses them.
    """
    return adapter(type(value)).dump_python(value, mode="json", exclude=exclude, warnings=False)


def read_as(kind: type[T], value: Any) -> T:
    """Parse the JSON form of a type; raise a one-line ``ValueError`` where it does not match."""
    from pydantic import ValidationError

    try:
        read: T = adapter(kind).validate_python(value)
    except ValidationError as error:
        found = [".".join(map(str, each["loc"])) + ": " + each["msg"] for each in error.errors()]
        raise ValueError(f"{kind.__name__}: {'; '.join(found).removeprefix(': ')}") from None
    return read


_ADAPTERS: dict[type[Any], "TypeAdapter[Any]"] = {}


def adapter(kind: type[Any]) -> "TypeAdapter[Any]":
    """Return pydantic's ``TypeAdapter`` of a type, created on first use."""
    if kind not in _ADAPTERS:
        from pydantic import TypeAdapter

        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
