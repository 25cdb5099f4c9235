# SPDX-License-Identifier: Apache-2.0
"""Contexts: an engine that runs on memory of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Union

from .. import _core
from .._errors import Error
from ..cuda._memory import BadAddress, memory
from ._enums import ProfilingVerbosity, Severity
from ._types import Dims, Managed, Sealed, lacking, pointer, tell, volume

if TYPE_CHECKING:
    from ._runtime import ICudaEngine


class IExecutionContext(Sealed):
    """Runs an engine on memory of the caller."""

    def __init__(self, engine: "ICudaEngine") -> None:
        self.engine = engine
        self.name = ""
        self.debug_sync = False
        self.enqueue_emits_profile = True
        self.error_recorder: Any = None
        self.nvtx_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self._profiler: Any = None
        self._profile = 0
        self._logger = engine._logger
        self._addresses: Dict[str, int] = {}
        self._allocators: Dict[str, Any] = {}
        infos = engine._infos
        self._shapes: Dict[str, List[int]] = {name: list(infos[name].shape) for name in engine._inputs}
        self._known: Dict[str, Sequence[int]] = {}
        self._known_of: Any = None
        self._own: Any = None
        self._own_of: Any = None
        self._session  # so that what fails, fails now
        self._sealed = True

    @property
    def _session(self) -> _core.Session:
        """Of the engine as it is: a refit replaces it."""
        engine = self.engine._engine
        if self._own_of is not engine:
            tuned = _core.tuned_shapes(engine)
            made = {name: list(tuned.get(name, sizes)) for name, sizes in self._shapes.items()}
            ready = all(size >= 0 for sizes in made.values() for size in sizes)
            self._own, self._own_of = engine.session(shapes=made if ready else {}), engine
        session: _core.Session = self._own
        return session

    # ---- sizes ----

    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
        """False, and a line of the log, for sizes that the engine does not take."""
        info = self.engine._infos.get(name)
        sizes = [int(size) for size in shape]
        if info is None or name not in self._shapes or len(sizes) != len(info.shape):
            tell(self._logger, Severity.ERROR, "3: no input %s of %d axes" % (name, len(sizes)))
            return False
        if any(own >= 0 and own != size for own, size in zip(info.shape, sizes)):
            tell(self._logger, Severity.ERROR, "3: %s takes %s, not %s" % (name, info.shape, sizes))
            return False
        profiles = self.engine._profiles
        low_high = profiles[self._profile].get(name) if profiles else None
        if low_high and any(not a <= size <= b for a, size, b in zip(low_high[0], sizes, low_high[2])):
            tell(self._logger, Severity.ERROR, "3: %s of %s lies outside of its profile %s" % (sizes, name, low_high))
            return False
        self._shapes[name] = sizes
        return True

    def set_binding_shape(self, binding: Union[int, str], shape: Sequence[int]) -> bool:
        return self.set_input_shape(self.engine._name(binding), shape)

    @property
    def all_binding_shapes_specified(self) -> bool:
        return not self.infer_shapes()

    all_shape_inputs_specified = True

    def infer_shapes(self) -> List[str]:
        """Inputs whose sizes are still free."""
        return [name for name, sizes in self._shapes.items() if any(size < 0 for size in sizes)]

    def get_tensor_shape(self, name: str) -> Dims:
        if name in self._shapes:
            return Dims(self._shapes[name])
        if name not in self.engine._infos:
            return Dims()
        sizes = self.engine._infos[name].shape
        if all(size >= 0 for size in sizes) or self.infer_shapes():
            return Dims(list(sizes))
        return Dims(list(self._output_shapes()[name]))

    def get_binding_shape(self, binding: Union[int, str]) -> Dims:
        return self.get_tensor_shape(self.engine._name(binding))

    def _output_shapes(self) -> Dict[str, Sequence[int]]:
        """Sizes of the outputs for the present inputs: a run on zeros tells, once for each set of sizes."""
        import numpy

        key = tuple(map(tuple, self._shapes.values()))
        if key != self._known_of:
            zeros = {}
            for name, sizes in self._shapes.items():
                kind = self.engine._infos[name].dtype
                zeros[name] = numpy.zeros(sizes, kind if kind != "bfloat16" else "uint16")
            found = self._session.run(zeros)
            self._known, self._known_of = {name: value.shape for name, value in found.items()}, key
        return self._known

    def get_max_output_size(self, name: str) -> int:
        size = int(self.engine.get_binding_dtype(name).itemsize)
        for one in self.get_tensor_shape(name):
            size *= one
        return size

    # ---- profiles ----

    @property
    def active_optimization_profile(self) -> int:
        return self._profile

    @active_optimization_profile.setter
    def active_optimization_profile(self, index: int) -> None:
        self.set_optimization_profile_async(index, 0)

    def set_optimization_profile_async(self, profile_index: int, stream_handle: Any) -> bool:
        if not 0 <= profile_index < self.engine.num_optimization_profiles:
            raise RuntimeError("no optimization profile %d" % profile_index)
        self._profile = profile_index
        return True

    # ---- addresses and runs ----

    def set_tensor_address(self, name: str, memory: Any) -> bool:
        if name not in self.engine._infos:
            tell(self._logger, Severity.ERROR, "3: no tensor is called %s" % name)
            return False
        self._addresses[name] = pointer(memory)
        return True

    set_input_tensor_address = set_tensor_address

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool:
        self._allocators[name] = output_allocator
        return True

    def get_output_allocator(self, name: str) -> Any:
        return self._allocators.get(name)

    def execute_v2(self, bindings: Sequence[Any]) -> bool:
        """Runs on addresses in the order of the bindings, and waits."""
        for name, address in zip(self.engine._names, bindings):
            self._addresses[name] = pointer(address)
        if not self._execute(0):
            return False
        memory().synchronize()
        return True

    def execute_async_v2(self, bindings: Sequence[Any], stream_handle: Any = 0, input_consumed: Any = None) -> bool:
        for name, address in zip(self.engine._names, bindings):
            self._addresses[name] = pointer(address)
        return self._execute(pointer(stream_handle))

    def execute(self, batch_size: int = 1, bindings: Sequence[Any] = ()) -> bool:
        return self.execute_v2(bindings)

    def execute_async(
        self, batch_size: int = 1, bindings: Sequence[Any] = (), stream_handle: Any = 0, input_consumed: Any = None
    ) -> bool:
        return self.execute_async_v2(bindings, stream_handle)

    def execute_async_v3(self, stream_handle: Any = 0) -> bool:
        return self._execute(pointer(stream_handle))

    def _execute(self, stream: int) -> bool:
        try:
            missing = self.infer_shapes()
            if missing:
                raise Error(2, "the sizes of input %s are not set" % missing[0])
            for name in self.engine._inputs:
                if not self._addresses.get(name):
                    raise Error(2, "Address is not set for input tensor %s." % name)
            inputs = {name: self._tensor(name, self._shapes[name]) for name in self.engine._inputs}
            self._run(inputs, stream)
        except Error as error:
            tell(self._logger, Severity.ERROR, "3: [executionContext] %s" % error)
            return False
        if self._profiler is not None and self.enqueue_emits_profile:
            self._report(inputs)
        return True

    def _tensor(self, name: str, sizes: Sequence[int]) -> _core.Tensor:
        device = self.engine._engine.device
        self._require(name, volume(sizes) * int(self.engine.get_binding_dtype(name).itemsize))
        return _core.Tensor.at(self._addresses[name], list(sizes), self.engine._infos[name].dtype, device)

    def _require(self, name: str, size: int) -> None:
        """Raises Error where the memory at the tensor's address is known to be smaller."""
        try:
            memory().require(self._addresses[name], size, foreign=True)
        except BadAddress as error:
            raise Error(2, "the memory of %s is too small" % name, why=str(error)) from None

    def _run(self, inputs: Dict[str, Any], stream: int) -> None:
        outputs = [info.name for info in self.engine._engine.outputs]
        if self.engine._engine.device != "cpu" and not self._allocators:
            shapes = self._output_shapes()
            targets = [self._tensor(name, shapes[name]) for name in outputs]
            self._session.enqueue(list(inputs.values()), targets, stream)
            return
        memory().synchronize(stream)
        for name, value in self._session.run(inputs).items():
            if name in self._allocators:
                allocator = self._allocators[name]
                self._addresses[name] = pointer(
                    allocator.reallocate_output(name, self._addresses.get(name, 0), int(value.nbytes), 64)
                )
                allocator.notify_shape(name, Dims(list(value.shape)))
            if not self._addresses.get(name):
                raise Error(2, "Address is not set for output tensor %s." % name)
            if value.nbytes:
                self._require(name, int(value.nbytes))
                source = value.ctypes.data if hasattr(value, "ctypes") else value.data_ptr
                memory().to_device(self._addresses[name], source, int(value.nbytes))

    # ---- what a run took ----

    @property
    def profiler(self) -> Any:
        return self._profiler

    @profiler.setter
    def profiler(self, profiler: Any) -> None:
        self._profiler = profiler

    def report_to_profiler(self) -> bool:
        if self._profiler is None:
            return False
        self._report({name: self._tensor(name, self._shapes[name]) for name in self.engine._inputs})
        return True

    def _report(self, inputs: Dict[str, Any]) -> None:
        for layer in self._session.profile(inputs, 1):
            self._profiler.report_layer_time(layer.name, layer.microseconds / 1000)
