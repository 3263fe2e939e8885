"""The model card on MLflow's page of a version, in Markdown."""

from collections.abc import Iterator, Mapping
from typing import Any

from slc_ops.base.files import read_json
from slc_ops.registry.publication import VERDICT, Publication

LENGTH = 5000
"""MLflow's limit for tags and descriptions; the run's artifacts contain the full text."""
_HEADLINES = ("auc", "nll", "ece")
_PAIRED = ("auc", "nll")


def model_card(publication: Publication, pages: str) -> str:
    """Return the card, at most :data:`LENGTH` characters; ``pages`` is the address of the run's artifacts."""
    deployment, verdict = publication.deployment, publication.verdict
    artifacts = [*publication.artifacts, VERDICT]
    parts = [
        f"**{verdict.get('sentence') or verdict['verdict']}**",
        *(f"**{title}.** {text}" for title, text in _decisions(publication).items() if text),
        f"**What.** `{publication.method}`: corrects the probabilities of the frozen model behind "
        f"{deployment}, per item. Fitted up to the window {publication.window}; verdict "
        f"`{verdict['verdict']}`.",
        f"**For whom.** Systems that serve {deployment}'s predictions, by `slc_ops.serving.Corrector` or as "
        "a pyfunc; not for another model, nor for another version of its backbone.",
        _evidence(dict(flat(publication.metrics))),
        "\n".join(f"- {reason}" for reason in reasons(verdict)),
        _slices(publication),
        "**Limits.** An item without rows in these windows has no correction. The figures are "
        "those of one window, fitted on the previous windows; intervals resample users. The card makes no "
        "statement about single users.",
        f"**Data and code.** input `{publication.input_digest[:16]}`, settings "
        f"`{publication.config_digest[:16]}`, code `{publication.code_version}`.",
        f"[Report, data docs, backtest and verdict]({pages}) are artifacts of the run: "
        + ", ".join(f"`{name}`" for name in artifacts),
    ]
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"


def reasons(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sentences of a verdict's reasons."""
    for reason in verdict.get("reasons") or []:
        yield str(reason.get("sentence", reason)) if isinstance(reason, Mapping) else str(reason)


def flat(metrics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield metrics by dotted name; undefined (None) and text values are skipped."""
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", float(value)


def _decisions(publication: Publication) -> dict[str, str]:
    from slc_ops.evidence.verdict import method_in_words, parameters_in_words
    from slc_ops.parameters.parameter_set import ParameterSet

    prior_mean = ParameterSet.read(publication.parameters).provenance.prior_mean
    return {
        "Which method serves": method_in_words(publication.verdict),
        "Its parameters": parameters_in_words(publication.verdict),
        "Warm start": "" if prior_mean is None else prior_mean.sentence,
    }


def _evidence(figures: Mapping[str, float]) -> str:
    shown = [f"{name} {figures[name]:.4f}" for name in _HEADLINES if name in figures]
    for name in _PAIRED:
        keys = [f"vs_platt.{name}.{part}" for part in ("estimate", "low", "high")]
        if all(key in figures for key in keys):
            gain, low, high = (figures[key] for key in keys)
            shown.append(f"{name} against Platt {gain:+.4f} [{low:+.4f}, {high:+.4f}]")
    return f"**Evidence.** On the newest window: {', '.join(shown)}." if shown else ""


def _slices(publication: Publication) -> str:
    """Return the method's differences in NLL to Platt by slice; empty without a backtest artifact."""
    backtest = publication.artifacts.get("backtest")
    if backtest is None or not backtest.is_file():
        return ""
    found = read_json(backtest).get("slice_differences", {}).get(publication.method, {})
    rows = []
    for name, each in sorted(found.items()):
        ends = [each.get("nll", {}).get(part) for part in ("estimate", "low", "high")]
        if None not in ends:
            rows.append(f"| {name.replace('|', '/')} | " + " | ".join(f"{end:+.4f}" for end in ends) + " |")
    table = ["| slice: NLL against Platt | estimate | low | high |", "|---|---|---|---|", *rows[:12]]
    return "\n".join(table) if rows else ""
