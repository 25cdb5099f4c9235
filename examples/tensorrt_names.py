#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an engine as scripts for TensorRT 10 do it: tensors by name, addresses, execute_async_v3. Written for
`import tensorrt as trt` and `import pycuda.driver as cuda`: only these lines differ.

usage: tensorrt_names.py ENGINE"""
import sys

import numpy as np

import tenon.cuda as cuda
import tenon.cuda.autoprimaryctx  # noqa: F401
import tenon.tensorrt as trt


def main():
    logger = trt.Logger(trt.Logger.ERROR)
    runtime = trt.Runtime(logger)
    with open(sys.argv[1], 'rb') as f:
        engine = runtime.deserialize_cuda_engine(f.read())
    context = engine.create_execution_context()
    stream = cuda.Stream()
    host, device = {}, {}
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    for name in names:
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            shape = engine.get_tensor_shape(name)
            if -1 in shape:
                shape = engine.get_tensor_profile_shape(name, 0)[1]
            assert context.set_input_shape(name, shape)
    assert not context.infer_shapes()
    for name in names:
        host[name] = np.empty(tuple(context.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
        device[name] = cuda.mem_alloc(max(1, host[name].nbytes))
        context.set_tensor_address(name, device[name])
    for name in names:
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            host[name][...] = np.random.default_rng(0).random(host[name].shape)
            cuda.memcpy_htod_async(device[name], host[name], stream)
    assert context.execute_async_v3(stream.handle)
    for name in names:
        if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
            cuda.memcpy_dtoh_async(host[name], device[name], stream)
    stream.synchronize()
    for name in names:
        if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
            print(name, host[name].shape, 'mean %.6f' % host[name].mean())


if __name__ == '__main__':
    main()
