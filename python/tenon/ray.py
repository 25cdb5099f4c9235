# SPDX-License-Identifier: Apache-2.0
"""Many machines, by Ray Data:

ds = ray.data.read_binary_files(folder, include_paths=True)
ds.map_batches(tenon.ray.Predictor, fn_constructor_kwargs={"engine": "model.tenon", "preprocess": "yolo"},
               concurrency=4)
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from ._rows import RowMaker, assigned_threads


class Predictor:
    """A worker of map_batches: loads the engine once, and gives one row for each row, bad images included.

    engine:  file of the engine, as the workers see it
    column:  holds the image: its bytes, an array, or its path; else "bytes", "image" or "path", whichever is there
    options: those of RowMaker: preprocess, task, labels, confidence, iou, top, batch; and of tenon.open. A run takes
             the cores that Ray gives the worker, unless `threads` says otherwise

    Columns that come in stay, but that of the image's bytes; `error`, `width`, `height` and `result`, as JSON, join.
    """

    def __init__(self, engine: Any, column: Optional[str] = None, **options: Any) -> None:
        options.setdefault("threads", assigned_threads())
        self._make = RowMaker(engine, **options)
        self._column = column

    def __call__(self, batch: Dict[str, Any]) -> Dict[str, Any]:
        import numpy

        column = self._column or next((name for name in ("bytes", "image", "path") if name in batch), "")
        if column not in batch:
            raise KeyError("the rows have no column %r; there are: %s" % (column or "bytes", ", ".join(batch)))
        values = list(batch[column])
        paths = [str(path) for path in batch["path"]] if "path" in batch else [""] * len(values)
        if column == "path":
            rows = self._make.rows(paths, [None] * len(paths))
        elif values and hasattr(values[0], "ndim") and values[0].ndim == 3:
            rows = self._of_arrays(paths, values)
        else:
            rows = self._make.rows(paths, [bytes(value) for value in values])
        result = {name: value for name, value in batch.items() if name != column or column == "path"}
        for name in ("error", "width", "height", "result"):
            result[name] = numpy.array([row[name] for row in rows])
        return result

    def _of_arrays(self, paths: Any, images: Any) -> Any:
        from ._images import pixels as pixels_of

        rows = [
            {"path": path, "error": "", "width": image.shape[1], "height": image.shape[0], "result": "[]"}
            for path, image in zip(paths, images)
        ]
        pixels = [pixels_of(image) for image in images]
        for at in range(0, len(rows), self._make.batch):
            self._make._fill(rows[at : at + self._make.batch], pixels[at : at + self._make.batch])
        return rows
