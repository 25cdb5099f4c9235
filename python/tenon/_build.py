# SPDX-License-Identifier: Apache-2.0
"""From models to engines."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _arguments as check
from . import _core
from ._errors import Code, Error
from ._kinds import not_an_engine, not_an_engine_file, refuse_engine

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[str, float, float], Optional[bool]]
Carried = Union[Mapping[str, str], Iterable[Tuple[str, str]]]


def model_of(model: Any) -> Union[str, bytes]:
    """A path, or the bytes of a model: of a buffer, or of an onnx.ModelProto."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return bytes(model.SerializeToString())
    raise Error(
        Code.usage,
        "no model can be made of %s" % type(model).__name__,
        hint="give a path, bytes or an onnx.ModelProto; of a torch.nn.Module: tenon.export",
    )


class _Bar:
    """Progress by tqdm, a bar for each stage; plain lines of the log where tqdm is not installed."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self._make: Any = tqdm
        self._bar: Any = None
        self._stage = ""

    def __call__(self, stage: str, done: float, seconds_left: float) -> None:
        if self._make is None:
            return
        if stage != self._stage:
            self.close()
            self._stage = stage
            self._bar = self._make(total=100, desc=stage, bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}")
        self._bar.update(round(100 * done) - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _profiles(profiles: Iterable[Any]) -> List["_core.Profile"]:
    """Each a Profile, or a dict of (least, best, most) sizes by input."""
    expected = "a list of tenon.Profile, or of dicts of (least, best, most) sizes by input"
    made = []
    for one in check.several("profiles", profiles, expected):
        if not isinstance(one, _core.Profile):
            if not isinstance(one, Mapping):
                check.refuse("profiles", one, expected)
            for name, three in one.items():
                if isinstance(three, (str, bytes)) or not hasattr(three, "__len__") or len(three) != 3:
                    check.refuse("profiles[%r]" % name, three, "(least, best, most) sizes of the input")
            least, best, most = (
                {name: check.sizes("profiles[%r]" % name, sizes[at]) for name, sizes in one.items()} for at in range(3)
            )
            one = _core.Profile(best, least, most)
        made.append(one)
    return made


def _pairs(state: Carried) -> List[Tuple[str, str]]:
    expected = "the input that takes each carried value, by the output that gives it"
    pairs = list(state.items()) if isinstance(state, Mapping) else check.several("state", state, expected)
    if any(isinstance(one, str) or not hasattr(one, "__len__") or len(one) != 2 for one in pairs):
        check.refuse("state", state, expected)
    return [(str(output), str(taken)) for output, taken in pairs]


# Options of build() that are words, and what they may be.
_WORDS = {
    "precision": '"fp32", "tf32", "fp16", "bf16", "int8", "fp8" or "best"',
    "device": check.DEVICES,
    "method": '"auto", "minmax", "percentile", "mse", "entropy" or "entropy-legacy"',
    "objective": '"latency" or "size"',
    "weights": '"given", "int8" or "int4"',
}


def _plain(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of build() that the compiled module takes under their own names."""
    options: Dict[str, Any] = {name: check.text(name, given[name], words) for name, words in _WORDS.items()}
    options.update({name: check.flag(name, given[name]) for name in ("strict", "vendor", "lenient")})
    options.update({name: check.whole(name, given[name]) for name in ("threads", "calibration_batch", "weight_block")})
    options.update({name: check.size(name, given[name]) for name in ("workspace", "max_memory")})
    for name in ("max_error", "max_drop"):
        options[name] = None if given[name] is None else check.number(name, given[name])
    options["percentile"] = check.number("percentile", given["percentile"], 50.0, 100.0)
    if given["accuracy"] is not None and not callable(given["accuracy"]):
        check.refuse("accuracy", given["accuracy"], "a function of an engine that gives points")
    options["accuracy"] = given["accuracy"]
    return options


def _budget(budget: Any) -> float:
    return -1.0 if budget is None else check.seconds("budget", budget)


def _options(given: Mapping[str, Any]) -> Dict[str, Any]:
    """From the arguments of build() to what the compiled module takes."""
    if given["effort"] not in ("normal", "high"):
        raise Error(Code.usage, '"%s" is not an effort' % given["effort"], hint="give normal or high")
    entries = check.texts("metadata", given["metadata"])
    if given["preprocess"] is not None:
        entries["tenon.preprocess"] = str(_core.Preprocess(str(given["preprocess"])))
    return {
        **_plain(given),
        "shapes": check.shapes("shapes", given["shapes"]),
        "profiles": _profiles(given["profiles"]),
        "state": _pairs(given["state"]),
        "calibration_count": check.whole("max_samples", given["max_samples"]),
        "reconstruct": given["effort"] == "high",
        "keep": check.texts("keep", given["keep"]),
        "budget": _budget(given["budget"]),
        "timing_cache": check.path("timing_cache", given["timing_cache"]),
        "external_root": check.path("external_root", given["external_root"]),
        "metadata": entries,
        "skip_passes": check.several("skip_passes", given["skip_passes"], "a list of the names of passes"),
    }


