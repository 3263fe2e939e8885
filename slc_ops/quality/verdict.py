"""From statistics to a verdict, its files and its message."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import ValidationStopped
from slc_ops.base.files import stored_under, understanding, write_json
from slc_ops.intake.contract import REPEATED_TIMES, SKIPPED_TIMES
from slc_ops.intake.labels import NOTES
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.docs import write_index, write_page
from slc_ops.quality.event_ids import NOTHING, Seen, seen_before
from slc_ops.quality.heavy_users import Scaled, scaled
from slc_ops.quality.measures import changed_columns, day_ratios, measures, most_unusual_day, usual_days
from slc_ops.quality.own import own_evaluated
from slc_ops.quality.passes import MAX_EXAMPLES
from slc_ops.quality.quarantine import PutAside
from slc_ops.quality.result import PAGE, RESULT, Finding, ValidationResult
from slc_ops.quality.rows import DUPLICATE, SEEN_BEFORE, row_checks
from slc_ops.quality.rules import CHANGES, rules, softened
from slc_ops.quality.statistics import Statistics, statistics_of, with_ids
from slc_ops.quality.suite import Evaluated, evaluate
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.rows.stored import rows_with_ids
from slc_ops.settings.quality import Quality

VERSION = 12
CLEAN = "clean.parquet"
QUARANTINE = "quarantine.parquet"
NOTED = (*NOTES, REPEATED_TIMES, SKIPPED_TIMES)


@dataclass(frozen=True)
class Baseline:
    """The windows that a window is compared with, oldest first."""

    windows: Sequence[WindowManifest] = ()
    weekdays: Sequence[WindowManifest] | None = None
    """For daily windows: those of the same weekday, for the number of rows."""
    found_before: frozenset[str] = frozenset()
    """Codes of the stop limits that the previous window exceeded: twice in a row, a change is accepted."""
    earlier: Sequence[WindowManifest] = ()
    """The windows whose events may not occur again."""

    def identity(self) -> list[Any]:
        """Return the content of the windows as JSON."""
        windows, earlier, weekdays = (
            None if part is None else [each.digest for each in part]
            for part in (self.windows, self.earlier, self.weekdays)
        )
        return [windows, earlier, weekdays, sorted(self.found_before)]


def validate(
    manifest: WindowManifest,
    baseline: Baseline,
    quality: Quality,
    engine: Engine = LOCAL,
    *,
    suite: bool = True,
) -> ValidationResult:
    """Return the verdict on a window: from its files if they match, else from the suite.

    The verdict is a function of the content of the window and of the baseline, and of the settings; a stored
    verdict with the same key is read. Changes stop only against three or more windows, and not if the
    previous window had them, too: then they are accepted as real. Rows with an event of an earlier window are
    quarantined; above the budget they stop the window.

    Writes ``validation.json``, ``validation.html`` and, if rows failed, ``quarantine.parquet`` and
    ``clean.parquet`` beside the window. Raises :class:`~slc_ops.base.errors.ValidationStopped` if a critical
    expectation fails, after writing the files. Without ``suite`` its rules are applied here, a hundred times
    as fast: the same verdict without pages, for windows that publish nothing.
    """
    path = manifest.directory / RESULT
    noted = {name: manifest.notes[name] for name in NOTED if name in manifest.notes}
    key = digest_json(
        [
            VERSION,
            manifest.digest,
            quality.model_dump(mode="json"),
            *baseline.identity(),
            *([noted] if noted else []),
        ]
    )
    manifest.verify(engine.digest)
    if known := stored_under(path, key):
        with understanding(path):
            result = ValidationResult.from_file(manifest.directory, known)
        result.verify(manifest, engine.digest)
        return stop_if_critical(result, manifest, pages=suite)
    seen = seen_before(manifest, baseline.earlier, quality.row_budget)
    evaluated, now, past = by_rules(manifest, baseline, quality, engine, suite=suite, seen=seen)
    findings = findings_of(evaluated, now, past, manifest)
    limit = quality.user_item_limit
    heavy = None if limit is None else scaled(manifest, limit)
    if heavy is not None and limit is not None:
        findings.append(heavy.finding(now.rows, limit))
    result = settle(manifest, now, findings, quality, engine, seen, heavy)
    if suite:  # before the result, whose readers may rely on its page
        write_page(result, manifest, evaluated, past, now)
    write_json(
        path,
        {
            "key": key,
            "window": manifest.window.as_dict(),
            "digest": manifest.digest,
            "trailing": [str(window.window) for window in baseline.windows],
            **result.file_form(),
            "expectations": [expectation.as_dict() for expectation in evaluated],
            "statistics": now.summary(),
        },
    )
    if suite:
        write_index(manifest, quality.docs_windows)
    return stop_if_critical(result, manifest, pages=suite)


def stops_of(
    manifest: WindowManifest, baseline: Baseline, quality: Quality, engine: Engine = LOCAL
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the codes that stop the window, and those of changes that exceed a stop limit, stop or not.

    It is called for many earlier windows before they join a baseline, where a suite each would take seconds.
    The library evaluates the deployment's own expectations, once per window's content.
    """
    evaluated, _, _ = by_rules(manifest, baseline, quality, engine)
    unmet = [each.rule for each in evaluated if not each.met]
    return (
        frozenset(rule.code for rule in unmet if rule.severity == "critical"),
        frozenset(rule.code for rule in unmet if rule.code in CHANGES and rule.is_stop),
    )


