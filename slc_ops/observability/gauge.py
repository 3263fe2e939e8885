"""A figure for Prometheus."""

from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily


class Gauge(GaugeMetricFamily):
    """A figure with a name, a sentence and one value per set of labels."""

    def add(self, value: float, **labels: str) -> None:
        """Add a value."""
        self.add_sample(self.name, labels, float(value))

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "help": self.documentation,
            "samples": [{"labels": sample.labels, "value": sample.value} for sample in self.samples],
        }
