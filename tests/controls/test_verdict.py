"""The checks of each arm of a control, and how failures are reported."""

from dataclasses import replace

import pytest

from slc_ops.base.window import Window
from slc_ops.controls.arms import Arm
from slc_ops.controls.verdict import ControlVerdict, Observation, check_arms
from slc_ops.evidence.uncertainty import Interval

WINDOW = Window.parse("2026-01-05/2026-01-12")
GAIN, NOTHING = Interval(0.006, 0.003, 0.009), Interval(0.001, -0.001, 0.003)


def arm(role: str, name: str = "arm") -> Arm:
    return Arm(name, "bb", 0, role, WINDOW)  # type: ignore[arg-type]


def seen(gain: Interval, *ahead: str, auc: float = 0.8) -> Observation:
    gains = {"slc": gain, "slc_eb": gain}
    return Observation({"base": auc, "platt": auc}, {"base": 0.5}, gains, list(ahead))


def failed(*pairs: tuple[Arm, Observation]) -> list[str]:
    checks = check_arms([arm for arm, _ in pairs], {arm.name: found for arm, found in pairs})
    assert checks
    return [check.check for check in checks if not check.passed]


def test_a_positive_arm_must_show_a_gain() -> None:
    assert failed((arm("positive"), seen(GAIN))) == []
    assert failed((arm("positive"), seen(NOTHING))) == ["slc gains", "slc_eb gains"]


def test_a_negative_arm_must_show_no_gain() -> None:
    assert failed((arm("negative"), seen(NOTHING))) == []
    assert failed((arm("negative"), seen(GAIN))) == ["slc gains nothing", "slc_eb gains nothing"]


def test_the_contrast_must_show_a_gain_and_be_ahead() -> None:
    assert failed((arm("contrast"), seen(GAIN, "slc_eb"))) == []
    assert failed((arm("contrast"), seen(GAIN))) == ["decision"]


def test_a_negative_arm_must_model_its_items() -> None:
    contrast = (arm("contrast", "users"), seen(GAIN, "slc_eb", auc=0.6))
    assert failed(contrast, (arm("negative"), seen(NOTHING, auc=0.7))) == []
    assert failed(contrast, (arm("negative"), seen(NOTHING, auc=0.64))) == ["models its items"]


def test_no_method_is_ahead_at_a_change_of_season() -> None:
    assert failed((arm("turning"), seen(GAIN))) == []
    assert failed((arm("turning"), seen(GAIN, "slc_eb"))) == ["decision"]


@pytest.mark.parametrize("role", ["positive", "negative", "contrast", "turning", "observed"])
def test_platt_must_not_change_the_ranking(role: str) -> None:
    found = seen(NOTHING if role == "negative" else GAIN, *(["slc_eb"] if role == "contrast" else []))
    assert failed((arm(role), replace(found, auc={"base": 0.8, "platt": 0.8 + 2e-12}))) == ["platt"]


def test_an_interval_that_could_not_be_computed_fails() -> None:
    none = Interval(None, reason="fewer than 10 users")
    assert failed((arm("positive"), seen(none))) == ["slc gains", "slc_eb gains"]
    assert failed((arm("negative"), seen(none))) == ["slc gains nothing", "slc_eb gains nothing"]


def test_the_summary_names_the_first_failed_check() -> None:
    checks = check_arms([arm("turning")], {"arm": seen(NOTHING, "slc_eb")})
    verdict = ControlVerdict("movielens", "embedded", checks, [{}])
    assert not verdict.passed
    assert "fails 1 of 2 checks: arm: not: an item method is ahead of Platt" in verdict.sentence


def test_a_control_without_checks_fails() -> None:
    assert not ControlVerdict("movielens", "embedded", [], []).passed
