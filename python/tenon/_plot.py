# SPDX-License-Identifier: Apache-2.0
"""The results of a benchmark as plots, and as one page."""

from __future__ import annotations

import base64
import html
import json
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._errors import Code, Error

# Okabe and Ito's colours, which the colour-blind can tell apart; by the kind of contender.
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]
HATCHES = ["", "//", "..", "xx", "\\\\", "--", "++", "oo"]
# What plots call the contenders that are no engines of Tenon.
OTHERS = {"pytorch": "PyTorch", "onnxruntime": "ONNX Runtime"}

Row = Dict[str, Any]


def read(path: str) -> Dict[str, Any]:
    """A file of `tenon bench --pytorch-model --output`. Raises Error(usage) for another."""
    with open(path, encoding="utf-8") as file:
        try:
            report: Dict[str, Any] = json.load(file)
        except ValueError as error:
            raise Error(Code.usage, "the file is no JSON", where=path, why=str(error)) from None
    if not isinstance(report, dict) or not str(report.get("format", "")).startswith("tenon benchmark"):
        raise Error(
            Code.usage,
            "the file holds no benchmark",
            where=path,
            hint="tenon bench --pytorch-model NAME --engines FOLDER --output FILE writes one",
        )
    if not [row for row in report.get("results", []) if "error" not in row]:
        raise Error(Code.usage, "the benchmark has no results", where=path)
    return report


class _Results:
    """Rows by contender and batch, with a colour each."""

    def __init__(self, report: Dict[str, Any]) -> None:
        self.rows: List[Row] = [row for row in report["results"] if "error" not in row]
        self.names: List[str] = []
        for row in self.rows:
            if row["name"] not in self.names:
                self.names.append(row["name"])
        self.batches = sorted({row["batch"] for row in self.rows})
        self.label = {row["name"]: label_of(row) for row in self.rows}
        self.style = {
            name: (PALETTE[at % len(PALETTE)], HATCHES[at % len(HATCHES)]) for at, name in enumerate(self.names)
        }

    def of(self, name: str, batch: int) -> Optional[Row]:
        for row in self.rows:
            if row["name"] == name and row["batch"] == batch:
                return row
        return None


def label_of(row: Row) -> str:
    """Whose it is, and which: an engine's file has any name."""
    name = str(row["name"])
    if row.get("kind") == "tenon":
        return name if "tenon" in name.lower() else "Tenon " + name
    for own, label in OTHERS.items():
        if name.startswith(own):
            return label + name[len(own) :].replace("cuda", "CUDA")
    return name


