"""A deployment's own expectations stop or warn, are cached by their content, and are never code."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slc_ops.base.errors import ValidationStopped
from slc_ops.base.files import read_json
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.own import FILE, own_evaluated
from slc_ops.quality.verdict import Baseline, stops_of
from slc_ops.settings.deployments_file import load_deployments
from slc_ops.settings.expectations import ARGUMENTS, OwnExpectation
from tests.quality.lake_bench import NEWEST, ROWS, Bench, validate_by_rules

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
BETWEEN = "expect_column_values_to_be_between"


def expecting(bench: Bench, *entries: dict[str, Any]) -> None:
    quality = bench.deployment.quality.model_dump() | {"expectations": entries}
    bench.configure(quality=quality)


def between(severity: str = "stop", **kwargs: Any) -> dict[str, Any]:
    return {"type": BETWEEN, "kwargs": {"column": "logit", **kwargs}, "severity": severity}


def manifests(bench: Bench) -> list[WindowManifest]:
    directory = bench.installation.windows("demo")
    return [WindowManifest.read(directory / each.key) for each in [*NEWEST.before(3), NEWEST]]


def test_a_failed_expectation_stops_the_window_its_use_as_a_baseline_and_a_replay(bench: Bench) -> None:
    expecting(bench, between(min_value=0))
    with pytest.raises(ValidationStopped, match=r"values_to_be_between_logit: .* rows fail .*min_value 0"):
        bench.validate()
    *trailing, newest = manifests(bench)
    assert stops_of(newest, Baseline(trailing), bench.deployment.quality)[0]
    with pytest.raises(ValidationStopped, match="values_to_be_between_logit"):
        validate_by_rules(newest, trailing, bench.deployment.quality)
    below = sum(value < 0 for value in bench.read()["logit"].to_pylist())
    page = (newest.directory / "validation.html").read_text(encoding="utf-8")
    assert f"{below} of {ROWS} rows fail" in page
    assert f"{BETWEEN}(logit)" in page


def test_a_warning_annotates_and_a_passed_expectation_is_on_the_page(bench: Bench) -> None:
    met = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": ROWS}}
    expecting(bench, between("warn", min_value=0), met)
    result = bench.validate()
    assert [(finding.code, finding.severity) for finding in result.findings] == [
        ("values_to_be_between_logit", "warning")
    ]
    *trailing, newest = manifests(bench)
    assert not stops_of(newest, Baseline(trailing), bench.deployment.quality)[0]
    assert validate_by_rules(newest, trailing, bench.deployment.quality).status == "warned"
    assert "expect_table_row_count_to_equal(rows)" in result.docs_path.read_text(encoding="utf-8")


def test_only_a_changed_entry_is_evaluated_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    expecting(bench, between("warn", min_value=0))
    assert bench.validate().status == "warned"
    expecting(bench, between("warn", min_value=-50))
    assert bench.validate().status == "passed"
    newest = manifests(bench)[-1]
    monkeypatch.setattr("slc_ops.quality.own._asked", lambda *_: pytest.fail("asked again"))
    assert [each.met for each in own_evaluated(newest, bench.deployment.quality.expectations)] == [True]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (between("warn", min_value="low"), "min_value: value is not a valid float"),
        ({"type": BETWEEN, "kwargs": {"column": "weight", "min_value": 0}}, "has no column 'weight'"),
        (
            {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "item_id", "regex": "["}},
            "Invalid regular expression|unterminated character set",  # Arrow's message, or Python's
        ),
        ({"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "label"}}, "value_set"),
    ],
    ids=["wrong-kind-of-argument", "column-not-in-this-log", "regex-that-is-none", "argument-left-out"],
)
def test_an_expectation_that_cannot_be_evaluated_stops_with_one_line(
    bench: Bench, entry: Any, said: str
) -> None:
    expecting(bench, entry, between("warn", min_value=-50))
    with pytest.raises(ValidationStopped) as stopped:
        bench.validate()
    assert "found no answer: " in str(stopped.value)
    assert re.search(said, str(stopped.value))
    assert "\n" not in str(stopped.value)
    result = read_json(bench.installation.windows("demo") / NEWEST.key / "validation.json")
    assert [each["met"] for each in result["expectations"][-2:]] == [False, True]


def test_no_user_id_is_stored(bench: Bench) -> None:
    rows = bench.read()
    secret = pa.array([f"secret-{n}" for n in range(rows.num_rows)])
    bench.write(rows.set_column(rows.schema.get_field_index("user_id"), "user_id", secret))
    quoting = ["max_to_be_between", "min_to_be_between", "mean_to_be_between"]
    entries = [
        {"type": f"expect_column_{each}", "kwargs": {"column": "user_id", "max_value": 1}} for each in quoting
    ]
    entries += [
        {"type": f"expect_column_{each}", "kwargs": {"column": "user_id", "value_set": ["a"]}}
        for each in ("distinct_values_to_be_in_set", "values_to_be_in_set", "most_common_value_to_be_in_set")
    ]
    expecting(bench, *entries)
    with pytest.raises(ValidationStopped) as stopped:
        bench.validate()
    directory = bench.installation.windows("demo") / NEWEST.key
    written = [(directory / name).read_text() for name in (FILE, "validation.json", "validation.html")]
    assert not [text for text in [str(stopped.value), *written] if "secret-" in text]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{type: expect_column_values_to_be_betwen}", f"did you mean '{BETWEEN}'"),
        ("{type: my_package.rules.Own}", "there is no expectation 'my_package.rules.Own'"),
        ("{type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: select 1}}", "no expectation"),
        (f"{{type: {BETWEEN}, kwargs: {{column: logit, max_valu: 2}}}}", "has no argument 'max_valu'"),
        (f"{{type: {BETWEEN}, kwargs: {{column: logit, row_condition: '@pd'}}}}", "argument 'row_condition'"),
        (f"{{type: {BETWEEN}, kwargs: {{column: price, min_value: 0}}}}", "the log has no column 'price'"),
        (f"{{type: {BETWEEN}, kwargs: {{min_value: 0}}}}", "needs the argument 'column'"),
        (f"{{type: {BETWEEN}, kwargs: {{column: logit, min_value: {{$PARAMETER: now()}}}}}}", "values only"),
        (f"{{type: {BETWEEN}, kwargs: {{column: logit, min_value: .nan}}}}", "a finite number"),
        (f"{{type: {BETWEEN}, kwargs: {{column: logit}}, severity: info}}", "'stop' or 'warn'"),
    ],
)
def test_an_invalid_expectation_breaks_its_deployment_entry(tmp_path: Path, entry: str, said: str) -> None:
    from slc_ops.base.errors import SettingsError

    path = tmp_path / "deployments.yaml"
    shop = f"source: {{kind: simulator}}\n    quality:\n      expectations:\n      - {entry}\n"
    path.write_text(f"deployments:\n  shop:\n    {shop}")
    with pytest.raises(SettingsError) as refused:
        load_deployments(path)
    assert said in str(refused.value)
    assert "line 6" in str(refused.value) or ":6" in str(refused.value)


def test_the_table_of_arguments_matches_great_expectations() -> None:
    import great_expectations.expectations as gxe  # noqa: F401 (registers the types)
    from great_expectations.expectations.registry import get_expectation_impl

    for name, arguments in ARGUMENTS.items():
        fields = get_expectation_impl(name).__fields__
        assert set(arguments) <= set(fields), name
        needed = {each for each, field in fields.items() if field.required and each.startswith("column")}
        assert needed <= set(arguments), name
        assert get_expectation_impl(name).__module__.startswith("great_expectations.expectations.core")


GIVEN: dict[str, Any] = {
    "column": "logit", "column_A": "logit", "column_B": "logit", "column_list": ["logit", "label"],
    "value_set": [0, 1], "value_pairs_set": [[0, 1]], "value": 3, "threshold": 9, "double_sided": True,
    "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[-50, 50]]}, "regex": "^i", "regex_list": ["^i"],
    "strftime_format": "%Y", "sum_total": 1, "min_value": 0, "max_value": 1e9,
}  # fmt: skip
OF_TEXT = ("lengths", "regex", "strftime")


def test_every_type_of_the_table_can_be_evaluated_on_a_log(bench: Bench) -> None:
    bench.validate()
    entries = []
    for name, arguments in ARGUMENTS.items():
        given = {each: GIVEN[each] for each in arguments if each in GIVEN}
        given |= {"column": "item_id"} if any(word in name for word in OF_TEXT) else {}
        entries.append(OwnExpectation(type=name, kwargs=given))
    found = own_evaluated(manifests(bench)[-1], entries)
    assert [each.expectation for each in found] == list(ARGUMENTS)
    assert not [(each.expectation, each.observed) for each in found if "no answer" in str(each.observed)]


def test_the_example_on_the_page_validates_a_window(tmp_path: Path, bench: Bench) -> None:
    section = PAGE.read_text(encoding="utf-8").split("### Expectations of your own")[1]
    block = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)[0]
    (tmp_path / "deployments.yaml").write_text(block)
    entries = load_deployments(tmp_path / "deployments.yaml")["shop"].quality.expectations
    bench.validate()
    found = own_evaluated(manifests(bench)[-1], entries)
    assert [(each.rule.code, each.rule.severity, each.met) for each in found] == [
        ("values_to_be_between_logit", "critical", True),
        ("values_to_match_regex_item_id", "warning", True),
        ("unique_value_count_to_be_between_item_id", "warning", True),
    ]