def _add_calibrator(options: Dict[str, Any], source: Any, given: Mapping[str, Any]) -> None:
    from ._calibration import calibrator_of, take_sizes

    inputs = _core.stated_inputs(source, os.fspath(given["external_root"]), given["lenient"])
    spec = options["metadata"].get("tenon.preprocess")
    if not options["profiles"]:
        take_sizes(given["calibration"], inputs, options["shapes"], spec)
    options["calibrator"] = calibrator_of(
        given["calibration"], inputs, options["shapes"], spec, given["calibration_cache"], given["max_samples"]
    )


def build(
    model: Any,
    *,
    precision: str = "fp32",
    device: str = "cpu",
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    profiles: Iterable[Any] = (),
    state: Carried = (),
    calibration: Any = None,
    preprocess: Union[str, "_core.Preprocess", None] = None,
    calibration_cache: Optional[Path] = None,
    method: str = "auto",
    percentile: float = 99.99,
    max_samples: int = 0,
    calibration_batch: int = 0,
    max_error: Optional[float] = None,
    effort: str = "normal",
    keep: Optional[Mapping[str, str]] = None,
    objective: str = "latency",
    weights: str = "given",
    weight_block: int = 32,
    accuracy: Optional[Callable[[_core.Engine], float]] = None,
    max_drop: Optional[float] = None,
    threads: int = 0,
    budget: Union[float, str, None] = None,
    timing_cache: Path = "",
    workspace: Union[int, str] = 0,
    max_memory: Union[int, str] = 0,
    strict: bool = False,
    vendor: bool = True,
    lenient: bool = False,
    external_root: Path = "",
    metadata: Optional[Mapping[str, str]] = None,
    skip_passes: Iterable[str] = (),
    progress: Union[bool, Progress] = False,
) -> _core.Engine:
    """Builds an engine for this machine.

    model:         path of an ONNX file, its bytes, or an onnx.ModelProto
    precision:     "fp32", "tf32", "fp16", "bf16", "int8", "fp8", or "best": the fastest by measurement
    device:        "cpu", "cuda" or "cuda:N"
    shapes:        sizes of inputs that the model leaves free, by input; a missing batch is 1
    profiles:      ranges of sizes that it is for, each tuned at its best ones: Profiles, or dicts of (least, best,
                   most) sizes by input; sizes outside all of them are then refused
    state:         values that live from run to run: the input that takes each, by the output that gives it; see State
    calibration:   data for int8 and fp8: a folder of images (with `preprocess`), of .npy or .npz files; an array; any
                   iterable of arrays, tuples or dicts, such as a DataLoader; or a Calibrator
    preprocess:    how images become the input, such as "yolo" or "imagenet"; the engine keeps it
    calibration_cache: file that the calibration is read from where it fits, and else written to
    method:        "auto", "minmax", "percentile", "mse", "entropy" or "entropy-legacy"
    max_samples:   samples of the data to use at most; 0: all
    max_error:     relative squared error at the outputs above which layers stay in floating point
    effort:        "high" rounds weights one by one, which takes longer
    keep:          precisions of ONNX nodes, "fp32" or "int8", by node
    objective:     "latency", or "size" for the fewest bytes of weights
    weights:       "int8" or "int4": weights of large products as integers in blocks, data in floating point
    weight_block:  weights of one output that share a scale: 16 to 256, a power of two
    accuracy:      a function of an engine that gives points of a metric, 0 to 100; the engine chosen is the fastest
                   found that loses at most `max_drop` of them
    threads:       0: the cores this process may use
    budget:        seconds for tuning, or "5s"; None: until every tactic is measured, 0: none
    timing_cache:  file; "" is the user's cache folder, "-" is none
    workspace, max_memory: bytes, or "1G"; 0: no limit of its own
    progress:      True for a bar (tqdm), or a function of (stage, share done, seconds left), which cancels by False

    Raises Error: usage, invalid_model, unsupported, resource, io.
    """
    given = dict(locals())
    source = model_of(model)
    refuse_engine(source)
    options = _options(given)
    if calibration is not None or calibration_cache is not None:
        _add_calibrator(options, source, given)
    return _with_progress(progress, options, lambda: _core.build(source, options))