def short(value: float) -> str:
    """Three figures, without powers of ten as far as they can be read."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return "{:,.0f}".format(value)
    if abs(value) >= 100:
        return "%.0f" % value
    if abs(value) >= 10:
        return "%.1f" % value
    return "%.2f" % value if abs(value) >= 0.01 else "%.1e" % value


def _bars(results: _Results, title: str, unit: str, value: Callable[[Row], Optional[float]], better: str) -> Any:
    """Grouped bars: a group for each batch, a bar for each contender, with the value on it."""
    from matplotlib.figure import Figure

    names, batches = results.names, results.batches
    found = {(name, batch): results.of(name, batch) for name in names for batch in batches}
    numbers = {key: value(row) for key, row in found.items() if row is not None}
    if not any(number is not None for number in numbers.values()):
        return None
    count = len(names) * len(batches)
    figure = Figure(figsize=(min(16, max(7, 0.62 * count + 2.5)), 4.8), layout="constrained")
    axes = figure.add_subplot()
    width = 0.84 / len(names)
    most = max(number for number in numbers.values() if number is not None)
    for at, name in enumerate(names):
        colour, hatch = results.style[name]
        places = [group - 0.42 + width * (at + 0.5) for group in range(len(batches))]
        heights = [numbers.get((name, batch)) for batch in batches]
        drawn = [height or 0 for height in heights]
        look: Dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
        axes.bar(places, drawn, width * 0.92, label=results.label[name], **look)
        for place, height in zip(places, heights):
            if height is not None:
                axes.annotate(
                    short(height),
                    (place, height),
                    ha="center",
                    va="bottom",
                    fontsize=8,
                    rotation=90 if count > 14 else 0,
                    xytext=(0, 2),
                    textcoords="offset points",
                )
    axes.set_ylim(0, most * (1.22 if count > 14 else 1.12))
    _finish(axes, title, unit, better)
    axes.set_xticks(range(len(batches)), ["batch %d" % batch for batch in batches])
    _legend_below(figure, axes)
    return figure


def _legend_below(figure: Any, axes: Any) -> None:
    """In one row where the figure is wide enough, else in rows of three."""
    handles, labels = axes.get_legend_handles_labels()
    inches = sum(0.6 + 0.07 * len(label) for label in labels)
    columns = len(labels) if inches < figure.get_size_inches()[0] - 0.5 else 3
    figure.legend(handles, labels, fontsize=8, ncols=columns, frameon=False, loc="outside lower center")


def _latency(results: _Results) -> Any:
    """A panel for each batch, as their times differ by far: the median as a bar, the 99th percentile above it."""
    from matplotlib.figure import Figure

    names, batches = results.names, results.batches
    width = max(2.6, 0.55 * len(names) + 0.9)
    figure = Figure(figsize=(max(6.5, width * len(batches)), 4.8), layout="constrained")
    panels = figure.subplots(1, len(batches), squeeze=False)[0]
    for axes, batch in zip(panels, batches):
        most = 0.0
        for at, name in enumerate(names):
            colour, hatch = results.style[name]
            row = results.of(name, batch)
            median = row["latency_ms"]["p50"] if row else 0
            tail = max(median, row["latency_ms"].get("p99", median)) if row else 0
            label = results.label[name]
            axes.bar(at, median, 0.86, label=label, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
            if row:
                axes.plot([at, at], [median, tail], color="#444444", linewidth=1.2, marker="_", markevery=[1])
                where: Dict[str, Any] = {"xy": (at, median), "xytext": (0, 3), "textcoords": "offset points"}
                ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
                axes.annotate(short(median), ha="center", va="bottom", fontsize=8, bbox=ground, zorder=4, **where)
            most = max(most, tail)
        axes.set_ylim(0, most * 1.15)
        _finish(axes, "batch %d" % batch, "ms" if axes is panels[0] else "", "")
        axes.set_xticks([])
    title = "Latency: median, and a line to the 99th percentile (less is better)"
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    _legend_below(figure, panels[0])
    return figure


def _finish(axes: Any, title: str, unit: str, better: str) -> None:
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_title(better, loc="right", fontsize=9, color="#555555")
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _size(results: _Results) -> Any:
    """A bar for each contender."""
    from matplotlib.figure import Figure

    sizes: List[Tuple[str, float]] = []
    for name in results.names:
        row = next(row for row in results.rows if row["name"] == name)
        if row.get("model_bytes"):
            sizes.append((name, row["model_bytes"] / 1e6))
    if not sizes:
        return None
    figure = Figure(figsize=(7, 0.45 * len(sizes) + 1.6), layout="constrained")
    axes = figure.add_subplot()
    for at, (name, size) in enumerate(reversed(sizes)):
        colour, hatch = results.style[name]
        axes.barh(at, size, 0.7, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
        axes.annotate(short(size), (size, at), va="center", xytext=(4, 0), textcoords="offset points", fontsize=8)
    axes.set_yticks(range(len(sizes)), [results.label[name] for name, _ in reversed(sizes)])
    axes.set_xlim(0, max(size for _, size in sizes) * 1.12)
    _finish(axes, "Size of the model", "", "less is better")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("MB on disk, or of weights in PyTorch")
    return figure


def _accuracy(results: _Results) -> Any:
    """Fidelity to PyTorch against time, at the smallest batch that a contender has."""
    from matplotlib.figure import Figure

    points: List[Tuple[str, float, float]] = []
    for name in results.names:
        rows = [row for row in results.rows if row["name"] == name and "fidelity" in row]
        if rows:
            row = min(rows, key=lambda one: int(one["batch"]))
            points.append((name, row["latency_ms"]["p50"] / row["batch"], row["fidelity"]["relative_error"]))
    if not points:
        return None
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.add_subplot()
    floor = 1e-8
    for at, (name, latency, error) in enumerate(points):
        colour, _ = results.style[name]
        axes.scatter(
            [latency], [max(error, floor)], s=70, color=colour, marker="osD^vP*X"[at % 8], zorder=3,
            label=results.label[name],
        )
    axes.set_yscale("log")
    axes.set_ylim(floor / 3, 3 * max(1e-3, max(error for _, _, error in points)))
    axes.set_xlim(0, 1.15 * max(latency for _, latency, _ in points))
    axes.axhspan(floor / 3, floor, color="#eeeeee", zorder=0)
    axes.annotate("exact", (0, floor / 2.6), xytext=(4, 0), textcoords="offset points", fontsize=8, color="#555555")
    _finish(axes, "Difference to PyTorch against time", "relative error of the outputs", "lower left is better")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_xlabel("ms per image, at the smallest batch")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _speedup(results: _Results) -> Any:
    base = {row["batch"]: row["latency_ms"]["p50"] for row in results.rows if row["name"] == "pytorch"}
    return _bars(
        results,
        "Speed-up over PyTorch eager",
        "times as fast",
        lambda row: base[row["batch"]] / row["latency_ms"]["p50"] if row["batch"] in base else None,
        "more is better",
    )


def figures(report: Dict[str, Any]) -> Dict[str, Any]:
    """matplotlib figures by name; those that the results have no numbers for are left out."""
    results = _Results(report)
    on_gpu = any(row.get("gpu_memory_bytes") for row in results.rows)
    memory = "gpu_memory_bytes" if on_gpu else "memory_bytes"
    made = {
        "latency": _latency(results),
        "throughput": _bars(
            results, "Throughput", "images per second", lambda row: float(row["throughput"]), "more is better"
        ),
        "memory": _bars(
            results,
            "Peak memory of the GPU" if on_gpu else "Peak memory beyond the framework's own",
            "MB",
            lambda row: row[memory] / 1e6 if row.get(memory) is not None else None,
            "less is better",
        ),
        "size": _size(results),
        "speedup": _speedup(results),
        "accuracy": _accuracy(results),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def plot(results: str, output: str) -> List[str]:
    """Writes PNG and SVG of each figure, and index.html with all of them, into a folder; gives the paths."""
    report = read(results)
    os.makedirs(output, exist_ok=True)
    paths: List[str] = []
    images: List[Tuple[str, str]] = []
    for name, figure in figures(report).items():
        for ending in ("png", "svg"):
            path = os.path.join(output, "%s.%s" % (name, ending))
            figure.savefig(path, dpi=150, metadata={"Date": None} if ending == "svg" else None)
            paths.append(path)
        with open(paths[-2], "rb") as file:
            images.append((name, base64.b64encode(file.read()).decode()))
    page = os.path.join(output, "index.html")
    with open(page, "w", encoding="utf-8") as file:
        file.write(_page(report, images))
    return [*paths, page]


def _page(report: Dict[str, Any], images: Sequence[Tuple[str, str]]) -> str:
    """One file with everything in it."""

    def cells(values: Sequence[Any], tag: str = "td") -> str:
        return "<tr>%s</tr>" % "".join("<%s>%s</%s>" % (tag, html.escape(str(value)), tag) for value in values)

    rows = [cells(["", "batch", "mean ms", "p50", "p90", "p99", "images/s", "model MB", "relative error"], "th")]
    for row in report["results"]:
        if "error" in row:
            rows.append(cells([label_of(row), row["batch"], row["error"]]))
            continue
        latency = row["latency_ms"]
        rows.append(
            cells(
                [
                    label_of(row),
                    row["batch"],
                    *("%.3f" % latency[key] for key in ("mean", "p50", "p90", "p99")),
                    short(row["throughput"]),
                    short((row.get("model_bytes") or 0) / 1e6),
                    "%.2g" % row["fidelity"]["relative_error"] if "fidelity" in row else "",
                ]
            )
        )
    facts = "".join(cells([key, value]) for key, value in report["environment"].items())
    plots = "".join(
        '<figure><img alt="%s" src="data:image/png;base64,%s"></figure>' % (name, data) for name, data in images
    )
    return """<!doctype html><html lang="en"><meta charset="utf-8"><title>Benchmark of %s</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
img{max-width:100%%}table{border-collapse:collapse;font-size:13px}td,th{padding:.2em .7em;text-align:right;
border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}figure{margin:2em 0}</style>
<h1>Benchmark of %s</h1><p>%d timed runs of each after %d for warm-up, in turn, on the same inputs.</p>
%s<h2>Numbers</h2><table>%s</table><h2>Machine and versions</h2><table>%s</table></html>
""" % (
        html.escape(report["model"]),
        html.escape(report["model"]),
        report["iterations"],
        report["warmup"],
        plots,
        "".join(rows),
        facts,
    )
