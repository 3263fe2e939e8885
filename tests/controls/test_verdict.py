"""What each role promises, and how a broken promise looks."""

from dataclasses import replace

import pytest

from slc_ops.base.window import Window
from slc_ops.controls.arms import Arm
from slc_ops.controls.observation import Observation
from slc_ops.controls.verdict import ControlVerdict, check_arms
from slc_ops.evidence.uncertainty import Interval

WINDOW = Window.parse("2026-01-05/2026-01-12")
GAIN, NOTHING = Interval(0.006, 0.003, 0.009), Interval(0.001, -0.001, 0.003)


def arm(role: str, name: str = "arm") -> Arm:
    return Arm(name, "bb", 0, role, WINDOW)  # type: ignore[arg-type]


def seen(gain: Interval, verdict: str, auc: float = 0.8) -> Observation:
    return Observation(
        {"base": auc, "platt": auc}, {"base": 0.5}, {"slc": gain, "slc_eb": gain}, verdict, "slc_eb"
    )


def failed(*pairs: tuple[Arm, Observation]) -> list[str]:
    checks = check_arms([arm for arm, _ in pairs], {arm.name: found for arm, found in pairs})
    assert checks
    return [check.check for check in checks if not check.passed]


def test_a_positive_arm_must_gain() -> None:
    assert failed((arm("positive"), seen(GAIN, "hold"))) == []
    assert failed((arm("positive"), seen(NOTHING, "hold"))) == ["slc gains", "slc_eb gains"]


def test_a_negative_arm_must_gain_nothing_and_must_not_be_promoted() -> None:
    assert failed((arm("negative"), seen(NOTHING, "hold"))) == []
    assert failed((arm("negative"), seen(GAIN, "reject"))) == ["slc gains nothing", "slc_eb gains nothing"]
    assert failed((arm("negative"), seen(NOTHING, "promote"))) == ["gate"]


def test_the_contrast_must_gain_and_must_be_promoted() -> None:
    assert failed((arm("contrast"), seen(GAIN, "promote"))) == []
    assert failed((arm("contrast"), seen(GAIN, "hold"))) == ["gate"]


def test_a_negative_arm_must_know_its_items() -> None:
    contrast = (arm("contrast", "users"), seen(GAIN, "promote", auc=0.6))
    assert failed(contrast, (arm("negative"), seen(NOTHING, "hold", auc=0.7))) == []
    assert failed(contrast, (arm("negative"), seen(NOTHING, "hold", auc=0.64))) == ["models its items"]


def test_nothing_is_promoted_where_the_season_turns() -> None:
    assert failed((arm("turning"), seen(GAIN, "hold"))) == []
    assert failed((arm("turning"), seen(GAIN, "promote"))) == ["gate"]


@pytest.mark.parametrize("role", ["positive", "negative", "contrast", "turning", "observed"])
def test_platt_must_leave_the_ranking_alone(role: str) -> None:
    gain, verdict = (
        (NOTHING, "hold") if role == "negative" else (GAIN, "promote" if role == "contrast" else "hold")
    )
    found = seen(gain, verdict)
    assert failed((arm(role), replace(found, auc={"base": 0.8, "platt": 0.8 + 2e-12}))) == ["platt"]


def test_an_interval_that_could_not_be_computed_fails() -> None:
    none = Interval(None, reason="fewer than 10 users")
    assert failed((arm("positive"), seen(none, "hold"))) == ["slc gains", "slc_eb gains"]
    assert failed((arm("negative"), seen(none, "hold"))) == ["slc gains nothing", "slc_eb gains nothing"]


def test_the_sentence_names_the_first_broken_promise() -> None:
    checks = check_arms([arm("negative")], {"arm": seen(NOTHING, "promote")})
    verdict = ControlVerdict("movielens", "embedded", checks, [{}])
    assert not verdict.passed
    assert "fails 1 of 4 checks: arm: the gate does not promote, observed promote slc_eb" in verdict.sentence


def test_a_control_without_checks_has_shown_nothing() -> None:
    assert not ControlVerdict("movielens", "embedded", [], []).passed
