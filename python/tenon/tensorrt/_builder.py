# SPDX-License-Identifier: Apache-2.0
"""Builder, its configuration and optimization profiles."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .. import _build, _core
from .._errors import Error
from ._calibrator import METHODS, Adapter
from ._enums import BuilderFlag, DeviceType, MemoryPoolType, ProfilingVerbosity, Severity
from ._flags import held_layers, idle, precision_of, require_offered
from ._network import INetworkDefinition
from ._refitter import Source, model_bytes, packed
from ._types import Dims, HostMemory, Managed, NotOffered, Sealed, lacking, tell

PROFILES_KEY = "tenon.tensorrt.profiles"
VERBOSITY_KEY = "tenon.tensorrt.verbosity"
_DLA = "there is no DLA: leave it out"


def default_device() -> str:
    """The GPU that scripts mean, where there is one; else the CPU."""
    from ..cuda._memory import memory

    return "cuda" if memory().on_gpu else "cpu"


class IOptimizationProfile(Sealed):
    """Smallest, usual and largest sizes of inputs. The engine is tuned for the usual ones, and takes all between."""

    def __init__(self) -> None:
        self._shapes: Dict[str, List[Dims]] = {}
        self._values: Dict[str, List[List[int]]] = {}
        self.extra_memory_target = 1.0
        self._sealed = True

    def set_shape(self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> None:
        shapes = [Dims(list(sizes)) for sizes in (min, opt, max)]
        if len({len(sizes) for sizes in shapes}) != 1:
            raise RuntimeError("Shape provided for min is inconsistent with other shapes.")
        if any(not a <= b <= c for a, b, c in zip(*shapes)):
            raise RuntimeError("Shape provided for min is inconsistent with other shapes.")
        self._shapes[input] = shapes

    def get_shape(self, input: str) -> List[Dims]:
        return list(self._shapes.get(input, []))

    def set_shape_input(self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> None:
        self._values[input] = [list(values) for values in (min, opt, max)]

    def get_shape_input(self, input: str) -> List[List[int]]:
        return list(self._values.get(input, []))

    def __bool__(self) -> bool:
        return bool(self._shapes or self._values)


class ITimingCache(Sealed):
    """Kernel times. Tenon keeps its own in the user's cache folder; these bytes only say that there was one."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = data or b"tenon timing cache"
        self._sealed = True

    def serialize(self) -> HostMemory:
        return HostMemory(self._data)

    def combine(self, input_cache: "ITimingCache", ignore_mismatch: bool) -> bool:
        return True

    def reset(self) -> bool:
        return True


