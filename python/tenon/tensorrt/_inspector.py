# SPDX-License-Identifier: Apache-2.0
"""What an engine consists of, and plugins, which there are none of."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

from ._enums import LayerInformationFormat, ProfilingVerbosity
from ._types import Managed, Sealed


class EngineInspector(Sealed):
    """The steps of an engine, as JSON or in lines."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.execution_context: Any = None
        self.error_recorder: Any = None
        self._sealed = True

    def _layers(self) -> List[Dict[str, Any]]:
        layers = self._engine._engine.inspect()["layers"]
        return [
            {
                "Name": layer["name"],
                "LayerType": layer["op"],
                "Origins": layer["origins"],
                "Precision": layer["precision"],
                "Sizes": layer["sizes"],
                "TacticName": layer["kernel"],
                "Microseconds": layer["us"],
            }
            for layer in layers
        ]

    def _form(self, layer: Dict[str, Any]) -> Any:
        detailed = self._engine.profiling_verbosity == ProfilingVerbosity.DETAILED
        return layer if detailed else layer["Name"]

    def get_engine_information(self, format: Any) -> str:
        layers = [self._form(layer) for layer in self._layers()]
        if format == LayerInformationFormat.JSON:
            return json.dumps({"Layers": layers, "Bindings": list(self._engine)}, indent=1)
        return "\n".join(str(layer) for layer in layers)

    def get_layer_information(self, layer_index: int, format: Any) -> str:
        layer = self._form(self._layers()[layer_index])
        return json.dumps(layer) if format == LayerInformationFormat.JSON else str(layer)


class IPluginRegistry(Sealed):
    """Plugins of TensorRT do not run here: operators that need them are built from ONNX, or are plugins of Tenon."""

    plugin_creator_list: Tuple[Any, ...] = ()
    all_creators: Tuple[Any, ...] = ()

    def get_plugin_creator(self, type: str, version: str, plugin_namespace: str = "") -> None:
        return None

    def get_creator(self, type: str, version: str, plugin_namespace: str = "") -> None:
        return None


def get_plugin_registry() -> IPluginRegistry:
    return IPluginRegistry()


def init_libnvinfer_plugins(logger: Any, namespace: str = "") -> bool:
    """There is nothing to load."""
    return True
