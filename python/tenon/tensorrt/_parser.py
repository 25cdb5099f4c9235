# SPDX-License-Identifier: Apache-2.0
"""The ONNX parser, with its errors."""

from __future__ import annotations

import os
from typing import Any, List, Optional

from .._errors import Code, Error
from ._enums import ErrorCode, Severity
from ._network import INetworkDefinition
from ._types import Sealed, tell

_CODES = {
    Code.invalid_model: "INVALID_GRAPH",
    Code.unsupported: "UNSUPPORTED_NODE",
    Code.resource: "MEM_ALLOC_FAILED",
    Code.io: "MODEL_DESERIALIZE_FAILED",
    Code.usage: "INVALID_VALUE",
}


class ParserError:
    """Why a model could not be read. Everything is a method, as in TensorRT."""

    def __init__(self, error: Error) -> None:
        self._error = error

    def code(self) -> Any:
        return ErrorCode[_CODES.get(self._error.code, "INTERNAL_ERROR")]

    def desc(self) -> str:
        return " ".join(
            part for part in (self._error.what, self._error.where, self._error.why, self._error.hint) if part
        )

    def file(self) -> str:
        return "onnx"

    def line(self) -> int:
        return 0

    def func(self) -> str:
        return "parse"

    def node(self) -> int:
        return -1

    def node_name(self) -> str:
        return self._error.node

    def node_operator(self) -> str:
        return ""

    def __str__(self) -> str:
        name = " with name: %s" % self._error.node if self._error.node else ""
        return "In node %d%s (%s): %s: %s" % (self.node(), name, self.func(), self.code().name, self.desc())

    __repr__ = __str__


class Reporting(Sealed):
    """Keeps why models could not be read."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._errors: List[ParserError] = []

    def _refuse(self, error: Error) -> bool:
        self._errors.append(ParserError(error))
        tell(self._logger, Severity.ERROR, str(self._errors[-1]))
        return False

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]

    def clear_errors(self) -> None:
        self._errors.clear()


class OnnxParser(Reporting):
    """Fills a network from an ONNX model."""

    def __init__(self, network: INetworkDefinition, logger: Any) -> None:
        super().__init__(logger)
        self._network = network
        self.flags = 0
        self._sealed = True

    def _parse(self, model: Any, root: str) -> bool:
        try:
            self._network._fill(model, root)
        except Error as error:
            return self._refuse(error)
        return True

    def parse(self, model: Any, path: Optional[str] = None) -> bool:
        """The bytes of a model; external data lies beside `path`."""
        root = os.path.dirname(os.path.abspath(path)) if path else ""
        return self._parse(bytes(model), root)

    def parse_from_file(self, model: Any) -> bool:
        return self._parse(os.fspath(model), "")

    def supports_model(self, model: Any, path: Optional[str] = None) -> Any:
        from .. import _core

        try:
            _core.model_graph(bytes(model), os.path.dirname(os.path.abspath(path)) if path else "")
        except Error:
            return False, []
        return True, []

    def set_flag(self, flag: Any) -> None:
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag: Any) -> None:
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag: Any) -> bool:
        return bool(self.flags >> int(flag) & 1)
