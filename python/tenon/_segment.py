# SPDX-License-Identifier: Apache-2.0
"""What each pixel shows."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from . import _coco, _core
from ._errors import Code, Error
from .vision import ImageModel, Preprocess, Result, labels_of


class Segments(Result):
    """The classes of an image's pixels.

    map:     uint16 [height, width], the class of each pixel
    classes: the classes that there are, largest first
    shares:  how much of the image each of them takes, 0 to 1
    labels:  names of the classes, or their numbers where they have none
    path, frame: where the image is from; frame is -1 for images
    """

    def __init__(
        self, map: Any, names: Sequence[str], image: Any, path: str = "", frame: int = -1, kind: str = ""
    ) -> None:
        super().__init__(names, image, path, frame)
        self.map = map
        self.kind = kind
        pixels = _core.class_pixels(map)
        self.classes: List[int] = [at for at, _ in pixels]
        self.shares: List[float] = [count / map.size for _, count in pixels]

    @property
    def labels(self) -> List[str]:
        return [self._label(at) for at in self.classes]

    def mask(self, which: Union[int, str]) -> Any:
        """bool [height, width], the pixels of a class, given by number or name. Raises Error(usage) for a name that
        the model has not."""
        if isinstance(which, str):
            if which not in self.names:
                raise Error(Code.usage, 'no class is called "%s"' % which, hint="labels gives the names")
            which = self.names.index(which)
        return self.map == which

    def __len__(self) -> int:
        return len(self.classes)

    def __repr__(self) -> str:
        parts = ", ".join("%s %.1f %%" % (label, 100 * share) for label, share in zip(self.labels, self.shares))
        return "tenon.Segments(%s: %s)" % (self._where(), parts)

    def plot(self) -> Any:
        """The image coloured by class, with a legend: uint8, height x width x 3, RGB."""
        return _core.draw_segments(self.image, self.map, self.names)

    def to_coco(self, image_id: Optional[int] = None) -> List[Dict[str, Any]]:
        """COCO's entries: "segmentation" the pixels of a class as run lengths, "area" their number; numbers of images
        and classes as Detections.to_coco gives them."""
        height, width = self.map.shape
        number = _coco.image_id(self.path, self.frame, self.place, image_id)
        return [
            {
                "image_id": number,
                "category_id": _coco.category(at, self.names),
                "segmentation": {"size": [height, width], "counts": _core.class_run_lengths(self.map, at)},
                "score": 1.0,
                "area": round(share * self.map.size),
            }
            for at, share in zip(self.classes, self.shares)
        ]

    def to_pandas(self) -> Any:
        """A DataFrame: path, frame, class, label, share."""
        import pandas

        frame = pandas.DataFrame({"class": self.classes, "label": self.labels, "share": self.shares})
        frame.insert(0, "frame", self.frame)
        frame.insert(0, "path", self.path)
        return frame


def segment(
    engine: Any,
    source: Any,
    *,
    preprocess: Union[str, Preprocess, None] = None,
    labels: Any = None,
    batch: int = 1,
    **options: Any,
) -> Iterator[Segments]:
    """Names what each pixel shows: gives a Segments for each image, or frame, of the source, in order.

    Arguments are those of detect(); images become the input as the engine was built with, else as "imagenet_resize".

    Outputs may be scores of each class for each pixel, in any size, one score for each pixel, or classes; others raise
    Error(unsupported). Masks of single objects come from detect().
    """
    model = ImageModel(engine, preprocess, "imagenet_resize", **options)
    names = labels_of(model.engine, labels)
    ends = [info.name for info in model.engine.outputs]
    head: Optional[_core.MapHead] = None
    place = 0
    for images in model.batches(source, batch):
        outputs, transforms = model.run([image for _, _, image in images])
        if head is None:
            head = _core.recognise_map(outputs, *model.side, len(names), ends)
            if head is None:
                raise Error(
                    Code.unsupported,
                    "the outputs do not give a class for each pixel",
                    hint="tenon.detect and tenon.classify take other models; engine.run gives arrays",
                )
            model.tell_doubts(0, 0)
        for at, (path, frame, image) in enumerate(images):
            found = Segments(_core.segment(head, outputs, at, transforms[at]), names, image, path, frame, head.kind)
            place += 1
            found.place = place
            yield found
