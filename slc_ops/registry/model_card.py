"""The model card on MLflow's page of a version, in Markdown, from plain values."""

from collections.abc import Mapping, Sequence
from typing import Any

LENGTH = 5000
"""MLflow's limit for tags and descriptions; the run's artifacts contain the full text."""
_HEADLINES = ("auc", "nll", "ece")
_PAIRED = ("auc", "nll")


def model_card(
    *,
    deployment: str,
    method: str,
    window: str,
    verdict: str,
    sentence: str,
    reasons: Sequence[str],
    figures: Mapping[str, float],
    slices: Mapping[str, Mapping[str, Any]],
    data: Mapping[str, str],
    pages: str,
    artifacts: Sequence[str],
    decisions: Mapping[str, str] | None = None,
) -> str:
    """Return the card, at most :data:`LENGTH` characters.

    Args:
        figures: Metrics of the newest window by dotted name.
        slices: Slice → its difference in NLL to Platt (``estimate``, ``low``, ``high``).
        data: Digests and the code version by name.
        pages: Address of the run's artifacts.
        decisions: Title → a decision of the verdict in words.
    """
    parts = [
        f"**{sentence or verdict}**",
        *(f"**{title}.** {text}" for title, text in (decisions or {}).items() if text),
        f"**What.** `{method}`: corrects the probabilities of the frozen model behind {deployment}, per "
        f"item. Fitted up to the window {window}; verdict `{verdict}`.",
        f"**For whom.** Systems that serve {deployment}'s predictions, by `slc_ops.serving.Corrector` or as "
        "a pyfunc; not for another model, nor for another version of its backbone.",
        _evidence(figures),
        "\n".join(f"- {reason}" for reason in reasons),
        _slices(slices),
        "**Limits.** An item without rows in these windows has no correction of its own. The figures are "
        "those of one window, fitted on the windows before it; intervals resample users. It says nothing "
        "about single users.",
        "**Data and code.** " + ", ".join(f"{name} `{value}`" for name, value in data.items()) + ".",
        f"[Report, data docs, backtest and verdict]({pages}) are artifacts of the run: "
        + ", ".join(f"`{name}`" for name in artifacts),
    ]
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"


def _evidence(figures: Mapping[str, float]) -> str:
    shown = [f"{name} {figures[name]:.4f}" for name in _HEADLINES if name in figures]
    for name in _PAIRED:
        keys = [f"vs_platt.{name}.{part}" for part in ("estimate", "low", "high")]
        if all(key in figures for key in keys):
            gain, low, high = (figures[key] for key in keys)
            shown.append(f"{name} against Platt {gain:+.4f} [{low:+.4f}, {high:+.4f}]")
    return f"**Evidence.** On the newest window: {', '.join(shown)}." if shown else ""


def _slices(slices: Mapping[str, Mapping[str, Any]]) -> str:
    known = {name: found for name, found in slices.items() if found.get("estimate") is not None}
    if not known:
        return ""
    rows = [
        f"| {name.replace('|', '/')} | {found['estimate']:+.4f} | {found['low']:+.4f} "
        f"| {found['high']:+.4f} |"
        for name, found in sorted(known.items())[:12]
        if found.get("low") is not None and found.get("high") is not None
    ]
    return "\n".join(["| slice: NLL against Platt | estimate | low | high |", "|---|---|---|---|", *rows])
