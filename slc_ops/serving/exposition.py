"""A corrector's health in the text format of Prometheus; a serving host has no client library."""

from collections.abc import Iterator
from typing import Any


def exposition(health: dict[str, Any]) -> str:
    """The samples of one corrector.

    >>> counts = {"rows": 3, "unknown": {"item": {"rows": 1}}, "backbone_mismatch": {"rows": 0}}
    >>> print(exposition(counts | {"deployment": "demo", "serves": "frozen", "status": "ok"}).splitlines()[2])
    slc_serving_rows_total{deployment="demo"} 3
    """
    return "".join(_lines(health))


def _lines(health: dict[str, Any]) -> Iterator[str]:
    whose = {"deployment": health.get("deployment") or ""}
    before = None
    served = {name: health.get(name) for name in ("version", "method", "backbone_version", "serves")}
    for name, kind, what, value, labels in (
        ("rows_total", "counter", "Rows corrected since the parameters were loaded", health["rows"], {}),
        *(("unknown_rows_total", "counter", "Of these, rows whose id an effect does not know",
           found["rows"], {"effect": effect}) for effect, found in health["unknown"].items()),
        ("backbone_mismatch_rows_total", "counter", "Rows of another backbone than the parameters' own",
         health["backbone_mismatch"]["rows"], {}),
        ("frozen", "gauge", "1 where the champion was retired and the frozen model serves",
         int(health["serves"] == "frozen"), {}),
        ("stale", "gauge", "1 where the registry could not be followed", int(health["status"] != "ok"), {}),
        ("info", "gauge", "What is served", 1, served),
    ):  # fmt: skip
        if name != before:
            yield f"# HELP slc_serving_{name} {what}\n# TYPE slc_serving_{name} {kind}\n"
        before = name
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in (whose | labels).items())
        yield f"slc_serving_{name}{{{shown}}} {value}\n"


def _escaped(text: Any) -> str:
    plain = "" if text is None else str(text)
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