def _with_progress(
    progress: Union[bool, Progress], options: Dict[str, Any], work: Callable[[], _core.Engine]
) -> _core.Engine:
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        check.refuse("progress", progress, "True, False or a function of (stage, share done, seconds left)")
    bar = _Bar() if progress is True else None
    options["progress"] = bar if bar is not None else (progress or None)
    try:
        return work()
    finally:
        if bar is not None:
            bar.close()


def retune(
    engine: _core.Engine,
    *,
    device: Optional[str] = None,
    precision: Optional[str] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    threads: int = 0,
    budget: Union[float, str, None] = None,
    timing_cache: Path = "",
    progress: Union[bool, Progress] = False,
) -> _core.Engine:
    """The engine with its kernels timed anew, for another device or other sizes. Options are those of build()."""
    if not isinstance(engine, _core.Engine):
        check.refuse("engine", engine, "a tenon.Engine")
    options: Dict[str, Any] = {
        "device": engine.device if device is None else check.text("device", device, _WORDS["device"]),
        "precision": engine.precision if precision is None else check.text("precision", precision, _WORDS["precision"]),
        "shapes": check.shapes("shapes", shapes),
        "threads": check.whole("threads", threads),
        "budget": _budget(budget),
        "timing_cache": check.path("timing_cache", timing_cache),
    }
    return _with_progress(progress, options, lambda: _core.retune(engine, options))


def load(engine: Any, device: str = "") -> _core.Engine:
    """Loads an engine: from its file, or from bytes that serialize() gave. Every byte is checked before use.

    device: where to run it, other than where it was built for.
    Raises Error: bad_engine, io.
    """
    check.text("device", device, _WORDS["device"])
    if isinstance(engine, (str, os.PathLike)):
        path = os.fspath(engine)
        fault = not_an_engine_file(path)
        if fault is not None:
            raise fault
        loaded = _core.load_path(path)
    else:
        try:
            head = bytes(memoryview(engine).cast("B")[:64])
        except TypeError:
            check.refuse("engine", engine, "the path of an engine's file, or its bytes")
        fault = not_an_engine(head, "")
        if fault is not None:
            raise fault
        loaded = _core.load_bytes(engine)
    return loaded.on(device) if device and device != loaded.device else loaded


def session(
    model_or_engine: Any,
    *,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    threads: int = 0,
    profile: Optional[str] = None,
    state: Union[Carried, "_core.State", None] = None,
    **options: Any,
) -> _core.Session:
    """A session of an engine (or its file), or of a model, which is built first with `options`.

    profile: the name of the profile whose sizes alone it takes
    state:   a State; or, of a model, the input that takes each carried value by the output that gives it: the session
             then begins with a fresh State
    """
    own = state if isinstance(state, _core.State) else None
    if state is not None and not isinstance(state, _core.State):
        options["state"] = _pairs(state)
    check.whole("threads", threads)
    engine = open(model_or_engine, shapes=shapes, threads=threads, **options)
    if options.get("state"):
        own = engine.state()
    sizes = {} if profile is not None else check.shapes("shapes", shapes)
    return engine.session(threads=threads, shapes=sizes, profile=profile, state=own)


def open(model_or_engine: Any, **options: Any) -> _core.Engine:
    """The engine itself, load() of an engine's file, or build() of a model with `options`."""
    if isinstance(model_or_engine, _core.Engine):
        return model_or_engine
    if isinstance(model_or_engine, (str, os.PathLike)) and is_engine_file(model_or_engine):
        return load(model_or_engine, options.get("device", ""))
    return build(model_or_engine, **options)


def run(model_or_engine: Any, inputs: Mapping[str, Any], **options: Any) -> Dict[str, Any]:
    """One run of an engine, or of a model that is built first without tuning: for trying out. Arrays by name.

    Options are those of build(), `budget` is 0 unless given.
    """
    import numpy

    if not isinstance(model_or_engine, _core.Engine):
        options.setdefault("budget", 0)
        check.mapping("inputs", inputs, "a dict of arrays by input name")
        sizes = {name: list(numpy.shape(value)) for name, value in inputs.items()}
        options.setdefault("shapes", sizes)
    return open(model_or_engine, **options).run(inputs)


def is_engine_file(path: Path) -> bool:
    """Whether the file begins as an engine does. False where it cannot be read."""
    import builtins

    try:
        with builtins.open(path, "rb") as file:
            return file.read(len(_core.engine_magic)) == _core.engine_magic
    except OSError:
        return False
