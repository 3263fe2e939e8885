"""The page of a study: ``study.md``, with every table as Markdown, CSV and LaTeX, and two figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slc_ops.base.files import replacing_directory, write_json, write_text
from slc_ops.base.text import count, number
from slc_ops.paper.analyses import Rows
from slc_ops.paper.page import as_csv, draw_all
from slc_ops.study import published
from slc_ops.study.run import Study
from slc_ops.study.tables import of_backbones, over_backbones, study_tables

TITLES = {
    "auc": "AUC by method and backbone (Table 2)",
    "nll": "NLL by method and backbone (Table 3)",
    "gain": "Points of AUC that slc gains over Platt",
    "density": "Points of AUC, slc minus rescal_iso, by observations per item (Table 5)",
    "link": "Link ablation, mean over backbones",
    "calibration_fraction": "Points of AUC that slc gains over Platt, by the share of the calibration rows",
    "ridge": "Converged ridge minus the single step, mean over backbones",
    "detectability": "Smallest detectable drift",
    "over_time": "AUC in ten slices of the test rows by time, mean over backbones (Figure 1)",
    "training": "Training",
}


def write_study(out: Path, study: Study) -> Path:
    """Write tables, figures and the page below ``out``; return the page."""
    tables = study_tables(study.runs, study.dataset)
    with replacing_directory(out / "tables") as folder:
        for name, rows in tables.items():
            write_text(folder / f"{name}.csv", as_csv(rows))
            write_text(folder / f"{name}.md", markdown(name, rows))
            write_text(folder / f"{name}.tex", latex(name, rows))
    averaged = over_backbones(of_backbones(study.runs))
    with replacing_directory(out / "figures") as folder:
        draw_all(folder, {name: averaged.get(name, []) for name in ("over_time", "density")})
    write_json(
        out / "study.json", {"tables": tables, "counts": study.counts, "dataset": study.dataset}, shared=True
    )
    page = out / "study.md"
    write_text(page, page_text(study, tables), shared=True)
    return page


def page_text(study: Study, tables: Mapping[str, Rows]) -> str:
    """Return the page as Markdown."""
    names = list(dict.fromkeys(run.backbone for run in study.runs))
    seeds = {name: sum(run.backbone == name for run in study.runs) for name in names}
    theirs = published.NAMES.get(study.dataset or "")
    parts = [
        f"# The paper's study on {theirs or study.source}\n",
        ", ".join(f"{count(value)} {what}" for what, value in study.counts.items() if value) + ". "
        + "Seeds: " + ", ".join(f"{name} {number}" for name, number in seeds.items()) + ".\n",
        how_it_was_done(study) + "\n",
    ]  # fmt: skip
    for name, rows in tables.items():
        parts.append(f"## {TITLES[name]}\n")
        if name in ("over_time", "density"):
            parts.append(f"![{TITLES[name]}](figures/{name}.png)\n")
        parts.append(markdown(name, rows))
    if theirs:
        parts.append(differences(study))
    return "\n".join(parts)


def how_it_was_done(study: Study) -> str:
    """Describe the protocol, for comparison with other figures."""
    chosen = (
        "The number of epochs is chosen by AUC on the last tenth of each user's train rows, with a network "
        "trained without them; the final network is trained for as many epochs on all train rows. "
        "Calibration and test rows are not used. The authors' program chooses the epoch on the calibration "
        "rows (`--choose-epoch calibration` repeats that)."
        if study.settings.choose_epoch == "train"
        else "The epoch is chosen by AUC on the calibration rows, as the authors' program does. The "
        "correction is fitted to the same rows, so it sees a backbone that suits them better than later rows."
    )
    brackets = "Figures in brackets are the paper's. " if study.dataset in published.NAMES else ""
    return (
        "Each user's first 60 % of rows are train, the next 20 % calibration, the last 20 % test. "
        f"{chosen} ± is the standard deviation over seeds; of the mean, the average of the backbones' "
        "where each has several. "
        f"{brackets}The tables took {study.seconds_tables:.0f} s."
    )


def differences(study: Study) -> str:
    """List the reasons for differences from the paper's figures."""
    few = [name for name in published.BACKBONES if not any(run.backbone == name for run in study.runs)]
    lines = [
        "## Where these figures differ from the paper's\n",
        "- The networks are our own small ones with the equations of their papers; the paper does not "
        "state its sizes.",
        "- A row is predicted from a window of its user's past; LPKT has no answer times, and no times "
        "between answers if `event_time` is a count.",
        "- The paper's means are over five backbones and three seeds.",
    ]
    if study.dataset == "assistments2017":
        lines.append("- The paper's Table 2 has 0.6837 for `platt_time`; its table by backbone gives 0.6816.")
    if few:
        lines.append(f"- Not trained here: {', '.join(few)}; the mean is over the others.")
    if study.settings.choose_epoch == "train":
        lines.append("- The epoch is chosen on train rows here, on calibration rows there.")
    return "\n".join(lines) + "\n"


# --- tables --------------------------------------------------------------------------------------------


def markdown(name: str, rows: Rows) -> str:
    """Return a Markdown table: our figure ± sd, the paper's in brackets.

    >>> row = {"method": "slc", "dkt": 0.7325, "dkt_sd": 0.001, "dkt_paper": 0.7321}
    >>> print(markdown("auc", [row]), end="")
    | method | dkt |
    |---|---|
    | slc | 0.7325 ± 0.0010 (0.7321) |
    """
    columns = _shown(rows)
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(name, row, column, "±") for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def latex(name: str, rows: Rows) -> str:
    """Return the same table as a LaTeX tabular with booktabs.

    >>> print(latex("auc", [{"method": "slc_t", "dkt": 0.7325, "dkt_sd": 0.001, "dkt_paper": None}]), end="")
    \\begin{tabular}{lc}
    \\toprule
    method & dkt \\\\
    \\midrule
    slc\\_t & 0.7325 $\\pm$ 0.0010 \\\\
    \\bottomrule
    \\end{tabular}
    """
    columns = _shown(rows)
    lines = [f"\\begin{{tabular}}{{l{'c' * (len(columns) - 1)}}}", "\\toprule"]
    lines += [" & ".join(_escaped(column) for column in columns) + " \\\\", "\\midrule"]
    lines += [" & ".join(_cell(name, row, column, "$\\pm$") for column in columns) + " \\\\" for row in rows]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _shown(rows: Rows) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if not name.endswith(("_sd", "_paper", "_low", "_high"))]


def _cell(name: str, row: Mapping[str, Any], column: str, plus_minus: str) -> str:
    value = row.get(column)
    if isinstance(value, str):
        return _escaped(value) if "$" in plus_minus else value
    points = name == "density" or column == "gain"  # hundredths of AUC
    digits = 2 if points else 1 if column == "CPU minutes" else 4
    text = _figure(value, digits, points)
    if row.get(f"{column}_sd") is not None:
        text = f"{text} {plus_minus} {_figure(row[f'{column}_sd'], digits, points)}"
    theirs = row.get(f"{column}_paper")
    # The paper's tables have three digits of NLL.
    return text if theirs is None else f"{text} ({_figure(theirs, 3 if name == 'nll' else digits, points)})"


def _figure(value: float | None, digits: int, points: bool) -> str:
    if isinstance(value, int) or (value is not None and abs(value) >= 1 and value.is_integer()):
        return count(value)
    return number(100 * value if value is not None and points else value, digits)


def _escaped(text: str) -> str:
    for sign in ("\\", "_", "%", "&", "#", "$"):
        text = text.replace(sign, f"\\{sign}" if sign != "\\" else "/")
    return text.replace("≥", "$\\geq$")
