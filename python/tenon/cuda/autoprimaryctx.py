# SPDX-License-Identifier: Apache-2.0
"""As pycuda.autoprimaryctx: the primary context of the first device, which PyTorch uses too."""

import atexit

from . import Context, Device, init

init()
device = Device(0)
context = device.make_context()


def _end() -> None:
    context.detach()


atexit.register(_end)
__all__ = ["Context", "context", "device"]