class IBuilderConfig(Sealed):
    """What to build."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._profiles: List[IOptimizationProfile] = []
        self._calibration_profile: Optional[IOptimizationProfile] = None
        self._pools: Dict[int, int] = {}
        self._cache: Optional[ITimingCache] = None
        self._sources = 0
        self._features: Dict[int, bool] = {}
        self.reset()
        self._sealed = True

    def reset(self) -> None:
        """Back to what a new configuration has."""
        self.flags = 1 << int(BuilderFlag.TF32)
        self.int8_calibrator: Any = None
        self.profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.builder_optimization_level = 3
        self.default_device_type = DeviceType.GPU
        self.DLA_core = -1
        self.engine_capability = 0
        self.avg_timing_iterations = self.min_timing_iterations = 1
        self.max_aux_streams = -1
        self.profile_stream = 0
        self.quantization_flags = 0
        self.progress_monitor: Any = None
        self.error_recorder: Any = None
        self._pools.clear()

    def set_flag(self, flag: Any) -> None:
        require_offered(1 << int(flag))
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag: Any) -> None:
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag: Any) -> bool:
        return bool(self.flags >> int(flag) & 1)

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        self._pools[int(pool)] = int(pool_size)

    def get_memory_pool_limit(self, pool: Any) -> int:
        return self._pools.get(int(pool), 0)

    @property
    def max_workspace_size(self) -> int:
        return self.get_memory_pool_limit(MemoryPoolType.WORKSPACE)

    @max_workspace_size.setter
    def max_workspace_size(self, size: int) -> None:
        self.set_memory_pool_limit(MemoryPoolType.WORKSPACE, size)

    @property
    def int8_mode(self) -> bool:
        return self.get_flag(BuilderFlag.INT8)

    @int8_mode.setter
    def int8_mode(self, on: bool) -> None:
        (self.set_flag if on else self.clear_flag)(BuilderFlag.INT8)

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        if not profile:
            return -1
        self._profiles.append(profile)
        return len(self._profiles) - 1

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._profiles)

    def set_calibration_profile(self, profile: IOptimizationProfile) -> bool:
        self._calibration_profile = profile
        return bool(profile)

    def get_calibration_profile(self) -> Optional[IOptimizationProfile]:
        return self._calibration_profile

    def create_timing_cache(self, serialized_timing_cache: Any) -> ITimingCache:
        return ITimingCache(bytes(serialized_timing_cache))

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        self._cache = cache
        return True

    def get_timing_cache(self) -> Optional[ITimingCache]:
        return self._cache

    def set_tactic_sources(self, tactic_sources: int) -> bool:
        self._sources = int(tactic_sources)
        return True

    def get_tactic_sources(self) -> int:
        return self._sources

    def set_preview_feature(self, feature: Any, enable: bool) -> None:
        self._features[int(feature)] = enable

    def get_preview_feature(self, feature: Any) -> bool:
        return self._features.get(int(feature), False)

    def set_device_type(self, layer: Any, device_type: Any) -> None:
        if device_type == DeviceType.DLA:
            tell(self._logger, Severity.WARNING, "There is no DLA: layers stay where they are.")

    def get_device_type(self, layer: Any) -> Any:
        return DeviceType.GPU

    def can_run_on_DLA(self, layer: Any) -> bool:
        return False


class Builder(Sealed):
    """Makes networks, configurations and engines."""

    # Attributes of TensorRT 7, which old scripts still set.
    _OLD = ("max_workspace_size", "fp16_mode", "int8_mode", "int8_calibrator", "strict_type_constraints", "refittable")

    def __init__(self, logger: Any) -> None:
        self.logger = logger
        self.max_batch_size = 1
        self.max_threads = 1
        self.gpu_allocator: Any = None
        self.error_recorder: Any = None
        self.num_DLA_cores = 0
        self.max_DLA_batch_size = 0
        self.platform_has_tf32 = True
        self.platform_has_fast_fp16 = True
        self.platform_has_fast_int8 = True
        self.max_workspace_size = 0
        self.fp16_mode = self.int8_mode = self.strict_type_constraints = self.refittable = False
        self.int8_calibrator: Any = None
        self._sealed = True

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        return INetworkDefinition(self.logger, int(flags))

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig(self.logger)

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        return network._model is not None

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> Optional[HostMemory]:
        """The engine's bytes; None and a line of the log where it fails."""
        made = _attempt(self.logger, lambda: build_engine(self.logger, network, config))
        return None if made is None else HostMemory(packed(made[0].serialize(), made[1]))

    def build_engine(self, network: INetworkDefinition, config: IBuilderConfig) -> Any:
        from ._runtime import ICudaEngine

        made = _attempt(self.logger, lambda: build_engine(self.logger, network, config))
        return None if made is None else ICudaEngine(made[0], self.logger, made[1])

    def build_engine_with_config(self, network: INetworkDefinition, config: IBuilderConfig) -> Any:
        return self.build_engine(network, config)

    def build_cuda_engine(self, network: INetworkDefinition) -> Any:
        """As TensorRT 7 had it, from the builder's own attributes."""
        config = self.create_builder_config()
        config.max_workspace_size = self.max_workspace_size
        if self.refittable:
            config.set_flag(BuilderFlag.REFIT)
        if self.fp16_mode:
            config.set_flag(BuilderFlag.FP16)
        if self.int8_mode:
            config.set_flag(BuilderFlag.INT8)
            config.int8_calibrator = self.int8_calibrator
        return self.build_engine(network, config)

    def reset(self) -> None:
        return None


