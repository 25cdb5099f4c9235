# SPDX-License-Identifier: Apache-2.0
"""Images and videos in, objects and classes out."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _arguments as check
from . import _coco, _core
from ._errors import Code, Error
from ._images import each, imread as imread, imwrite as imwrite, video as video
from ._logging import logger

Preprocess = _core.Preprocess
VideoWriter = _core.VideoWriter

USUAL_SIDE = 640


class Result:
    """What was found in one image: what Detections and Segments share."""

    place = 1  # in the source, from 1 on

    def __init__(self, names: Sequence[str], image: Any, path: str, frame: int) -> None:
        self.names, self.image, self.path, self.frame = list(names), image, path, frame

    def _label(self, at: int) -> str:
        return self.names[at] if at < len(self.names) and self.names[at] else str(at)

    def _where(self) -> str:
        return (self.path or "image") + (" frame %d" % self.frame if self.frame >= 0 else "")

    def plot(self) -> Any:
        """The image with what was found drawn."""
        raise NotImplementedError

    def save(self, path: Any) -> str:
        """Writes plot() as JPEG or PNG; into a folder under the image's own name."""
        path = str(path)
        if os.path.isdir(path) or not os.path.splitext(path)[1]:
            os.makedirs(path, exist_ok=True)
            stem = os.path.splitext(os.path.basename(self.path))[0] or "image"
            path = os.path.join(str(path), stem + ("_%06d" % self.frame if self.frame >= 0 else "") + ".jpg")
        imwrite(path, self.plot())
        return str(path)

    def _repr_png_(self) -> bytes:
        import io

        from PIL import Image

        stream = io.BytesIO()
        Image.fromarray(self.plot()).save(stream, "PNG")
        return stream.getvalue()


class Detections(Result):
    """The objects of one image.

    boxes:   float32 [n, 4], x1 y1 x2 y2 in pixels of the image, best first
    scores:  float32 [n]
    classes: int32 [n]
    labels:  names of the classes, or their numbers where they have none
    masks:   bool [n, height, width], the pixels of each object; None where the model gives none
    keypoints: float32 [n, K, 3], x y score of each; None where the model gives none
    obb:     float32 [n, 5], cx cy width height angle of oriented boxes, clockwise in radians; None where the model
             gives none. `boxes` enclose them.
    path, frame: where the image is from; frame is -1 for images
    """

    def __init__(
        self,
        boxes: Any,
        scores: Any,
        classes: Any,
        names: Sequence[str],
        image: Any,
        path: str = "",
        frame: int = -1,
        keypoints: Any = None,
        obb: Any = None,
        parts: Optional[List[Tuple[int, int, Any]]] = None,
    ) -> None:
        super().__init__(names, image, path, frame)
        self.boxes = boxes
        self.scores = scores
        self.classes = classes
        self.keypoints = keypoints
        self.obb = obb
        self._parts = parts

    @property
    def masks(self) -> Any:
        if self._parts is None:
            return None
        import numpy

        masks = numpy.zeros((len(self._parts), *self.image.shape[:2]), bool)
        for mask, (left, top, bits) in zip(masks, self._parts):
            mask[top : top + bits.shape[0], left : left + bits.shape[1]] = bits
        return masks

    @property
    def labels(self) -> List[str]:
        return [self._label(int(at)) for at in self.classes]

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        counts: Dict[str, int] = {}
        for label in self.labels:
            counts[label] = counts.get(label, 0) + 1
        found = ", ".join("%d %s" % (count, label) for label, count in counts.items()) or "nothing"
        return "tenon.Detections(%s: %s)" % (self._where(), found)

    def plot(self) -> Any:
        """The image with boxes, names, scores and what else was found drawn: uint8, height x width x 3, RGB."""
        return _core.draw(
            self.image,
            self.boxes.tolist(),
            self.scores.tolist(),
            self.classes.tolist(),
            self.names,
            None if self.keypoints is None else self.keypoints.tolist(),
            None if self.obb is None else self.obb.tolist(),
            self._parts,
        )

    def to_coco(self, image_id: Optional[int] = None) -> List[Dict[str, Any]]:
        """COCO's result entries: bbox is x y width height; masks as "segmentation" (run lengths; of oriented boxes
        their corners), key points as "keypoints" (x y score, one behind the other).

        image_id: else the number that the file is named, or its place in the source. category_id counts from 1, and
        is COCO's own number where the model's classes are COCO's.
        """
        number = _coco.image_id(self.path, self.frame, self.place, image_id)
        entries: List[Dict[str, Any]] = [
            {
                "image_id": number,
                "category_id": _coco.category(int(kind), self.names),
                "bbox": [float(x0), float(y0), float(x1 - x0), float(y1 - y0)],
                "score": float(score),
            }
            for (x0, y0, x1, y1), score, kind in zip(self.boxes, self.scores, self.classes)
        ]
        height, width = self.image.shape[:2]
        for at, entry in enumerate(entries):
            if self._parts is not None:
                counts = _core.run_lengths(self._parts[at], width, height)
                entry["segmentation"] = {"size": [height, width], "counts": counts}
            if self.obb is not None:
                entry["segmentation"] = [_coco.corners(*(float(one) for one in self.obb[at]))]
            if self.keypoints is not None:
                entry["keypoints"] = [float(one) for one in self.keypoints[at].ravel()]
        return entries

    def to_pandas(self) -> Any:
        """A DataFrame: path, frame, x1, y1, x2, y2, score, class, label."""
        import pandas

        columns = {name: self.boxes[:, at] for at, name in enumerate(("x1", "y1", "x2", "y2"))}
        frame = pandas.DataFrame({**columns, "score": self.scores, "class": self.classes, "label": self.labels})
        frame.insert(0, "frame", self.frame)
        frame.insert(0, "path", self.path)
        return frame


