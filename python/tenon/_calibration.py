# SPDX-License-Identifier: Apache-2.0
"""Calibration data: from folders, arrays, iterables and loaders to batches."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

from . import _core
from ._arguments import cast_to_input, refuse
from ._errors import Code, Error, counted
from ._kinds import require_kind


class Calibrator:
    """Where calibration takes its data from. Subclass it with one of the two:

    get_batch(names)   gives an array for each of the inputs' names, in that order, or None at the end
    next_batch()       gives a dict of arrays by input name ("" stands for the only input), or None at the end

    and, to keep a calibration, with read_calibration_cache and write_calibration_cache. Arrays are preprocessed as for
    inference; they are read before the next call, so their memory may be filled again.
    """

    input_names: Sequence[str] = ()

    def get_batch(self, names: Sequence[str]) -> Optional[Sequence[Any]]:
        """The next batch: an array for each name; None or [] at the end."""
        raise NotImplementedError("a Calibrator needs get_batch or next_batch")

    def next_batch(self) -> Optional[Mapping[str, Any]]:
        """The next batch: a dict of arrays; None at the end."""
        values = self.get_batch(list(self.input_names))
        if values is None or len(values) == 0:
            return None
        if len(values) != len(self.input_names):
            raise Error(
                Code.usage,
                "the calibrator gives %s for %s"
                % (counted(len(values), "array"), counted(len(self.input_names), "input")),
                hint="get_batch gives one for each of its names",
            )
        return dict(zip(self.input_names, values))

    def samples(self) -> int:
        """How many samples there will be; 0 where that is not known."""
        return 0

    def names(self) -> Sequence[str]:
        """Of the samples of the last batch, for messages; may be empty."""
        return []

    def preprocessing(self) -> str:
        """How samples are prepared, as text: part of what a cache is checked against."""
        return ""

    def read_calibration_cache(self) -> Optional[bytes]:
        """A calibration written earlier; None for none."""
        return None

    def write_calibration_cache(self, cache: bytes) -> None:
        """Takes the calibration that was made, or read."""


class _Cached(Calibrator):
    """A file as the cache."""

    def __init__(self, cache: Any) -> None:
        self._cache = os.fspath(cache) if cache is not None else ""

    def read_calibration_cache(self) -> Optional[bytes]:
        if not self._cache or not os.path.exists(self._cache):
            return None
        with open(self._cache, "rb") as file:
            return file.read()

    def write_calibration_cache(self, cache: bytes) -> None:
        if not self._cache:
            return
        require_kind(self._cache, "calibration cache")
        temporary = self._cache + ".part"
        with open(temporary, "wb") as file:
            file.write(cache)
        os.replace(temporary, self._cache)


class IterableCalibrator(_Cached):
    """Arrays, tuples or dicts of arrays, as a DataLoader gives them; of tuples the first of as many as inputs."""

    def __init__(self, data: Iterable[Any], inputs: Sequence[_core.TensorInfo], cache: Any = None) -> None:
        super().__init__(cache)
        self._items: Iterator[Any] = iter(data)
        self._inputs = inputs
        self.input_names = [info.name for info in inputs]

    def next_batch(self) -> Optional[Mapping[str, Any]]:
        for item in self._items:
            if isinstance(item, Mapping):
                return {name: self._shaped(item[name], info) for name, info in zip(self.input_names, self._inputs)}
            if not isinstance(item, (tuple, list)):
                item = (item,)
            if len(item) < len(self._inputs):
                raise Error(
                    Code.usage,
                    "the calibration data has %s for %s"
                    % (counted(len(item), "array"), counted(len(self._inputs), "input")),
                    hint="give tuples in the inputs' order, or dicts by name",
                )
            return {info.name: self._shaped(value, info) for info, value in zip(self._inputs, item)}
        return None

    @staticmethod
    def _shaped(value: Any, info: _core.TensorInfo) -> Any:
        """A sample without its batch axis gets one."""
        import numpy

        array = value if hasattr(value, "__dlpack__") else numpy.asarray(value)
        kind = str(getattr(array, "dtype", "")).rpartition(".")[2]
        if (kind, info.dtype) in (("float64", "float32"), ("int64", "int32"), ("int32", "int64")):
            array = cast_to_input(array, info.dtype, info.name)
        return array[None] if len(array.shape) == len(info.shape) - 1 else array


class ImageCalibrator(_Cached):
    """Images of files, one a batch, prepared as for inference."""

    def __init__(self, paths: Sequence[str], name: str, spec: _core.Preprocess, cache: Any = None) -> None:
        super().__init__(cache)
        self._paths, self._at, self._name, self._spec, self._bad = list(paths), 0, name, spec, 0
        self.input_names = [name]

    def samples(self) -> int:
        return len(self._paths)

    def preprocessing(self) -> str:
        return str(self._spec)

    def names(self) -> Sequence[str]:
        return [self._paths[self._at - 1]]

    def next_batch(self) -> Optional[Mapping[str, Any]]:
        while self._at < len(self._paths):
            path = self._paths[self._at]
            self._at += 1
            try:
                image = _core.decode_image(path)
            except Error:
                # One in twenty is bad luck, more is a mistake.
                self._bad += 1
                if 20 * self._bad > len(self._paths):
                    raise
                continue
            return {self._name: _core.prepare([image], self._spec)[0]}
        return None


def _evenly(paths: List[str], count: int) -> List[str]:
    if count <= 0 or count >= len(paths):
        return paths
    return [paths[at * len(paths) // count] for at in range(count)]


def _arrays(paths: Sequence[str], inputs: Sequence[_core.TensorInfo]) -> Iterator[Any]:
    import numpy

    for path in paths:
        array = numpy.load(path, allow_pickle=False)
        if path.endswith(".npz"):
            keys = list(array.keys())
            yield {info.name: array[info.name if info.name in keys else keys[at]] for at, info in enumerate(inputs)}
        else:
            yield array


def _files_of(path: str) -> List[str]:
    if os.path.isdir(path):
        return sorted(os.path.join(path, name) for name in os.listdir(path))
    if os.path.exists(path):
        return [path]
    raise Error(Code.io, "cannot open the calibration data", where=path, why="No such file or directory")


def _array_files(files: Sequence[str]) -> List[str]:
    return [file for file in files if file.endswith((".npy", ".npz"))]


def _of_folder(
    path: str, inputs: Sequence[_core.TensorInfo], spec: Optional[_core.Preprocess], cache: Any, count: int
) -> Calibrator:
    files = _files_of(path)
    arrays = _array_files(files)
    if arrays:
        return IterableCalibrator(_arrays(arrays, inputs), inputs, cache)
    images = _evenly([file for file in files if _core.is_image_name(file)], count)
    if not images:
        raise Error(Code.io, "the folder has no images and no arrays", where=path, hint="give .jpg, .png, .npy or .npz")
    if spec is None:
        raise Error(
            Code.usage,
            "calibration on images needs to know how they become the model's input",
            where=path,
            hint='give preprocess="yolo", "imagenet" or a specification',
        )
    return ImageCalibrator(images, inputs[0].name, spec, cache)


def _resolved(
    preprocess: Optional[str], inputs: Sequence[_core.TensorInfo], shapes: Mapping[str, Sequence[int]]
) -> Optional[_core.Preprocess]:
    if preprocess is None or len(inputs) != 1:
        return None
    return _core.Preprocess(preprocess).resolve(list(shapes.get(inputs[0].name, inputs[0].shape)))


def _sizes_of_images(preprocess: str, stated: Sequence[int]) -> Optional[List[int]]:
    spec = _core.Preprocess(preprocess).resolve(list(stated))
    last = stated[3] in (1, 3) and stated[1] not in (1, 3)
    channels = stated[3 if last else 1] if max(stated[1], stated[3]) > 0 else 3
    if spec.width < 1 or spec.height < 1:
        raise Error(
            Code.usage,
            "neither the model nor the preprocessing says how large images are",
            hint='give it: preprocess="%s,size=WIDTHxHEIGHT"' % preprocess,
        )
    return [1, spec.height, spec.width, channels] if last else [1, channels, spec.height, spec.width]


def _first_array(data: Any, inputs: Sequence[_core.TensorInfo], name: str) -> Any:
    """The first array of the data for an input; None where that is not known without using it up."""
    if isinstance(data, (str, os.PathLike)):
        first = _array_files(_files_of(os.fspath(data)))[:1]
        return _first_array(next(_arrays(first, inputs)), inputs, name) if first else None
    if isinstance(data, (list, tuple)) and data:
        return _first_array(data[0], inputs, name)
    if isinstance(data, Mapping):
        return data.get(name)
    return data if hasattr(data, "shape") else None


def take_sizes(
    data: Any, inputs: Sequence[_core.TensorInfo], shapes: Dict[str, Any], preprocess: Optional[str]
) -> None:
    """Free sizes behind the batch that nobody gave become those of the images or of the first arrays."""
    for info in inputs:
        stated = list(info.shape)
        if info.name in shapes or all(size >= 0 for size in stated[1:]):
            continue
        found: Any = getattr(_first_array(data, inputs, info.name), "shape", None)
        images = preprocess is not None and len(inputs) == 1 and len(stated) == 4
        if found is None and images and isinstance(data, (str, os.PathLike)):
            found = _sizes_of_images(str(preprocess), stated)
        if found is not None and len(found) == len(stated):
            shapes[info.name] = stated[:1] + [own if own >= 0 else int(got) for own, got in zip(stated[1:], found[1:])]


def calibrator_of(
    data: Any,
    inputs: Sequence[_core.TensorInfo],
    shapes: Dict[str, Any],
    preprocess: Optional[str],
    cache: Any,
    count: int,
) -> Calibrator:
    """Whatever build() takes as `calibration`, as a Calibrator."""
    if isinstance(data, Calibrator) or (hasattr(data, "next_batch") and hasattr(data, "write_calibration_cache")):
        if not getattr(data, "input_names", ()):
            data.input_names = [info.name for info in inputs]
        calibrator: Calibrator = data
        return calibrator
    if isinstance(data, (str, os.PathLike)):
        return _of_folder(os.fspath(data), inputs, _resolved(preprocess, inputs, shapes), cache, count)
    if isinstance(data, (bytes, bool)) or not (data is None or hasattr(data, "__iter__") or hasattr(data, "shape")):
        refuse("calibration", data, "a folder, arrays, a DataLoader or another iterable, or a tenon.Calibrator")
    if data is None:
        data = ()
    elif hasattr(data, "shape") and hasattr(data, "dtype"):
        # One array: samples along its first axis; or a single sample.
        data = (data,)
    elif isinstance(data, Mapping):
        data = (data,)
    return IterableCalibrator(data, inputs, cache)