def _attempt(logger: Any, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (Error, NotOffered) as error:
        tell(logger, Severity.ERROR, str(error))
        return None


def _shapes(network: INetworkDefinition, config: IBuilderConfig) -> Dict[str, List[int]]:
    """The usual sizes of the first profile; of inputs without free sizes their own."""
    profile = config._profiles[0] if config._profiles else None
    shapes: Dict[str, List[int]] = {}
    for tensor in network._inputs:
        sizes = list(tensor.shape)
        if profile is not None and profile.get_shape(tensor.name):
            sizes = list(profile.get_shape(tensor.name)[1])
        if any(size < 0 for size in sizes):
            raise Error(
                2,
                "Network has dynamic or shape inputs, but no optimization profile has been defined.",
                where=tensor.name,
            )
        shapes[tensor.name] = sizes
    return shapes


def _progress(monitor: Any) -> Any:
    """A script's IProgressMonitor, told of stages as phases of a hundred steps."""
    if monitor is None:
        return False
    state: Dict[str, Any] = {"phase": None}

    def tell_of(stage: str, done: float, seconds_left: float) -> bool:
        if stage != state["phase"]:
            if state["phase"] is not None:
                monitor.phase_finish(state["phase"])
            state["phase"] = stage
            monitor.phase_start(stage, None, 100)
        return bool(monitor.step_complete(stage, int(100 * done)))

    return tell_of


def build_engine(
    logger: Any, network: INetworkDefinition, config: IBuilderConfig
) -> Tuple[_core.Engine, Optional[Source]]:
    """The engine and, with REFIT, what it was built of. Raises Error."""
    if network._model is None:
        raise Error(2, "the network is empty: parse an ONNX model first")
    require_offered(config.flags)
    device = default_device()
    precision = precision_of(config, device, logger)
    for note in [*network._notes, *idle(config.flags)]:
        tell(logger, Severity.WARNING, note)
    shapes = _shapes(network, config)
    entries = {
        PROFILES_KEY: json.dumps(
            [
                {name: [list(sizes) for sizes in three] for name, three in one._shapes.items()}
                for one in config._profiles
            ]
        ),
        VERBOSITY_KEY: str(int(config.profiling_verbosity)),
    }
    options: Dict[str, Any] = {"precision": precision, "device": device, "shapes": shapes, "metadata": entries}
    options["budget"] = 0 if config.builder_optimization_level == 0 else None
    options["progress"] = _progress(config.progress_monitor)
    if device != "cpu":
        options["workspace"] = config.max_workspace_size
    model = network._edited()
    if precision in ("int8", "fp8"):
        _calibrate(logger, network, config, options, model, shapes)
    tell(logger, Severity.INFO, "Building for %s in %s." % (device, precision))
    source = _refit_source(logger, network, config, options, model)
    engine = _built(model, network._root, options)
    tell(logger, Severity.INFO, "Engine generation completed.")
    return engine, source


def _built(model: Any, root: str, options: Dict[str, Any]) -> _core.Engine:
    while True:
        try:
            return _build.build(model, external_root=root, **options)
        except Error as error:
            # Known before data is read: a layer that never is in INT8 needs no holding.
            if error.node not in options.get("keep", {}):
                raise
            del options["keep"][error.node]


def _refit_source(
    logger: Any, network: INetworkDefinition, config: IBuilderConfig, options: Dict[str, Any], model: Any
) -> Optional[Source]:
    flags = (BuilderFlag.REFIT, BuilderFlag.REFIT_IDENTICAL, BuilderFlag.REFIT_INDIVIDUAL)
    if not any(config.get_flag(flag) for flag in flags):
        return None
    if "calibration" in options:
        tell(logger, Severity.WARNING, "REFIT is left out: a calibration holds for the weights that it was made with.")
        return None
    again = {name: value for name, value in options.items() if name != "progress"}
    return Source(model_bytes(model, network._root), again)


def _calibrate(
    logger: Any,
    network: INetworkDefinition,
    config: IBuilderConfig,
    options: Dict[str, Any],
    model: Any,
    shapes: Dict[str, List[int]],
) -> None:
    quantised = any(layer._op in ("QuantizeLinear", "DequantizeLinear") for layer in network._layers)
    calibrator = config.int8_calibrator
    if quantised:
        return
    if calibrator is None:
        options["precision"] = "fp32"
        tell(logger, Severity.WARNING, "Calibrator is not being used: INT8 needs one, so the engine is floating point.")
        return
    at = dict(shapes)
    profile = config._calibration_profile
    for name, sizes in (profile._shapes if profile is not None else {}).items():
        at[name] = list(sizes[1])
    inputs = _core.stated_inputs(_build.model_of(model), network._root)
    calibrator.get_batch_size()
    options["calibration"] = Adapter(calibrator, inputs, at, logger)
    options["method"] = METHODS[calibrator.get_algorithm()]
    keep = held_layers(network, config)
    if keep:
        options["keep"] = keep
