# SPDX-License-Identifier: Apache-2.0
"""What pycuda.driver has and tenon.cuda does not offer, with what to use instead."""

from __future__ import annotations

from typing import Any, Dict

INSTEAD: Dict[str, str] = {
    "SourceModule": "Tenon compiles no CUDA source",
    "gpuarray": "use NumPy, torch or cupy",
    "module_from_file": "Tenon runs no kernels of others",
    "module_from_buffer": "Tenon runs no kernels of others",
    "managed_empty": "pagelocked_empty gives memory that copies read and write; mem_alloc the device's",
    "managed_zeros": "pagelocked_zeros gives memory that copies read and write; mem_alloc the device's",
    "managed_empty_like": "use pagelocked_empty_like",
    "managed_zeros_like": "use pagelocked_zeros_like",
    "mem_alloc_pitch": "mem_alloc takes bytes alone",
    "mem_alloc_managed": "use mem_alloc",
    "aligned_empty": "use pagelocked_empty",
    "aligned_zeros": "use pagelocked_zeros",
    "get_driver_version": "get_version gives the driver's, (0, 0, 0) without one",
    "mem_host_register_flags": "register_host_memory gives the array as it is",
    "mem_attach_flags": "there is no managed memory: use mem_alloc",
    "ctx_flags": "contexts take no flags: make_context()",
    "event_flags": "events take no flags: Event()",
    "host_alloc_flags": "page-locked memory takes no flags",
    "device_attribute": "Device.name, compute_capability and total_memory are there; tenon.devices() tells the rest",
    "function_attribute": "Tenon runs no kernels of others",
    "func_cache": "Tenon runs no kernels of others",
    "Function": "Tenon runs no kernels of others",
    "Module": "Tenon runs no kernels of others",
    "In": "copy by memcpy_htod",
    "Out": "copy by memcpy_dtoh",
    "InOut": "copy by memcpy_htod and memcpy_dtoh",
    "Array": "use mem_alloc",
    "TextureReference": "Tenon runs no kernels of others",
    "SurfaceReference": "Tenon runs no kernels of others",
    "IPCMemoryHandle": "processes share no memory of the device here",
    "Memcpy2D": "use memcpy_htod on contiguous arrays",
    "memcpy_peer": "use memcpy_dtoh and memcpy_htod",
    "memcpy_atoh": "use mem_alloc and memcpy_dtoh",
    "start_profiler": "Engine.why() and tenon why tell times of layers",
    "stop_profiler": "Engine.why() and tenon why tell times of layers",
    "initialize_profiler": "Engine.why() and tenon why tell times of layers",
    "cudart": "use tenon.cuda's own functions, or the cuda-python package",
    "compiler": "Tenon compiles no CUDA source",
    "tools": "use mem_alloc",
}

_DEVICES = "name, compute_capability and total_memory are there; tenon.devices() tells the rest"
MEMBERS: Dict[str, Dict[str, str]] = {
    "Device": {
        "get_attribute": _DEVICES,
        "get_attributes": _DEVICES,
        "pci_domain_id": _DEVICES,
        "can_access_peer": "engines run on one GPU",
    },
    "Context": {
        "get_api_version": "get_version gives the driver's",
        "set_limit": "tenon.Limits bounds what is taken",
        "get_limit": "tenon.Limits bounds what is taken",
        "set_cache_config": "Tenon runs no kernels of others",
        "set_shared_config": "Tenon runs no kernels of others",
        "enable_peer_access": "engines run on one GPU",
        "key": "there is one context, the device's primary one",
    },
    "DeviceAllocation": {"as_buffer": "copy by memcpy_dtoh, or take the address: int(allocation)"},
    "Stream": {"wait_value32": "record and synchronize an Event"},
    "Event": {"ipc_handle": "processes share no memory of the device here"},
}


class Members:
    """What its members lack is told as NotImplementedError, with what to use instead."""

    def __getattr__(self, name: str) -> Any:
        from ..tensorrt._types import lacking

        kind = type(self).__name__
        raise lacking(kind, MEMBERS.get(kind, {}), name)
