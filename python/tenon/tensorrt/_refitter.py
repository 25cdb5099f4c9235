# SPDX-License-Identifier: Apache-2.0
"""New weights for engines that were built with BuilderFlag.REFIT. Such a plan holds the ONNX model behind the engine: a
refit puts the weights into it and builds again, with the kernels that are known to be fastest."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

from .. import _build, _core
from .._errors import Error
from ._enums import Severity, TensorLocation, WeightsRole
from ._parser import Reporting
from ._types import NotOffered, Sealed, Weights, data_type, tell

if TYPE_CHECKING:
    from ._runtime import ICudaEngine

_TAIL = struct.Struct("<QQ8s")
_MARK = b"TENONRFT"
_ROLES = {
    "Conv": ("", "KERNEL", "BIAS"),
    "ConvTranspose": ("", "KERNEL", "BIAS"),
    "Gemm": ("KERNEL", "KERNEL", "BIAS"),
    "MatMul": ("KERNEL", "KERNEL"),
    "BatchNormalization": ("", "SCALE", "SHIFT"),
}


class Source(NamedTuple):
    """What an engine was built of."""

    model: bytes
    options: Dict[str, Any]


def packed(engine: bytes, source: Optional[Source]) -> bytes:
    """A plan: the engine, and behind it what a refit needs."""
    if source is None:
        return engine
    options = json.dumps(source.options).encode()
    return b"".join([engine, source.model, options, _TAIL.pack(len(source.model), len(options), _MARK)])


def unpacked(plan: Any) -> Tuple[Any, Optional[Source]]:
    """The parts of a plan; bytes without the mark are an engine alone."""
    data = memoryview(plan).cast("B")
    if len(data) < _TAIL.size or bytes(data[-len(_MARK) :]) != _MARK:
        return plan, None
    model_size, options_size, _ = _TAIL.unpack(data[-_TAIL.size :])
    end = len(data) - _TAIL.size
    if model_size + options_size > end:
        return plan, None
    model = end - options_size - model_size
    options = json.loads(bytes(data[end - options_size : end]))
    return data[:model], Source(bytes(data[model : model + model_size]), options)


def model_bytes(model: Any, root: str) -> bytes:
    """A model in one piece, with its external data."""
    onnx = _onnx()
    if isinstance(model, bytes) and not root:
        return model
    if isinstance(model, str):
        loaded = onnx.load(model)
    else:
        loaded = onnx.load_from_string(model)
        onnx.external_data_helper.load_external_data_for_model(loaded, root)
    return bytes(loaded.SerializeToString())


def _onnx() -> Any:
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.numpy_helper
    except ImportError:
        raise NotOffered("refitting needs the onnx package: pip install onnx") from None
    return onnx


class Refitter(Sealed):
    """Gives an engine other weights, by their names in the ONNX model or by layer and role."""

    def __init__(self, engine: "ICudaEngine", logger: Any) -> None:
        if engine._source is None:
            text = "the engine holds no weights to refit: build it with BuilderFlag.REFIT, in floating point"
            tell(logger, Severity.ERROR, "3: " + text)
            raise TypeError(text)
        self.engine, self.logger = engine, logger
        self.error_recorder: Any = None
        self.max_threads = 1
        self.weights_validation = True
        self._helper = _onnx().numpy_helper
        self._model = _onnx().load_from_string(engine._source.model)
        self._weights = {
            one.name: one for one in self._model.graph.initializer if one.data_type in (1, 10, 11, 16)
        }  # FLOAT, FLOAT16, DOUBLE, BFLOAT16: others are sizes and indices
        self._new: Dict[str, Any] = {}
        self._sealed = True

    def _roles(self) -> Dict[Tuple[str, Any], str]:
        """Names of weights by layer and role."""
        found: Dict[Tuple[str, Any], str] = {}
        for node in self._model.graph.node:
            for name, role in zip(node.input, _ROLES.get(node.op_type, ())):
                if role and name in self._weights:
                    found[node.name, WeightsRole[role]] = name
        return found

    def get_all_weights(self) -> List[str]:
        return list(self._weights)

    def get_missing_weights(self) -> List[str]:
        """None: what is not set stays as it is."""
        return []

    def get_all(self) -> Tuple[List[str], List[Any]]:
        keys = list(self._roles())
        return [layer for layer, _ in keys], [role for _, role in keys]

    def get_missing(self) -> Tuple[List[str], List[Any]]:
        return [], []

    def get_named_weights(self, weights_name: str) -> Weights:
        """Those that the next refit takes."""
        if weights_name in self._new:
            return Weights(self._new[weights_name])
        known = weights_name in self._weights
        return Weights(self._helper.to_array(self._weights[weights_name]) if known else [])

    get_weights_prototype = get_named_weights

    def get_weights_location(self, weights_name: str) -> Any:
        return TensorLocation.HOST

    def set_named_weights(self, name: str, weights: Any, location: Any = None) -> bool:
        """False, and a line of the log, for a name that the model has not, or for another number or type of values."""
        import numpy

        own = self._weights.get(name)
        if own is None:
            tell(self.logger, Severity.ERROR, "3: no weights are called %s" % name)
            return False
        array = weights.numpy() if hasattr(weights, "numpy") else numpy.asarray(weights)
        there = self._helper.to_array(own)
        if array.size != there.size or array.dtype != there.dtype:
            words = (name, there.size, data_type(str(there.dtype)), array.size, array.dtype)
            tell(self.logger, Severity.ERROR, "3: weights %s have %d values of %s, not %d of %s" % words)
            return False
        self._new[name] = numpy.array(array).reshape(there.shape)
        return True

    def unset_named_weights(self, weights_name: str) -> bool:
        return self._new.pop(weights_name, None) is not None

    def set_weights(self, layer_name: str, role: Any, weights: Any) -> bool:
        name = self._roles().get((layer_name, role))
        if name is None:
            tell(self.logger, Severity.ERROR, "3: layer %s has no weights of %s" % (layer_name, role))
            return False
        return self.set_named_weights(name, weights)

    def refit_cuda_engine(self) -> bool:
        """Builds the engine again; its contexts take it up at their next run. False, and a line of the log, where that
        fails."""
        for name, array in self._new.items():
            self._weights[name].CopyFrom(self._helper.from_array(array, name))
        source = Source(bytes(self._model.SerializeToString()), self.engine._source.options)  # type: ignore[union-attr]
        try:
            built = _build.build(source.model, **source.options)
        except Error as error:
            tell(self.logger, Severity.ERROR, str(error))
            return False
        self._new.clear()
        self.engine._take(built, source)
        return True

    def refit_cuda_engine_async(self, stream_handle: Any) -> bool:
        return self.refit_cuda_engine()


class OnnxParserRefitter(Reporting):
    """Takes all weights of an engine from a model of the same names."""

    def __init__(self, refitter: Refitter, logger: Any) -> None:
        super().__init__(logger)
        self._refitter = refitter
        self._sealed = True

    def refit_from_bytes(self, model: Any, path: Optional[str] = None) -> bool:
        return self._refit(bytes(model), os.path.dirname(os.path.abspath(path)) if path else "")

    def refit_from_file(self, model: Any) -> bool:
        return self._refit(os.fspath(model), "")

    def _refit(self, model: Any, root: str) -> bool:
        try:
            _core.model_graph(model, root)
        except Error as error:
            return self._refuse(error)
        onnx = _onnx()
        graph = onnx.load_from_string(model_bytes(model, root)).graph
        given = {one.name: one for one in graph.initializer}
        for name in self._refitter.get_all_weights():
            if name not in given:
                return self._refuse(Error(2, "the model has no weights called %s" % name))
            if not self._refitter.set_named_weights(name, onnx.numpy_helper.to_array(given[name])):
                return False
        return True
