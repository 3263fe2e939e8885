"""Engines are found by name, and a missing one is reported."""

import pytest

from slc_ops.base.errors import SettingsError
from slc_ops.rows.engine import LOCAL, engine_of


def test_the_local_engine_needs_no_package() -> None:
    assert engine_of("local") is LOCAL


def test_a_missing_engine_is_named() -> None:
    with pytest.raises(
        SettingsError, match="engine: flink is not part of this installation; use engine: local"
    ):
        engine_of("flink")
