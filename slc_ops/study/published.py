"""The paper's figures (per-backbone tables, Tables 2, 3 and 5, link ablation), for comparison."""

BACKBONES = ("akt", "dkt", "sakt", "dkvmn", "lpkt")
"""The column order of the paper."""
NAMES = {"assistments2017": "AS17", "eedi": "Eedi", "assistments2009": "AS09", "algebra": "Algebra"}
"""Data sets of ``slc-ops ingest``, which the tables below use, and their names in the paper."""

_PER_BACKBONE = """
assistments2017 base 0.7189 0.6991 0.6193 0.6841 0.6855 0.603 0.607 0.651 0.617 0.615
assistments2017 platt 0.7189 0.6991 0.6193 0.6841 0.6855 0.593 0.605 0.644 0.614 0.612
assistments2017 platt_time 0.7198 0.6991 0.6193 0.6841 0.6855 0.592 0.604 0.643 0.613 0.611
assistments2017 rescal 0.7275 0.7222 0.6613 0.7096 0.7117 0.595 0.591 0.630 0.601 0.599
assistments2017 rescal_iso 0.7274 0.7221 0.6613 0.7094 0.7118 0.587 0.590 0.627 0.599 0.598
assistments2017 naive 0.7060 0.7079 0.6584 0.6984 0.7022 0.662 0.635 0.666 0.642 0.635
assistments2017 slc 0.7321 0.7325 0.6811 0.7214 0.7237 0.585 0.583 0.616 0.592 0.590
assistments2017 slc_t 0.7303 0.7312 0.6791 0.7201 0.7222 0.587 0.585 0.618 0.594 0.591
assistments2017 slc_iso 0.7314 0.7314 0.6790 0.7204 0.7225 0.585 0.585 0.618 0.594 0.592
eedi base 0.7733 0.7207 0.7196 0.7219 0.6591 0.540 0.580 0.582 0.579 0.612
eedi platt 0.7733 0.7207 0.7196 0.7219 0.6591 0.539 0.580 0.581 0.579 0.612
eedi platt_time 0.7733 0.7207 0.7196 0.7219 0.6594 0.539 0.580 0.581 0.579 0.611
eedi rescal 0.7734 0.7589 0.7568 0.7592 0.7188 0.540 0.552 0.554 0.552 0.581
eedi rescal_iso 0.7734 0.7589 0.7568 0.7592 0.7188 0.539 0.552 0.553 0.551 0.580
eedi naive 0.7509 0.7433 0.7433 0.7447 0.7051 0.574 0.573 0.576 0.574 0.599
eedi slc 0.7714 0.7643 0.7628 0.7650 0.7259 0.541 0.548 0.549 0.548 0.576
eedi slc_t 0.7704 0.7637 0.7622 0.7644 0.7255 0.542 0.549 0.550 0.548 0.576
eedi slc_iso 0.7709 0.7634 0.7622 0.7643 0.7254 0.542 0.548 0.549 0.547 0.576
assistments2009 base 0.6925 0.6987 0.6084 0.6817 0.7099 0.630 0.590 0.710 0.629 0.579
assistments2009 platt 0.6925 0.6987 0.6084 0.6817 0.7099 0.593 0.577 0.625 0.598 0.569
assistments2009 platt_time 0.6918 0.6994 0.6113 0.6820 0.7087 0.593 0.575 0.621 0.596 0.567
assistments2009 rescal 0.6928 0.6989 0.6085 0.6819 0.7102 0.629 0.589 0.708 0.629 0.578
assistments2009 rescal_iso 0.6922 0.6986 0.6085 0.6819 0.7101 0.594 0.577 0.625 0.598 0.571
assistments2009 naive 0.6712 0.6706 0.6316 0.6686 0.6847 0.781 0.702 0.917 0.758 0.694
assistments2009 slc 0.7131 0.7198 0.6570 0.7078 0.7355 0.599 0.575 0.636 0.606 0.563
assistments2009 slc_t 0.7089 0.7147 0.6532 0.7035 0.7300 0.608 0.582 0.649 0.617 0.570
assistments2009 slc_iso 0.7108 0.7123 0.6512 0.7033 0.7295 0.622 0.610 0.653 0.640 0.590
algebra base 0.8168 0.8254 0.7918 0.8179 0.8158 0.348 0.328 0.362 0.335 0.335
algebra platt 0.8168 0.8254 0.7918 0.8179 0.8158 0.340 0.327 0.357 0.334 0.334
algebra platt_time 0.8169 0.8254 0.7918 0.8179 0.8158 0.340 0.327 0.357 0.334 0.334
algebra rescal 0.8204 0.8344 0.8094 0.8290 0.8281 0.345 0.322 0.350 0.327 0.326
algebra rescal_iso 0.8204 0.8343 0.8095 0.8290 0.8281 0.331 0.320 0.339 0.325 0.325
algebra naive 0.7947 0.8206 0.7998 0.8167 0.8168 0.557 0.410 0.462 0.418 0.410
algebra slc 0.8245 0.8417 0.8216 0.8377 0.8372 0.336 0.316 0.339 0.320 0.319
algebra slc_t 0.8225 0.8408 0.8206 0.8367 0.8362 0.340 0.317 0.342 0.322 0.321
algebra slc_iso 0.8242 0.8409 0.8209 0.8369 0.8365 0.335 0.321 0.340 0.325 0.324
"""
DENSITY: dict[str | None, dict[str, float]] = {  # Table 5: AUC, slc minus rescal_iso
    "assistments2017": {"sparse": 0.0414, "medium": 0.0236, "dense": 0.0024},
    "eedi": {"sparse": 0.0418, "medium": 0.0128, "dense": 0.0008},
    "assistments2009": {"sparse": 0.0367, "medium": 0.0285, "dense": 0.0301},
    "algebra": {"sparse": 0.0075, "dense": 0.0101},
}
FRACTIONS: dict[
    str | None, dict[float, float]
] = {  # AUC, slc minus Platt, by the share of the calibration rows
    "assistments2017": {0.1: 0.0124, 0.2: 0.0187, 0.5: 0.0276, 1.0: 0.0368},
    "assistments2009": {0.1: 0.0016, 0.2: 0.0048, 0.5: 0.0084, 1.0: 0.0284},
}
LINKS: dict[str | None, dict[str, tuple[float, float, float]]] = {  # AUC, NLL, ECE
    "assistments2009": {
        "platt (no items)": (0.6782, 0.5924, 0.0498), "tracked, raw": (0.7016, 0.6275, 0.1071),
        "tracked, offset-Platt": (0.7021, 0.6052, 0.0830), "static, raw": (0.7060, 0.6206, 0.1051),
        "static, offset-Platt (slc)": (0.7066, 0.5956, 0.0763),
    },
    "assistments2017": {
        "platt (no items)": (0.6814, 0.6134, 0.0116), "tracked, raw": (0.7170, 0.5971, 0.0317),
        "tracked, offset-Platt": (0.7166, 0.5951, 0.0214), "static, raw": (0.7182, 0.5955, 0.0279),
        "static, offset-Platt (slc)": (0.7182, 0.5931, 0.0170),
    },
}  # fmt: skip


def figure(dataset: str | None, backbone: str, method: str, metric: str) -> float | None:
    """Return a figure of the per-backbone tables; ``mean`` is the average of the five (Tables 2 and 3).

    >>> figure("assistments2017", "dkt", "slc", "auc"), figure("assistments2017", "mean", "slc", "nll")
    (0.7325, 0.5932)
    >>> figure("my own", "dkt", "slc", "auc") is None
    True
    """
    for line in _PER_BACKBONE.strip().split("\n"):
        known_dataset, known_method, *figures = line.split()
        if (known_dataset, known_method) == (dataset, method):
            five = [float(each) for each in (figures[:5] if metric == "auc" else figures[5:])]
            return round(sum(five) / 5, 5) if backbone == "mean" else five[BACKBONES.index(backbone)]
    return None
