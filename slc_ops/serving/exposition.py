"""A corrector's health in the text format of Prometheus, without a client library."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any


def exposition(health: dict[str, Any]) -> str:
    """Return the samples of one corrector; those of its challenger have the label ``arm``.

    >>> counts = {"rows": 3, "unknown": {"item": {"rows": 1}}, "backbone_mismatch": {"rows": 0}}
    >>> print(exposition(counts | {"deployment": "demo", "serves": "frozen", "status": "ok"}).splitlines()[2])
    slc_serving_rows_total{deployment="demo"} 3
    """
    return "".join(_lines(health))


def _lines(health: dict[str, Any]) -> Iterator[str]:
    whose = {"deployment": health.get("deployment") or ""}
    canary = health.get("canary") or {}
    arms = [({}, health), *([({"arm": "challenger"}, canary)] if canary.get("version") is not None else [])]
    names = ("version", "method", "backbone_version", "serves")
    families: dict[str, tuple[str, str, list[tuple[dict[str, Any], Any]]]] = {
        "rows_total": ("counter", "Rows corrected since the parameters were loaded",
            [(arm, found["rows"]) for arm, found in arms]),
        "unknown_rows_total": ("counter", "Rows with an id that is unknown to an effect",
            [({**arm, "effect": effect}, of["rows"])
             for arm, found in arms for effect, of in found["unknown"].items()]),
        "backbone_mismatch_rows_total": ("counter", "Rows of another backbone than the parameters' own",
            [(arm, found["backbone_mismatch"]["rows"]) for arm, found in arms]),
        "frozen": ("gauge", "1 if the champion is retired and the frozen model serves",
            [({}, int(health["serves"] == "frozen"))]),
        "stale": ("gauge", "1 if the registry could not be read",
            [({}, int("stale" in (health["status"], canary.get("status"))))]),
        "info": ("gauge", "What is served",
            [({**arm, **{name: found.get(name) for name in names}}, 1) for arm, found in arms]),
    }  # fmt: skip
    for name, (kind, what, samples) in families.items():
        if samples:
            yield f"# HELP slc_serving_{name} {what}\n# TYPE slc_serving_{name} {kind}\n"
        for labels, value in samples:
            yield f"slc_serving_{name}{{{_labels(whose | labels)}}} {value}\n"


class Requests:
    """Requests of a server by path and status, with durations; only the event loop writes."""

    BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0, float("inf"))

    def __init__(self, deployment: str) -> None:
        self._deployment = deployment
        self._counts: dict[tuple[str, int], int] = {}
        self._seconds, self._buckets = 0.0, [0] * len(self.BUCKETS)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Add a request; ``path`` is the route's pattern, to limit the number of labels."""
        key = path, status
        self._counts[key] = self._counts.get(key, 0) + 1
        self._seconds += seconds
        self._buckets[bisect_left(self.BUCKETS, seconds)] += 1

    def exposition(self) -> str:
        """Return the samples.

        >>> asked = Requests("demo")
        >>> asked.add("/correct", 200, 0.004)
        >>> print(asked.exposition().splitlines()[2])
        slc_serving_requests_total{deployment="demo",path="/correct",status="200"} 1
        """
        whose = {"deployment": self._deployment}
        lines = [
            "# HELP slc_serving_requests_total Requests answered",
            "# TYPE slc_serving_requests_total counter",
        ]
        for (path, status), count in sorted(self._counts.items()):
            labels = _labels(whose | {"path": path, "status": status})
            lines.append(f"slc_serving_requests_total{{{labels}}} {count}")
        name, below = "slc_serving_request_seconds", 0
        lines += [
            f"# HELP {name} Seconds from the first byte of a request to the last byte of its answer",
            f"# TYPE {name} histogram",
        ]
        for limit, count in zip(self.BUCKETS, self._buckets, strict=True):
            below += count
            shown = "+Inf" if limit == float("inf") else f"{limit:g}"
            lines.append(f"{name}_bucket{{{_labels(whose | {'le': shown})}}} {below}")
        lines += [
            f"{name}_sum{{{_labels(whose)}}} {self._seconds}",
            f"{name}_count{{{_labels(whose)}}} {below}",
        ]
        return "\n".join(lines) + "\n"


def _labels(labels: dict[str, Any]) -> str:
    return ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())


def _escaped(text: Any) -> str:
    plain = "" if text is None else str(text)
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
