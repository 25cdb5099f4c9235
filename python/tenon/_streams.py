# SPDX-License-Identifier: Apache-2.0
"""Order between a caller's GPU stream and Tenon's."""

from __future__ import annotations

from typing import Any


def settle(tensor: Any) -> None:
    """Waits until what the caller has put on its current stream for this tensor has ended."""
    library = type(tensor).__module__.partition(".")[0]
    if library == "torch":
        import torch

        torch.cuda.current_stream(tensor.device).synchronize()
    elif library == "cupy":
        import cupy  # type: ignore[import-not-found, unused-ignore]

        cupy.cuda.get_current_stream().synchronize()
