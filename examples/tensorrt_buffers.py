#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an engine as scripts for TensorRT 8 do it: a host and a device buffer for every binding, execute_async_v2 on a
stream. Written for `import tensorrt as trt`, `import pycuda.driver as cuda` and `import pycuda.autoinit`: only these
lines differ.

usage: tensorrt_buffers.py ENGINE [IMAGE]"""
import sys

import numpy as np

import tenon.cuda as cuda
import tenon.cuda.autoinit  # noqa: F401
import tenon.tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)


class HostDeviceMem:
    def __init__(self, host_mem, device_mem):
        self.host = host_mem
        self.device = device_mem

    def __repr__(self):
        return 'Host: %s Device: %d' % (self.host.shape, int(self.device))


def allocate_buffers(engine, context):
    inputs, outputs, bindings = [], [], []
    stream = cuda.Stream()
    for binding in engine:
        shape = engine.get_binding_shape(binding)
        if -1 in tuple(shape):
            if engine.binding_is_input(binding):
                shape = engine.get_profile_shape(0, binding)[1]
                context.set_binding_shape(engine[binding], shape)
            else:
                shape = context.get_binding_shape(engine[binding])
        size = trt.volume(shape) * engine.max_batch_size
        dtype = trt.nptype(engine.get_binding_dtype(binding))
        host_mem = cuda.pagelocked_empty(size, dtype)
        device_mem = cuda.mem_alloc(host_mem.nbytes)
        bindings.append(int(device_mem))
        if engine.binding_is_input(binding):
            inputs.append(HostDeviceMem(host_mem, device_mem))
        else:
            outputs.append(HostDeviceMem(host_mem, device_mem))
    return inputs, outputs, bindings, stream


def do_inference(context, bindings, inputs, outputs, stream):
    [cuda.memcpy_htod_async(inp.device, inp.host, stream) for inp in inputs]
    context.execute_async_v2(bindings=bindings, stream_handle=stream.handle)
    [cuda.memcpy_dtoh_async(out.host, out.device, stream) for out in outputs]
    stream.synchronize()
    return [out.host for out in outputs]


def main():
    with open(sys.argv[1], 'rb') as f, trt.Runtime(TRT_LOGGER) as runtime:
        engine = runtime.deserialize_cuda_engine(f.read())
    with engine.create_execution_context() as context:
        inputs, outputs, bindings, stream = allocate_buffers(engine, context)
        values = np.random.default_rng(0).random(inputs[0].host.size, dtype=np.float32)
        if len(sys.argv) > 2:
            from PIL import Image

            _, channels, height, width = context.get_binding_shape(0)
            image = Image.open(sys.argv[2]).convert('RGB').resize((width, height))
            values = (np.asarray(image, np.float32).transpose(2, 0, 1) / 255).ravel()
        np.copyto(inputs[0].host, values.astype(inputs[0].host.dtype))
        for name, result in zip([name for name in engine if not engine.binding_is_input(name)],
                                do_inference(context, bindings, inputs, outputs, stream)):
            print(name, context.get_binding_shape(engine.get_binding_index(name)), 'mean %.6f' % result.mean())


if __name__ == '__main__':
    main()
