# SPDX-License-Identifier: Apache-2.0
"""What an engine tells of itself: methods of Engine that are written in Python."""

from __future__ import annotations

import html
import os
from typing import Any, Callable, Dict, List, Tuple

from . import _core
from ._arguments import of_why
from ._errors import Code, Error


class Why(Dict[str, Any]):
    """The report of Engine.why(): a dict, whose text is for reading."""

    text: str = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return "<pre>%s</pre>" % html.escape(self.text)


def random_inputs(engine: _core.Engine, seed: int = 1) -> Dict[str, Any]:
    """Random values of the sizes that the engine was tuned for; {} where these are not known."""
    import numpy

    shapes = _core.tuned_shapes(engine)
    generator = numpy.random.default_rng(seed)
    values: Dict[str, Any] = {}
    for info in engine.inputs:
        sizes = shapes.get(info.name, info.shape)
        if any(size < 0 for size in sizes) or info.dtype == "str":
            return {}
        if info.dtype.startswith(("float", "bfloat")):
            kind = info.dtype if info.dtype in ("float16", "float32", "float64") else "float32"
            values[info.name] = generator.standard_normal(sizes).astype(kind)
        elif info.dtype == "bool":
            values[info.name] = generator.integers(0, 2, sizes).astype(bool)
        else:
            values[info.name] = generator.integers(0, 2, sizes).astype(info.dtype)
    return values


def why(engine: _core.Engine, *given: Any) -> Why:
    node, measure, threads, iterations = of_why(*given)
    layers: List[_core.LayerTime] = []
    if measure:
        values = random_inputs(engine)
        if values:
            with engine.session(threads=threads) as session:
                layers = session.profile(values, iterations)
                threads = session.threads
    data, text = _core.why(engine, layers, threads, node)
    report = Why(data)
    report.text = text
    return report


def inspect(engine: _core.Engine) -> Dict[str, Any]:
    data, _ = _core.why(engine, [], 0, "")
    return {
        "device": engine.device,
        "precision": engine.precision,
        "inputs": [describe(info) for info in engine.inputs],
        "outputs": [describe(info) for info in engine.outputs],
        "shapes": _core.tuned_shapes(engine),
        "metadata": engine.metadata,
        "layers": data["steps"],
    }


def describe(info: _core.TensorInfo) -> Dict[str, Any]:
    return {"name": info.name, "dtype": info.dtype, "shape": list(info.shape)}


def reduce(engine: _core.Engine) -> Tuple[Callable[..., Any], Tuple[Any, ...]]:
    if not engine.path:
        raise Error(
            Code.usage,
            "an engine without a file cannot be pickled",
            hint="engine.save(path) first, where others see it",
        )
    from ._build import load

    return load, (os.path.abspath(engine.path), engine.device)


def as_html(engine: _core.Engine) -> str:
    """A table for notebooks: ends, and the costliest steps by the times of the build."""
    facts = inspect(engine)

    def cell(value: Any) -> str:
        return "<td>%s</td>" % html.escape(str(value))

    rows = []
    for kind in ("inputs", "outputs"):
        for info in facts[kind]:
            sizes = " x ".join("?" if size < 0 else str(size) for size in info["shape"]) or "scalar"
            rows.append("<tr>%s%s%s%s</tr>" % (cell(kind[:-1]), cell(info["name"]), cell(info["dtype"]), cell(sizes)))
    layers = [layer for layer in facts["layers"] if (layer.get("us") or 0) > 0]
    layers.sort(key=lambda layer: -float(layer["us"]))
    total = sum(float(layer["us"]) for layer in layers)
    steps = []
    for layer in layers[:8]:
        share = float(layer["us"]) / total
        bar = '<div style="background:#4477aa;height:.7em;width:%dpx"></div>' % round(120 * share)
        steps.append(
            "<tr>%s%s<td style='text-align:right'>%.1f</td><td>%s</td></tr>"
            % (cell(layer.get("name", "")), cell(layer.get("kernel", "")), float(layer["us"]), bar)
        )
    title = "<b>tenon.Engine</b> for %s in %s" % (html.escape(facts["device"]), html.escape(facts["precision"]))
    if engine.path:
        title += " &middot; <code>%s</code>" % html.escape(engine.path)
    text = "<div>%s<table><tr><th></th><th>name</th><th>type</th><th>sizes</th></tr>%s</table>" % (title, "".join(rows))
    if steps:
        text += (
            "<details><summary>%d steps, the costliest</summary><table><tr><th>step</th><th>kernel</th><th>us</th>"
            "<th></th></tr>%s</table></details>" % (len(facts["layers"]), "".join(steps))
        )
    return text + "</div>"