def by_rules(
    manifest: WindowManifest,
    baseline: Baseline,
    quality: Quality,
    engine: Engine,
    *,
    suite: bool = False,
    seen: Seen = NOTHING,
) -> tuple[list[Evaluated], Statistics, list[Statistics]]:
    """Evaluate every rule with a defined measure, by the ``suite`` or here; return results and statistics."""
    limit, weekdays = quality.logit_limit, baseline.weekdays
    now = with_seen(statistics_of(manifest, limit, engine), manifest, seen)
    before = [(window, statistics_of(window, limit, engine)) for window in baseline.windows]
    same = [statistics_of(window, limit, engine) for window in weekdays or ()]
    table = measures(now, manifest, before, same)
    checks = row_checks(manifest.window.start, manifest.window.end, limit)
    counts = {"rows_unusual": len(before) if weekdays is None else len(same)}
    asked = [
        softened(rule, counts.get(rule.code, len(before)), baseline.found_before)
        for rule in rules(quality, checks)
    ]
    if suite:
        evaluated = evaluate(table, asked)
    else:
        evaluated = [
            Evaluated(rule, "rule", table[rule.measure], rule.met_by(table[rule.measure]))
            for rule in asked
            if rule.measure in table
        ]
    evaluated += own_evaluated(manifest, quality.expectations)
    return evaluated, now, [statistics for _, statistics in before]


def with_seen(now: Statistics, manifest: WindowManifest, seen: Seen) -> Statistics:
    """Return the statistics with the rows whose event id an earlier window had."""
    if not seen.rows:
        return now
    again = chain.from_iterable(rows for rows, _ in rows_with_ids(manifest.path, seen.hashes))
    return replace(
        now,
        failed={**now.failed, SEEN_BEFORE: seen.rows},
        failed_rows=min(now.failed_rows + seen.rows, now.rows),
        examples={**now.examples, SEEN_BEFORE: [{"row": int(row)} for row in islice(again, MAX_EXAMPLES)]},
    )


def settle(
    manifest: WindowManifest,
    now: Statistics,
    findings: list[Finding],
    quality: Quality,
    engine: Engine,
    seen: Seen,
    heavy: Scaled | None,
) -> ValidationResult:
    """Quarantine failing rows and return the result with the usable file, which a stopped window lacks."""
    stopped = any(finding.severity == "critical" for finding in findings)
    quarantined, clean_path, clean_digest = 0, manifest.path, ""
    fractional = now.types["label"] == str(pa.float64())
    if now.failed_rows or ((fractional or heavy is not None) and not stopped):
        clean_path = manifest.path if stopped else manifest.directory / CLEAN
        quarantined, clean_digest = engine.divide(
            manifest.path,
            PutAside(manifest.window, quality.logit_limit, seen.hashes, heavy),
            manifest.directory.absolute() / QUARANTINE,
            None if stopped else clean_path.absolute(),
            ids_repeat=now.failed[DUPLICATE] > 0,
        )
    return ValidationResult(
        status="stopped" if stopped else "warned" if findings else "passed",
        rows=now.rows,
        quarantined=quarantined,
        findings=findings,
        clean_path=clean_path,
        docs_path=manifest.directory / PAGE,
        result_path=manifest.directory / RESULT,
        clean_digest=clean_digest,
        seen_digest=seen.digest,
    )


def findings_of(
    evaluated: list[Evaluated], now: Statistics, past: list[Statistics], manifest: WindowManifest
) -> list[Finding]:
    """Return the failed expectations, critical ones first; a critical one replaces its warning."""
    found: dict[str, Finding] = {}
    for expectation in evaluated:
        rule = expectation.rule
        if expectation.met or rule.code in found:
            continue
        count = now.failed_rows if rule.code == "quarantine_over_budget" else now.failed.get(rule.code)
        found[rule.code] = Finding(
            code=rule.code,
            severity=rule.severity,
            sentence=rule.sentence,
            expectation=f"{expectation.expectation} on {rule.measure}",
            observed=details(expectation, now, past, manifest),
            expected=rule.expected,
            count=count if rule.about_rows else None,
            rows=now.rows if rule.about_rows else None,
            examples=now.examples.get(rule.code, []),
        )
    return sorted(found.values(), key=lambda finding: finding.severity)


def details(expectation: Evaluated, now: Statistics, past: list[Statistics], manifest: WindowManifest) -> Any:
    """Return the observed value with its most helpful detail."""
    observed = expectation.observed
    if expectation.rule.code == "rows_by_day" and (unusual := most_unusual_day(day_ratios(now, past))):
        day, usual = unusual[0], usual_days(now, past)[unusual[0]]
        date = manifest.window.dates[day]
        return f"{observed:.3g} ({date}: {now.rows_by_day[day]} rows, usually {usual:g})"
    if expectation.rule.code == "columns_changed":
        return "; ".join(changed_columns(now, past))
    if expectation.rule.code in ("backbones_mixed", "backbone_mix"):
        return f"{observed:g} ({', '.join(f'{name}: {count} rows' for name, count in now.versions.items())})"
    if observed == "missing" or expectation.rule.code == "score_missing":
        return f"{observed} (the source has: {', '.join(manifest.notes.get('source_columns', []))})"
    return round(observed, 6) if isinstance(observed, float) else observed


def stop_if_critical(result: ValidationResult, manifest: WindowManifest, *, pages: bool) -> ValidationResult:
    """Raise :class:`ValidationStopped` if the verdict is to stop; the message links to ``pages``, if any."""
    if result.status != "stopped":
        return result
    first, *others = [finding for finding in result.findings if finding.severity == "critical"]
    more = f"; also critical: {', '.join(finding.code for finding in others)}" if others else ""
    where = f". The champion stays; all findings: {result.docs_path}"
    with_names = replace(first, examples=with_ids(first.examples, manifest) if first.examples else [])
    said, kept = (
        f"window {manifest.window} is not fit for use: {each.line()}{more}{where if pages else ''}"
        for each in (with_names, first)
    )
    raise ValidationStopped(said, kept)
