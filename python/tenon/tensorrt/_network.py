# SPDX-License-Identifier: Apache-2.0
"""Networks as the ONNX parser fills them: to be read, and edited where scripts do it."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .. import _core
from ._enums import DataType, TensorFormat, TensorLocation, layer_type
from ._types import Dims, Managed, NotOffered, Sealed, data_type, lacking

BUILD_ONNX = "build the ONNX model with it (onnx.helper), or with torch.onnx"


class ITensor(Sealed):
    """An input, an output, or a value between layers."""

    def __init__(self, network: "INetworkDefinition", name: str, dtype: DataType, shape: Sequence[int]) -> None:
        self._network = network
        self._name = name
        self._shape = Dims(list(shape))
        self._dtype = dtype
        self._dynamic_range: Optional[Tuple[float, float]] = None
        self.location = TensorLocation.DEVICE
        self.allowed_formats = 1 << int(TensorFormat.LINEAR)
        self.is_shape_tensor = False
        self.is_execution_tensor = True
        self._sealed = True

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        if name != self._name:
            self._network._rename(self, name)
            self._name = name

    @property
    def shape(self) -> Dims:
        return self._shape

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._shape = Dims(list(shape))

    @property
    def dtype(self) -> DataType:
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        if dtype != self._dtype:
            self._network._note("tensor %s keeps its type %s, not %s" % (self._name, self._dtype, dtype))

    @property
    def is_network_input(self) -> bool:
        return self in self._network._inputs

    @property
    def is_network_output(self) -> bool:
        return self in self._network._outputs

    @property
    def dynamic_range(self) -> Optional[Tuple[float, float]]:
        return self._dynamic_range

    @dynamic_range.setter
    def dynamic_range(self, ends: Sequence[float]) -> None:
        if len(ends) != 2:
            raise ValueError("a dynamic range has two ends")
        self.set_dynamic_range(float(ends[0]), float(ends[1]))

    def set_dynamic_range(self, min: float, max: float) -> bool:
        self._dynamic_range = (min, max)
        self._network._note("dynamic ranges are not taken: give a calibrator")
        return True

    def reset_dynamic_range(self) -> None:
        self._dynamic_range = None

    def __repr__(self) -> str:
        return "ITensor(%s, %s, %s)" % (self._name, self._dtype, self._shape)


class ILayer(Sealed):
    """An ONNX node. Its precision may be asked for: FLOAT or HALF keeps it out of INT8."""

    def __init__(
        self,
        network: "INetworkDefinition",
        index: int,
        name: str,
        op: str,
        inputs: List[Optional[ITensor]],
        outputs: List[ITensor],
    ) -> None:
        self._network, self._index = network, index
        self._op, self._inputs, self._outputs = op, inputs, outputs
        self._precision: Optional[DataType] = None
        self._output_types: Dict[int, DataType] = {}
        self._origin = name
        self.name = name
        self.type = layer_type(op)
        self._sealed = True

    @property
    def num_inputs(self) -> int:
        return len(self._inputs)

    @property
    def num_outputs(self) -> int:
        return len(self._outputs)

    def get_input(self, index: int) -> Optional[ITensor]:
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> Optional[ITensor]:
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    @property
    def precision(self) -> DataType:
        return DataType.FLOAT if self._precision is None else self._precision

    @precision.setter
    def precision(self, precision: DataType) -> None:
        self._precision = precision

    @property
    def precision_is_set(self) -> bool:
        return self._precision is not None

    def reset_precision(self) -> None:
        self._precision = None

    def set_output_type(self, index: int, dtype: DataType) -> None:
        self._output_types[index] = dtype

    def get_output_type(self, index: int) -> DataType:
        return self._output_types.get(index, self._outputs[index].dtype)

    def output_type_is_set(self, index: int) -> bool:
        return index in self._output_types

    def reset_output_type(self, index: int) -> None:
        self._output_types.pop(index, None)

    def __repr__(self) -> str:
        return "ILayer(%s, %s)" % (self.name, self.type)


class INetworkDefinition(Sealed):
    """Filled by OnnxParser."""

    def __init__(self, logger: Any, flags: int) -> None:
        self._logger, self._flags = logger, flags
        self._model: Any = None
        self._root = ""
        self._inputs: List[ITensor] = []
        self._outputs: List[ITensor] = []
        self._layers: List[ILayer] = []
        self._renamed: Dict[str, str] = {}
        self._notes: List[str] = []
        self.name = ""
        self.has_implicit_batch_dimension = False
        self.has_explicit_precision = False
        self._sealed = True

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _fill(self, model: Any, root: str) -> None:
        graph = _core.model_graph(model, root)
        self._model, self._root = model, root
        known: Dict[str, ITensor] = {}

        def tensor(info: Any) -> ITensor:
            if info.name not in known:
                known[info.name] = ITensor(self, info.name, data_type(info.dtype), info.shape)
            return known[info.name]

        self._inputs = [tensor(info) for info in graph["inputs"]]
        for at, node in enumerate(graph["nodes"]):
            outputs = [tensor(info) for info in node["outputs"]]
            inputs = [known.get(name) for name in node["inputs"]]
            self._layers.append(ILayer(self, at, node["name"], node["op"], inputs, outputs))
        self._outputs = [tensor(info) for info in graph["outputs"]]
        self._first_outputs = list(self._outputs)

    @property
    def num_inputs(self) -> int:
        return len(self._inputs)

    @property
    def num_outputs(self) -> int:
        return len(self._outputs)

    @property
    def num_layers(self) -> int:
        return len(self._layers)

    def get_input(self, index: int) -> Optional[ITensor]:
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> Optional[ITensor]:
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def get_layer(self, index: int) -> Optional[ILayer]:
        return self._layers[index] if 0 <= index < len(self._layers) else None

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: int) -> ILayer:
        return self._layers[index]

    def __iter__(self) -> Iterator[ILayer]:
        return iter(self._layers)

    def mark_output(self, tensor: ITensor) -> None:
        if tensor not in self._outputs:
            self._outputs.append(tensor)

    def unmark_output(self, tensor: ITensor) -> None:
        if tensor in self._outputs:
            self._outputs.remove(tensor)

    def get_flag(self, flag: int) -> bool:
        return bool(self._flags >> int(flag) & 1)

    def _rename(self, tensor: ITensor, name: str) -> None:
        self._renamed[self._renamed.pop(tensor._name, tensor._name)] = name

    def _edited(self) -> Any:
        """The model with what the script has changed; the onnx package is needed where that is more than free sizes."""
        graph = {info.name: info for info in _core.stated_inputs(self._model, self._root)}
        original = {name: old for old, name in self._renamed.items()}
        fixed = {}
        for tensor in self._inputs:
            old = original.get(tensor.name, tensor.name)
            if list(tensor.shape) != list(graph[old].shape):
                fixed[old] = list(tensor.shape)
        if not self._renamed and not fixed and self._outputs == self._first_outputs:
            return self._model
        try:
            import onnx
        except ImportError:
            raise NotOffered("editing a network needs the onnx package: pip install onnx") from None
        model = onnx.load(self._model) if isinstance(self._model, str) else onnx.load_from_string(self._model)
        for value in model.graph.input:
            if value.name in fixed:
                for dim, size in zip(value.type.tensor_type.shape.dim, fixed[value.name]):
                    if size > 0:
                        dim.dim_value = size
        if fixed:
            # Sizes that were written down for others no longer hold.
            del model.graph.value_info[:]
            for value in model.graph.output:
                value.type.tensor_type.ClearField("shape")
        self._choose_outputs(model, onnx, original)
        for old, name in self._renamed.items():
            _rename_value(model.graph, old, name)
        return model.SerializeToString()

    def _choose_outputs(self, model: Any, onnx: Any, original: Dict[str, str]) -> None:
        if self._outputs == self._first_outputs:
            return
        known = {value.name: value for value in model.graph.output}
        wanted = [original.get(tensor.name, tensor.name) for tensor in self._outputs]
        chosen = [known.get(name) or onnx.helper.make_empty_tensor_value_info(name) for name in wanted]
        del model.graph.output[:]
        model.graph.output.extend(chosen)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("add_"):
            raise NotOffered("INetworkDefinition.%s is not offered: %s" % (name, BUILD_ONNX))
        return super().__getattr__(name)


def _rename_value(graph: Any, old: str, name: str) -> None:
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.name == old:
            value.name = name
    for node in graph.node:
        for at, one in enumerate(node.input):
            if one == old:
                node.input[at] = name
        for at, one in enumerate(node.output):
            if one == old:
                node.output[at] = name
