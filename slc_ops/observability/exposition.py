"""Prometheus' text format (version 0.0.4): small enough to need no library."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Metric:
    """A figure with a name, a sentence and one value per set of labels. All of ours are gauges."""

    name: str
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """Add a value."""
        self.samples.append((labels, float(value)))

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "help": self.help,
            "samples": [{"labels": dict(labels), "value": value} for labels, value in self.samples],
        }


def render(metrics: Iterable[Metric]) -> str:
    r"""The metrics as text; one without values is left out.

    >>> metric = Metric("slc_ops_window_rows", "Rows of the newest window.")
    >>> metric.add(12, deployment='al"gebra')
    >>> print(render([metric]), end="")
    # HELP slc_ops_window_rows Rows of the newest window.
    # TYPE slc_ops_window_rows gauge
    slc_ops_window_rows{deployment="al\"gebra"} 12
    """
    lines = []
    for metric in metrics:
        if not metric.samples:
            continue
        lines += [f"# HELP {metric.name} {_escape(metric.help)}", f"# TYPE {metric.name} gauge"]
        lines += [f"{metric.name}{_labels(labels)} {value:.17g}" for labels, value in metric.samples]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{_quote(value)}"' for name, value in labels.items())
    return f"{{{inner}}}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quote(text: str) -> str:
    return _escape(text).replace('"', r"\"")
