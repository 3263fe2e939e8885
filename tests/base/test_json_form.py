"""JSON written by pydantic has the same spelling as JSON written by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from slc_ops.base.digests import canonical_json
from slc_ops.base.errors import SlcError
from slc_ops.base.files import read_json, understanding, write_json
from slc_ops.base.json_form import JsonForm, to_json
from slc_ops.base.window import Window


@dataclass(frozen=True)
class Inner(JsonForm):
    d: float
    se: float | None


@dataclass(frozen=True)
class Outer(JsonForm):
    window: Window
    paths: tuple[Path, ...]
    by_name: Mapping[str, Inner]
    status: Literal["kept", "gone"] = "kept"
    extra: dict[str, Any] = field(default_factory=dict)


WINDOW = Window.parse("2026-03-23/2026-03-30", "Europe/Berlin")
VALUE = Outer(WINDOW, (Path("a/b"),), {"x": Inner(0.1 + 0.2, None)}, extra={"n": 1, "f": 1e-300})


def test_the_json_contains_the_fields_and_round_trips() -> None:
    assert VALUE.as_dict() == {
        "window": WINDOW.as_dict(),
        "paths": ["a/b"],
        "by_name": {"x": {"d": 0.1 + 0.2, "se": None}},
        "status": "kept",
        "extra": {"n": 1, "f": 1e-300},
    }
    back = Outer.from_dict(VALUE.as_dict())
    assert back == VALUE
    assert back.window.zone == "Europe/Berlin"
    assert canonical_json(back.as_dict()) == canonical_json(VALUE.as_dict())


def test_numpy_numbers_are_written_like_python_numbers() -> None:
    assert canonical_json(Inner(np.float64(0.1), None).as_dict()) == '{"d":0.1,"se":null}'


def test_a_field_can_be_omitted() -> None:
    assert set(to_json(VALUE, exclude={"extra"})) == {"window", "paths", "by_name", "status"}


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(Inner(float("nan"), None).as_dict())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"status": "elsewhere"}, "status: Input should be 'kept' or 'gone'"),
        ({"window": {"start": "2026-01-05"}}, "'end'"),
        ({"window": {"start": "2026-01-05", "end": "2026-01-01"}}, "empty or reversed"),
        ({"unknown": 1}, "unknown: Unexpected keyword argument"),
        ({"by_name": {"x": {"d": "much", "se": None}}}, "by_name.x.d: Input should be a valid number"),
    ],
)
def test_damaged_json_is_reported_in_one_line(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    path = tmp_path / "value.json"
    write_json(path, VALUE.as_dict() | changed)
    with pytest.raises(SlcError) as found, understanding(path):
        Outer.from_dict(read_json(path))
    assert said in str(found.value)
    assert "\n" not in str(found.value)
