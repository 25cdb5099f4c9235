# SPDX-License-Identifier: Apache-2.0
"""Images of files, folders, patterns, videos and arrays."""

from __future__ import annotations

import glob
import os
from typing import Any, Iterable, Iterator, List, Tuple

from . import _core
from ._errors import Code, Error

_ENDINGS = "images are .jpg, .jpeg, .png, .bmp, .tif, .tiff and .webp files"


def imread(source: Any) -> Any:
    """The image of a JPEG, PNG, BMP, TIFF or WebP file (or of its bytes), upright: uint8, height x width x 3, RGB."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _core.decode_image(bytes(source))
    return _core.decode_image(os.fspath(source))


def imwrite(path: Any, image: Any) -> None:
    """Writes a uint8 image, height x width x 3, RGB, as JPEG or PNG by the name's ending."""
    _core.encode_image(pixels(image), os.fspath(path))


def video(path: Any) -> Iterator[Any]:
    """The frames of a video: uint8, height x width x 3, RGB."""
    reader = _core.VideoReader(os.fspath(path))
    while True:
        frame = reader.next()
        if frame is None:
            return
        yield frame


def pixels(image: Any) -> Any:
    """An array of pixels of an array or of Pillow's image."""
    import numpy

    if hasattr(image, "convert"):
        image = image.convert("RGB")
    array = numpy.asarray(image)
    if array.dtype.kind == "f":
        raise Error(
            Code.usage,
            "an image has whole numbers of 0 to 255",
            why="it is of %s" % array.dtype,
            hint='give uint8: (image * 255).astype("uint8") where its numbers are 0 to 1',
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim == 2:
        array = numpy.repeat(array[:, :, None], 3, 2)
    return numpy.ascontiguousarray(array, dtype=numpy.uint8)


def _matches(pattern: str) -> List[str]:
    """Images and videos of a pattern, by name."""
    found = [path for path in sorted(glob.glob(pattern)) if os.path.isfile(path)]
    found = [path for path in found if _core.is_image_name(path) or _core.is_video_name(path)]
    if not found:
        raise Error(Code.io, "no image or video matches the pattern", where=pattern, hint=_ENDINGS)
    return found


def _listed(path: str) -> List[str]:
    """The paths in a list, one a line; those that are not there are beside the list."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.rstrip("\r\n ") for line in file]
    if not any(lines):
        raise Error(Code.io, "the list has no images", where=path, hint="a list has a path in each line")
    beside = os.path.dirname(path)
    pairs = [(line, os.path.join(beside, line)) for line in lines if line]
    return [near if os.path.exists(near) and not os.path.exists(line) else line for line, near in pairs]


def _file(path: str) -> Iterator[Tuple[str, int, Any]]:
    """An image, or the frames of a video."""
    if _core.is_video_name(path):
        for at, frame in enumerate(video(path)):
            yield path, at, frame
    else:
        yield path, -1, imread(path)


def each(source: Any) -> Iterator[Tuple[str, int, Any]]:
    """(path, frame or -1, image) of a file, a folder, a list of paths, a video, an array, or an iterable of these."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if os.path.isdir(path):
            names = [name for name in sorted(os.listdir(path)) if _core.is_image_name(name)]
            if not names:
                raise Error(Code.io, "the folder has no images", where=path, hint=_ENDINGS)
            for name in names:
                yield os.path.join(path, name), -1, imread(os.path.join(path, name))
        elif glob.has_magic(path) and not os.path.exists(path):
            for one in _matches(path):
                yield from _file(one)
        elif path.endswith(".txt") and os.path.isfile(path):
            for one in _listed(path):
                yield from _file(one)
        else:
            yield from _file(path)
    elif hasattr(source, "convert") or (hasattr(source, "shape") and len(source.shape) in (2, 3)):
        yield getattr(source, "filename", "") or "", -1, pixels(source)
    elif hasattr(source, "shape") and len(source.shape) == 4:
        for image in source:
            yield "", -1, pixels(image)
    elif isinstance(source, Iterable) and not isinstance(source, (bytes, bytearray)) and not hasattr(source, "shape"):
        for one in source:
            yield from each(one)
    else:
        raise Error(
            Code.usage,
            "no image can be made of %s" % type(source).__name__,
            why="its sizes are %s" % list(source.shape) if hasattr(source, "shape") else "",
            hint="give a path, a pattern, an array of height x width x 3, or several of these",
        )
