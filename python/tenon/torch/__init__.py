# SPDX-License-Identifier: Apache-2.0
"""Tenon inside PyTorch.

fast = tenon.torch.compile(module, (example,))         # a callable with the module's signature
fast = torch.compile(module, backend="tenon")          # what Tenon takes; the rest stays with PyTorch
tenon.torch.explain()                                  # which graphs were taken, and why others were not
tenon.torch.compare(module, engine, data)              # how far an engine's outputs are from the module's
"""

from __future__ import annotations

from typing import Any

from ._backend import Decision, backend, explain, reset
from ._compare import Comparison, compare
from ._compile import Compiled, compile

__all__ = ["Comparison", "Compiled", "Decision", "backend", "compare", "compile", "explain", "reset"]


def _register() -> None:
    """Where the package is not installed, its entry point does not tell PyTorch of the backend."""
    import torch

    dynamo: Any = torch._dynamo
    if "tenon" not in dynamo.list_backends(exclude_tags=()):
        dynamo.register_backend(backend, name="tenon")


_register()