class Classes:
    """The classes of one image, best first: `classes`, `scores`, `labels`; `path` and `frame` say where it is from."""

    def __init__(self, classes: List[int], scores: List[float], labels: List[str], path: str, frame: int) -> None:
        self.classes, self.scores, self.labels, self.path, self.frame = classes, scores, labels, path, frame

    def __repr__(self) -> str:
        found = ", ".join("%s %.3f" % pair for pair in zip(self.labels, self.scores))
        return "tenon.Classes(%s: %s)" % (self.path or "image", found)


def labels_of(engine: _core.Engine, labels: Any = None) -> List[str]:
    """Names by class: of a file, a list, or the model's own metadata."""
    if labels is None:
        text = engine.metadata.get("names", "")
        return list(_core.labels_from_metadata(text)) if text else []
    if isinstance(labels, (str, os.PathLike)):
        return list(_core.labels_from_file(os.fspath(labels)))
    if isinstance(labels, Mapping) and all(isinstance(at, int) for at in labels):
        labels = [labels.get(at, "") for at in range(max(labels, default=-1) + 1)]
    names = check.several("labels", labels, "a list of names by class, or their file")
    return [check.text("labels", name, "a list of names by class, or their file") for name in names]


class ImageModel:
    """An engine of one image input with its preprocessing."""

    def __init__(self, engine: Any, preprocess: Union[str, Preprocess, None], preset: str, **options: Any) -> None:
        from . import _build

        self.stated = preprocess is not None
        source = engine if isinstance(engine, _core.Engine) else _build.model_of(engine)
        if isinstance(source, bytes) or (isinstance(source, str) and not _build.is_engine_file(source)):
            inputs = _core.stated_inputs(source)
            options.setdefault("shapes", self._sizes(inputs, preprocess or preset))
        self.engine: _core.Engine = _build.open(engine, **options)
        inputs = self.engine.inputs
        own = _core.told_spec(dict(self.engine.metadata)) or None
        self.stated = self.stated or own is not None
        self.preset, self._told = preset, False
        spec = str(preprocess) if preprocess is not None else own or preset
        sizes = self._sizes(inputs, spec)
        tuned = _core.tuned_shapes(self.engine)
        self.name = inputs[0].name
        self.sizes = list(tuned.get(self.name, sizes[self.name]))
        self.sizes = [size if size > 0 else other for size, other in zip(self.sizes, sizes[self.name])]
        self.free = inputs[0].shape[0] < 0
        self.session = self.engine.session(shapes={self.name: self.sizes}, threads=options.get("threads", 0))
        self.prepare_as(spec)

    def prepare_as(self, spec: str) -> None:
        self.spec = Preprocess(spec).resolve(self.sizes)

    def tell_doubts(self, names: int, classes: int) -> None:
        """Warns, once, where the preprocessing is a guess and where names do not fit the classes."""
        if self._told:
            return
        self._told = True
        if not self.stated:
            logger.warning(
                'the model does not tell how images become its input: taken as "%s", %s; where results look wrong, '
                "give preprocess=%s",
                self.preset,
                self.spec,
                '"yolox" or "imagenet"' if self.preset == "yolo" else '"yolo" or a specification',
            )
        if names and classes > 0 and names != classes:
            what = "the number of labels (%d) is not that of the model's classes (%d): names may be shifted"
            logger.warning(what, names, classes)

    @staticmethod
    def _sizes(inputs: Sequence[_core.TensorInfo], preprocess: Union[str, Preprocess]) -> Dict[str, List[int]]:
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].dtype != "float32":
            raise Error(Code.unsupported, "the model does not take one image", hint="engine.run takes any model")
        sizes = list(inputs[0].shape)
        spec = Preprocess(str(preprocess))
        last = sizes[3] == 3 and sizes[1] != 3
        height, width = spec.height or USUAL_SIDE, spec.width or USUAL_SIDE
        otherwise = [1, height, width, 3] if last else [1, 3, height, width]
        return {inputs[0].name: [size if size > 0 else other for size, other in zip(sizes, otherwise)]}

    @property
    def side(self) -> Tuple[int, int]:
        return self.spec.width, self.spec.height

    def run(self, images: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
        """(outputs, transforms) of a batch; a fixed batch that is larger is filled up with zeros."""
        import numpy

        batch, transforms = _core.prepare(list(images), self.spec)
        wanted = self.sizes[0]
        if not self.free and len(images) < wanted:
            filled = numpy.zeros([wanted, *batch.shape[1:]], numpy.float32)
            filled[: len(images)] = batch
            batch = filled
        values = self.session.run({self.name: batch})
        return list(values.values()), transforms

    def recognise(self, outputs: List[Any], labels: Sequence[str]) -> Optional[_core.Head]:
        """What the outputs mean; None where they are no detector's."""
        names = [info.name for info in self.engine.outputs]
        return _core.recognise(outputs, *self.side, len(labels), dict(self.engine.metadata), names)

    def batches(self, source: Any, size: int) -> Iterator[List[Tuple[str, int, Any]]]:
        size = max(1, check.whole("batch", size)) if self.free else self.sizes[0]
        batch: List[Tuple[str, int, Any]] = []
        for one in each(source):
            batch.append(one)
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch


def detect(
    engine: Any,
    source: Any,
    *,
    confidence: float = 0.25,
    iou: float = 0.7,
    max_detections: int = 300,
    preprocess: Union[str, Preprocess, None] = None,
    labels: Any = None,
    batch: int = 1,
    **options: Any,
) -> Iterator[Detections]:
    """Finds objects: gives a Detections for each image, or frame, of the source, in order.

    engine:  an Engine, its file, or a model, which is built first with `options`
    source:  path of an image, a folder, a video or a list of paths (.txt), or a pattern as "images/*.jpg"; an array
             (uint8, RGB, height x width x 3, or grey), Pillow's image, or an iterable of these
    confidence: least score of a box; iou: overlap above which the weaker box of a class falls
    preprocess: how images become the input; else as the engine was built with, else "yolo"
    labels:  names of the classes, or their file; else those in the model
    batch:   images that run together, where the model's batch is free

    Known are the outputs of YOLOv5 to v11, with masks, key points and oriented boxes, of YOLOX, YOLOv10, UltraFace,
    DETR and RT-DETR, and boxes, labels and scores as torchvision gives them; others raise Error(unsupported).
    """
    confidence = check.number("confidence", confidence, 0.0, 1.0)
    iou = check.number("iou", iou, 0.0, 1.0)
    max_detections = check.whole("max_detections", max_detections)
    model = ImageModel(engine, preprocess, "yolo", **options)
    names = labels_of(model.engine, labels)
    head: Optional[_core.Head] = None
    place = 0
    for images in model.batches(source, batch):
        pixels = [image for _, _, image in images]
        outputs, transforms = model.run(pixels)
        if head is None:
            head = model.recognise(outputs, names)
            if head is None:
                raise Error(
                    Code.unsupported,
                    "the outputs are not those of a known detector",
                    hint="engine.run gives them as arrays",
                )
            if head.kind == "yolox" and not model.stated:
                model.prepare_as("yolox")
                outputs, transforms = model.run(pixels)
            model.tell_doubts(len(names), head.classes)
        for at, (path, frame, image) in enumerate(images):
            boxes, scores, classes, keypoints, obb, parts = _core.detect(
                head, outputs, at, transforms[at], confidence, iou, max_detections
            )
            found = Detections(boxes, scores, classes, names, image, path, frame, keypoints, obb, parts)
            place += 1
            found.place = place
            yield found


def _require_scores(model: ImageModel, outputs: List[Any], names: Sequence[str]) -> None:
    """Raises Error(unsupported) where the outputs are not class scores, and says what they are where that can be
    told."""
    output = outputs[0]
    sizes = tuple(getattr(output, "shape", ()))
    count = output.size // max(sizes[0], 1) if sizes else 0
    # [N,C], also with axes of one element behind or between.
    if str(output.dtype) == "float32" and count >= 2 and count in sizes:
        return
    detector = model.recognise(outputs, names) is not None
    raise Error(
        Code.unsupported,
        "the model is a detector" if detector else "the output holds no class scores",
        where=model.engine.path,
        why="its output is %s %s" % (output.dtype, "x".join(map(str, sizes)) or "scalar"),
        hint="use tenon.detect" if detector else "engine.inspect() shows the outputs; engine.run gives them as arrays",
    )


def classify(
    engine: Any,
    source: Any,
    *,
    top: int = 5,
    preprocess: Union[str, Preprocess, None] = None,
    labels: Any = None,
    batch: int = 1,
    **options: Any,
) -> Iterator[Classes]:
    """Names what images show: gives the `top` classes of each, with probabilities. Arguments as of detect(); images
    become the input as `preprocess` says, else as the engine was built with, else as "imagenet".

    Raises Error(unsupported) where the outputs are not class scores.
    """
    import numpy

    if check.whole("top", top) < 1:
        raise Error(Code.usage, "at least one class must be named", where="top")
    model = ImageModel(engine, preprocess, "imagenet", **options)
    names = labels_of(model.engine, labels)
    doubted = False
    for images in model.batches(source, batch):
        outputs, _ = model.run([image for _, _, image in images])
        _require_scores(model, outputs, names)
        model.tell_doubts(len(names), outputs[0].size // outputs[0].shape[0])
        scores = numpy.asarray(outputs[0], numpy.float64).reshape(outputs[0].shape[0], -1)
        if not (scores.min() >= 0 and numpy.allclose(scores.sum(1), 1, atol=1e-3)):
            scores = numpy.exp(scores - scores.max(1, keepdims=True))
            scores /= scores.sum(1, keepdims=True)
        for at, (path, frame, _) in enumerate(images):
            best = [int(one) for one in numpy.argsort(-scores[at], kind="stable")[:top]]
            if not doubted and scores[at][best[0]] < 2 / scores.shape[1]:
                doubted = True
                text = "%s: the best class has %.4f, hardly more than a guess: is preprocess right?"
                logger.warning(text, path or "an image", scores[at][best[0]])
            named = [names[one] if one < len(names) and names[one] else str(one) for one in best]
            yield Classes(best, [float(scores[at][one]) for one in best], named, path, frame)
