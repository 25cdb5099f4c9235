# SPDX-License-Identifier: Apache-2.0
"""Rows of results: one for each image, whatever happens to it."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence

from . import _core
from ._errors import Error
from .vision import ImageModel, labels_of

Row = Dict[str, Any]


class RowMaker:
    """Runs an engine on images, and makes a row of each: its boxes, its classes, or its outputs as numbers.

    task: "detect", "classify" or "outputs"; "auto" takes what the outputs look like
    options: those of tenon.open; threads: of a run, 0 for as many as the engine was built for
    """

    def __init__(
        self,
        engine: Any,
        preprocess: Optional[str] = None,
        task: str = "auto",
        labels: Any = None,
        confidence: float = 0.25,
        iou: float = 0.7,
        top: int = 5,
        batch: int = 8,
        **options: Any,
    ) -> None:
        preset = "imagenet" if task == "classify" else "yolo"
        self.model = ImageModel(engine, preprocess, preset, **options)
        self.labels = labels_of(self.model.engine, labels)
        self.task, self.confidence, self.iou, self.top = task, confidence, iou, top
        self.batch = batch if self.model.free else self.model.sizes[0]
        self.head: Any = None

    def rows(self, paths: Sequence[str], contents: Sequence[Optional[bytes]]) -> List[Row]:
        """A row for each path, in order: `error` says why an image could not be read."""
        rows: List[Row] = []
        images, good = [], []
        for path, content in zip(paths, contents):
            row: Row = {"path": path, "error": "", "width": 0, "height": 0, "result": "[]"}
            rows.append(row)
            try:
                image = _core.decode_image(path if content is None else content)
            except Error as error:
                row["error"] = str(error).replace("\n", " ")
                continue
            row["height"], row["width"] = int(image.shape[0]), int(image.shape[1])
            images.append(image)
            good.append(row)
        for at in range(0, len(images), self.batch):
            self._fill(good[at : at + self.batch], images[at : at + self.batch])
        return rows

    def _fill(self, rows: Sequence[Row], images: Sequence[Any]) -> None:
        import json

        outputs, transforms = self.model.run(images)
        if self.task == "auto":
            self.head = self.model.recognise(outputs, self.labels)
            flat = outputs[0].ndim == 2 and len(outputs) == 1
            self.task = "detect" if self.head is not None else "classify" if flat else "outputs"
        if self.task == "detect" and self.head is None:
            self.head = self.model.recognise(outputs, self.labels)
            if self.head is None:
                raise Error(4, "the outputs are not those of a known detector", hint='give task="outputs"')
        self.model.tell_doubts(len(self.labels), self.head.classes if self.head is not None else 0)
        for at, row in enumerate(rows):
            row["result"] = json.dumps(self._result(outputs, at, transforms[at]))

    def _name(self, at: int) -> str:
        return self.labels[at] if at < len(self.labels) and self.labels[at] else str(at)

    def _result(self, outputs: Sequence[Any], at: int, transform: Any) -> List[Any]:
        import numpy

        if self.task == "detect":
            boxes, scores, classes, keypoints, obb, _ = _core.detect(
                self.head, list(outputs), at, transform, self.confidence, self.iou, 300
            )
            found: List[Any] = [
                {
                    "box": [round(float(one), 2) for one in box],
                    "score": round(float(score), 5),
                    "label": self._name(int(kind)),
                }
                for box, score, kind in zip(boxes, scores, classes)
            ]
            for key, parts in (("keypoints", keypoints), ("obb", obb)):
                for one, part in zip(found, [] if parts is None else parts):
                    one[key] = numpy.round(part.astype(float), 4).tolist()
            return found
        if self.task == "classify":
            scores = outputs[0][at].astype(numpy.float64)
            if scores.min() < 0 or abs(scores.sum() - 1) > 1e-3:
                scores = numpy.exp(scores - scores.max())
                scores /= scores.sum()
            best = numpy.argsort(-scores, kind="stable")[: self.top]
            return [{"label": self._name(int(one)), "score": round(float(scores[one]), 5)} for one in best]
        return [one[at].tolist() for one in outputs]


def assigned_threads() -> int:
    """The cores that Ray has given to this worker, so that workers of one machine do not take each other's; 0 outside
    of Ray."""
    import ray

    if not ray.is_initialized():
        return 0
    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))


def images_below(source: str) -> List[str]:
    """Image files of a folder and those below it, sorted; a file itself."""
    if not os.path.exists(source):
        raise Error(8, "cannot open the source", where=source, why="No such file or directory")
    if not os.path.isdir(source):
        return [source]
    found = []
    for folder, folders, names in os.walk(source):
        folders.sort()
        found += [os.path.join(folder, name) for name in names if _core.is_image_name(name)]
    return sorted(found)
