# SPDX-License-Identifier: Apache-2.0
"""Engines, by bindings and by tensor names."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from .. import _build, _core
from .._errors import Error
from ._builder import PROFILES_KEY, VERBOSITY_KEY, default_device
from ._context import IExecutionContext
from ._enums import ProfilingVerbosity, Severity, TensorFormat, TensorIOMode, TensorLocation
from ._refitter import Source, packed, unpacked
from ._types import Dims, HostMemory, Managed, Sealed, data_type, lacking, tell


class Runtime(Sealed):
    """Makes engines of bytes."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger
        self.DLA_core = -1
        self.num_DLA_cores = 0
        self.max_threads = 1
        self.error_recorder: Any = None
        self.gpu_allocator: Any = None
        self.engine_host_code_allowed = False
        self._sealed = True

    def deserialize_cuda_engine(self, serialized_engine: Any) -> Optional["ICudaEngine"]:
        """None, and a line of the log, for bytes that are no engine."""
        try:
            data, source = unpacked(serialized_engine)
            engine = _core.load_bytes(data)
            if engine.device == "cpu" and default_device() != "cpu":
                engine = engine.on("cuda")
        except Error as error:
            text = "1: [runtime.cpp::parsePlan] Error Code 1: Serialization (%s; an engine of TensorRT is built anew)"
            tell(self.logger, Severity.ERROR, text % error.what)
            return None
        return ICudaEngine(engine, self.logger, source)


class ICudaEngine(Sealed):
    """An engine. Bindings are its inputs in the model's order, then its outputs."""

    max_batch_size = 1
    has_implicit_batch_dimension = False
    device_memory_size = 0
    num_aux_streams = 0
    streamable_weights_size = 0
    hardware_compatibility_level = 0

    def __init__(self, engine: _core.Engine, logger: Any, source: Optional[Source] = None) -> None:
        self._engine, self._logger, self._source = engine, logger, source
        self._infos = {info.name: info for info in [*engine.inputs, *engine.outputs]}
        self._names = list(self._infos)
        self._inputs = [info.name for info in engine.inputs]
        self._profiles: List[Dict[str, List[List[int]]]] = json.loads(engine.metadata.get(PROFILES_KEY, "[]"))
        self.name = ""
        self.error_recorder: Any = None
        self.profiling_verbosity = ProfilingVerbosity(int(engine.metadata.get(VERBOSITY_KEY, "0")))
        self._sealed = True

    def _take(self, engine: _core.Engine, source: Source) -> None:
        """Another engine of the same model."""
        self._engine, self._source = engine, source

    @property
    def refittable(self) -> bool:
        return self._source is not None

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getitem__(self, at: Union[int, str]) -> Union[int, str]:
        """The name of an index, or the index of a name."""
        return self.get_binding_index(at) if isinstance(at, str) else self._names[at]

    def _name(self, at: Union[int, str]) -> str:
        if isinstance(at, str):
            if at not in self._infos:
                tell(self._logger, Severity.ERROR, "3: no tensor is called %s" % at)
            return at
        return self._names[at]

    @property
    def num_bindings(self) -> int:
        return len(self._names)

    @property
    def num_io_tensors(self) -> int:
        return len(self._names)

    @property
    def num_layers(self) -> int:
        return len(self._engine.inspect()["layers"])

    @property
    def num_optimization_profiles(self) -> int:
        return max(1, len(self._profiles))

    def get_binding_name(self, index: int) -> str:
        return self._names[index]

    get_tensor_name = get_binding_name

    def get_binding_index(self, name: str) -> int:
        return self._names.index(name) if name in self._infos else -1

    def binding_is_input(self, binding: Union[int, str]) -> bool:
        return self._name(binding) in self._inputs

    def get_binding_shape(self, binding: Union[int, str]) -> Dims:
        """-1 for sizes that are free."""
        name = self._name(binding)
        if name not in self._infos:
            return Dims()
        sizes = list(self._infos[name].shape)
        if name not in self._inputs and -1 in sizes and all(-1 not in self._infos[one].shape for one in self._inputs):
            own = self._context_shapes().get(name)
            sizes = list(own) if own is not None else sizes
        return Dims(sizes)

    get_tensor_shape = get_binding_shape

    def _context_shapes(self) -> Dict[str, Sequence[int]]:
        if not hasattr(self, "_known"):
            self._known: Dict[str, Sequence[int]] = IExecutionContext(self)._output_shapes()
        return self._known

    def get_binding_dtype(self, binding: Union[int, str]) -> Any:
        return data_type(self._infos[self._name(binding)].dtype)

    get_tensor_dtype = get_binding_dtype

    def get_location(self, binding: Union[int, str]) -> Any:
        return TensorLocation.DEVICE

    get_tensor_location = get_location

    def get_tensor_mode(self, name: str) -> Any:
        if name not in self._infos:
            return TensorIOMode.NONE
        return TensorIOMode.INPUT if name in self._inputs else TensorIOMode.OUTPUT

    def get_tensor_format(self, name: str, profile_index: int = 0) -> Any:
        return TensorFormat.LINEAR

    get_binding_format = get_tensor_format

    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        return "Row major linear format"

    get_binding_format_desc = get_tensor_format_desc

    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        return int(self.get_binding_dtype(name).itemsize)

    def get_tensor_vectorized_dim(self, name: str, profile_index: int = 0) -> int:
        return -1

    def is_shape_inference_io(self, name: str) -> bool:
        return False

    def is_shape_binding(self, binding: int) -> bool:
        return False

    def is_execution_binding(self, binding: int) -> bool:
        return True

    def get_profile_shape(self, profile_index: int, binding: Union[int, str]) -> List[Dims]:
        """[min, opt, max]."""
        name = self._name(binding)
        if self._profiles:
            found = self._profiles[profile_index].get(name)
            if found:
                return [Dims(sizes) for sizes in found]
        tuned = _core.tuned_shapes(self._engine).get(name, self._infos[name].shape)
        return [Dims(list(tuned))] * 3

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> List[Dims]:
        return self.get_profile_shape(profile_index, name)

    def serialize(self) -> HostMemory:
        return HostMemory(packed(self._engine.serialize(), self._source))

    def create_execution_context(self, strategy: Any = None) -> IExecutionContext:
        return IExecutionContext(self)

    def create_execution_context_without_device_memory(self) -> IExecutionContext:
        return IExecutionContext(self)

    def create_engine_inspector(self) -> Any:
        from ._inspector import EngineInspector

        return EngineInspector(self)


class IProfiler(Managed):
    """Subclass it and override report_layer_time(layer_name, ms)."""

    def __init__(self) -> None:
        pass

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        raise NotImplementedError("a profiler overrides report_layer_time")


class Profiler(IProfiler):
    """Prints the time of each layer."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        print("%s: %.6fms" % (layer_name, ms))


def load(path: Any) -> _core.Engine:
    """The Tenon engine in a file that a script has written, perhaps behind a header of its own (Ultralytics)."""
    with open(path, "rb") as file:
        data = file.read()
    return _build.load(unpacked(data[max(0, data.find(_core.engine_magic)) :])[0])
