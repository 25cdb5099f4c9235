#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds an INT8 engine of a YOLOv8 model as scripts for TensorRT do it, calibrator and all. Written for
`import tensorrt as trt` and `import pycuda.driver as cuda`: only these two lines differ.

usage: tensorrt_int8_calibration.py MODEL.onnx FOLDER_OF_IMAGES ENGINE [--batch N] [--cache FILE] [--size 640]"""
import argparse
import os

import numpy as np
from PIL import Image

import tenon.cuda as cuda
import tenon.tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.INFO)


class YoloEntropyCalibrator(trt.IInt8EntropyCalibrator2):
    """Feeds letterboxed images to the calibration, and keeps its cache in a file."""

    def __init__(self, folder, cache_file, batch_size, size):
        super().__init__()
        self.cache_file = cache_file
        self.batch_size = batch_size
        self.size = size
        self.images = sorted(os.path.join(folder, name) for name in os.listdir(folder)
                             if name.lower().endswith(('.jpg', '.jpeg', '.png')))
        self.index = 0
        self.device_input = cuda.mem_alloc(batch_size * 3 * size * size * 4)

    def get_batch_size(self):
        return self.batch_size

    def preprocess(self, path):
        image = Image.open(path).convert('RGB')
        scale = min(self.size / image.width, self.size / image.height)
        resized = image.resize((round(image.width * scale), round(image.height * scale)))
        canvas = Image.new('RGB', (self.size, self.size), (114, 114, 114))
        canvas.paste(resized, ((self.size - resized.width) // 2, (self.size - resized.height) // 2))
        return np.asarray(canvas, dtype=np.float32).transpose(2, 0, 1) / 255.0

    def get_batch(self, names):
        if self.index + self.batch_size > len(self.images):
            return None
        print('calibrating %s with images %d to %d' % (names, self.index, self.index + self.batch_size - 1))
        batch = np.stack([self.preprocess(path) for path in self.images[self.index:self.index + self.batch_size]])
        self.index += self.batch_size
        cuda.memcpy_htod(self.device_input, np.ascontiguousarray(batch))
        return [int(self.device_input)]

    def read_calibration_cache(self):
        if os.path.exists(self.cache_file):
            with open(self.cache_file, 'rb') as f:
                return f.read()
        return None

    def write_calibration_cache(self, cache):
        with open(self.cache_file, 'wb') as f:
            f.write(cache)


def build_engine(onnx_file, engine_file, calibrator):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, TRT_LOGGER)
    with open(onnx_file, 'rb') as model:
        if not parser.parse(model.read()):
            for error in range(parser.num_errors):
                print(parser.get_error(error))
            return None
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    config.builder_optimization_level = 0  # quick: leave this out for the fastest engine
    if builder.platform_has_fast_fp16:
        config.set_flag(trt.BuilderFlag.FP16)
    if builder.platform_has_fast_int8:
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = calibrator
    input_tensor = network.get_input(0)
    if -1 in tuple(input_tensor.shape):
        shape = [calibrator.batch_size] + [size if size > 0 else calibrator.size for size in input_tensor.shape[1:]]
        shape[1] = 3
        profile = builder.create_optimization_profile()
        profile.set_shape(input_tensor.name, min=[1] + shape[1:], opt=shape, max=shape)
        config.add_optimization_profile(profile)
        config.set_calibration_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        return None
    with open(engine_file, 'wb') as f:
        f.write(plan)
    return plan


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('images')
    parser.add_argument('engine')
    parser.add_argument('--batch', type=int, default=1)
    parser.add_argument('--cache', default='calibration.cache')
    parser.add_argument('--size', type=int, default=640)
    args = parser.parse_args()

    cuda.init()
    context = cuda.Device(0).make_context()
    try:
        calibrator = YoloEntropyCalibrator(args.images, args.cache, args.batch, args.size)
        plan = build_engine(args.model, args.engine, calibrator)
        if plan is None:
            raise SystemExit('the engine could not be built')
        print('%s: %d bytes, cache %s' % (args.engine, plan.nbytes, args.cache))
    finally:
        context.pop()


if __name__ == '__main__':
    main()
