# SPDX-License-Identifier: Apache-2.0
"""TensorRT's interface: the patterns of calibrate-build-run scripts."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, SAMPLES, onnx_model

import tenon
import tenon.cuda as cuda
import tenon.tensorrt as trt

pytest.importorskip('onnx', reason='no onnx')
EXPLICIT_BATCH = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)


class Lines(trt.ILogger):
    """Keeps what is told."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        self.lines.append((severity, msg))


@pytest.fixture(scope='module')
def net():
    """x [n,3,8,8] -> relu(conv) -> mean: y [n,4]."""
    from onnx import helper, numpy_helper

    weights = numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype('float32'), 'w')
    nodes = [helper.make_node('Conv', ['x', 'w'], ['c'], name='conv', kernel_shape=[3, 3], pads=[1] * 4),
             helper.make_node('Relu', ['c'], ['r'], name='relu'),
             helper.make_node('GlobalAveragePool', ['r'], ['p'], name='pool'),
             helper.make_node('Flatten', ['p'], ['y'], name='flatten')]
    return onnx_model(nodes, [('x', 'FLOAT', ['n', 3, 8, 8])], [('y', 'FLOAT', ['n', 4])], [weights])


def parsed(model, logger=None):
    logger = logger or trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(EXPLICIT_BATCH)
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(model), [str(parser.get_error(at)) for at in range(parser.num_errors)]
    config = builder.create_builder_config()
    config.builder_optimization_level = 0
    return builder, network, config


def with_profile(builder, config, low=1, usual=2, high=4):
    profile = builder.create_optimization_profile()
    assert not profile
    profile.set_shape('x', (low, 3, 8, 8), (usual, 3, 8, 8), (high, 3, 8, 8))
    assert profile and config.add_optimization_profile(profile) == 0
    return profile


def built(model, **profile):
    builder, network, config = parsed(model)
    with_profile(builder, config, **profile)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None and plan.nbytes == len(plan)
    return trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan)


def test_values():
    assert str(trt.DataType.FLOAT) == 'DataType.FLOAT' and trt.float32 is trt.DataType.FLOAT
    assert trt.nptype(trt.float16) is np.float16 and trt.nptype(trt.bool) is np.bool_
    with pytest.raises(TypeError):
        trt.nptype(trt.bfloat16)
    assert trt.volume((2, 3, -1)) == -6 and trt.volume(()) == 1
    dims = trt.Dims([1, 3, 640, 640])
    assert dims == (1, 3, 640, 640) and repr(dims) == '(1, 3, 640, 640)' and dims[:2] + dims[3:] == (1, 3, 640)
    n, c, h, w = dims
    assert h == 640 and [n] + list(dims[1:]) == [1, 3, 640, 640] and np.zeros(trt.Dims([2, 2])).shape == (2, 2)
    assert repr(trt.Dims([5])) == '(5,)'
    with pytest.raises(ValueError):
        trt.Dims3([1, 2])
    assert trt.__version__[0] >= '7' and int(trt.__version__.split('.')[0]) >= 8
    assert 1 << int(trt.BuilderFlag.INT8) == 2 and trt.BuilderFlag.FP16 == trt.BuilderFlag(0)
    assert trt.init_libnvinfer_plugins(None, '') and trt.get_plugin_registry().plugin_creator_list == ()


def test_logger_lines(capsys):
    logger = trt.Logger(trt.Logger.WARNING)
    logger.log(trt.Logger.INFO, 'no')
    logger.log(trt.Logger.ERROR, 'yes')
    out = capsys.readouterr().out
    assert out.endswith('] [TRT] [E] yes\n') and 'no' not in out.replace('\n', '')


def test_network_is_read(net):
    _, network, _ = parsed(net)
    assert network.num_inputs == 1 and network.get_input(0).name == 'x' and network.get_input(0).shape[0] == -1
    assert [layer.name for layer in network] == ['conv', 'relu', 'pool', 'flatten'] and len(network) == 4
    assert network[0].type == trt.LayerType.CONVOLUTION and network[-1].get_output(0).name == 'y'
    assert network.get_layer(1).get_input(0) is network.get_layer(0).get_output(0)
    assert network.get_input(3) is None and network.get_output(0).is_network_output


def test_parse_errors_are_listed():
    logger = Lines()
    network = trt.Builder(logger).create_network(EXPLICIT_BATCH)
    parser = trt.OnnxParser(network, logger)
    assert not parser.parse(b'this is no model') and parser.num_errors == 1
    error = parser.get_error(0)
    assert str(error).startswith('In node -1') and error.desc() and error.code().name and error.line() == 0
    assert logger.lines[0][0] == trt.Logger.ERROR


def test_bindings_and_buffers(net):
    engine = built(net)
    context = engine.create_execution_context()
    assert engine and len(engine) == engine.num_bindings == 2 and list(engine) == ['x', 'y']
    assert engine[0] == 'x' and engine['y'] == 1 and engine[-1] == 'y' and engine.get_binding_index('z') == -1
    with pytest.raises(IndexError):
        engine[2]
    assert engine.binding_is_input(0) and not engine.binding_is_input('y') and engine.max_batch_size == 1
    assert engine.get_binding_shape('x') == (-1, 3, 8, 8) and engine.get_profile_shape(0, 'x')[2] == (4, 3, 8, 8)
    assert list(filter(engine.binding_is_input, engine)) == ['x']
    assert context.set_binding_shape(0, (3, 3, 8, 8)) and context.get_binding_shape(1) == (3, 4)
    assert not context.set_binding_shape(0, (5, 3, 8, 8)) and not context.set_binding_shape(0, (3, 8, 8))
    x = np.random.default_rng(1).standard_normal((3, 3, 8, 8)).astype('float32')
    y = cuda.pagelocked_empty(12, np.float32)
    inputs, outputs, stream = cuda.mem_alloc(x.nbytes), cuda.mem_alloc(y.nbytes), cuda.Stream()
    cuda.memcpy_htod_async(inputs, np.ascontiguousarray(x), stream)
    assert context.execute_async_v2([int(inputs), outputs], stream.handle)
    cuda.memcpy_dtoh_async(y, outputs, stream)
    stream.synchronize()
    expected = tenon.build(net, budget=0)(x)
    assert np.allclose(y.reshape(3, 4), expected, atol=1e-5)
    y[:] = 0
    assert context.execute_v2(bindings=[inputs, np.int64(int(outputs))])
    cuda.memcpy_dtoh(y, outputs)
    assert np.allclose(y.reshape(3, 4), expected, atol=1e-5)


def test_tensor_names(net):
    engine = built(net)
    context = engine.create_execution_context()
    assert [engine.get_tensor_name(at) for at in range(engine.num_io_tensors)] == ['x', 'y']
    assert engine.get_tensor_mode('x') == trt.TensorIOMode.INPUT and engine.get_tensor_dtype('y') == trt.float32
    assert context.infer_shapes() == ['x'] and context.set_input_shape('x', (2, 3, 8, 8)) and not context.infer_shapes()
    logger_says_no = context.execute_async_v3(0)
    assert not logger_says_no
    x, y = np.ones((2, 3, 8, 8), np.float32), np.zeros((2, 4), np.float32)
    device_x, device_y = cuda.to_device(x), cuda.mem_alloc(y.nbytes)
    assert context.set_tensor_address('x', device_x) and context.set_tensor_address('y', int(device_y))
    assert not context.set_tensor_address('z', 1)
    assert context.execute_async_v3(stream_handle=0)
    cuda.memcpy_dtoh(y, device_y)
    assert np.allclose(y, tenon.build(net, budget=0)(x), atol=1e-5)


def test_dynamic_inputs_need_a_profile(net):
    logger = Lines()
    builder, network, config = parsed(net, logger)
    assert builder.build_serialized_network(network, config) is None
    assert any('no optimization profile' in text for _, text in logger.lines)
    with pytest.raises(RuntimeError):
        builder.create_optimization_profile().set_shape('x', (2, 3), (1, 3), (4, 3))


def test_network_edits(net):
    builder, network, config = parsed(net)
    network.get_input(0).shape = [1, 3, 8, 8]
    network.get_input(0).name = 'input'
    network.mark_output(network[1].get_output(0))
    engine = builder.build_engine(network, config)
    assert list(engine) == ['input', 'y', 'r'] and engine.get_binding_shape('input') == (1, 3, 8, 8)
    assert engine.get_binding_shape('r') == (1, 4, 8, 8)
    context = engine.create_execution_context()
    assert context.get_binding_shape(0) == (1, 3, 8, 8) and context.set_binding_shape(0, (1, 3, 8, 8))


class Batches(trt.IInt8EntropyCalibrator2):
    """One memory for all batches, as scripts have it."""

    def __init__(self, cache, count=3):
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.calls, self.cache, self.left = [], cache, count
        self.memory = cuda.mem_alloc(2 * 3 * 8 * 8 * 4)

    def get_batch_size(self):
        return 2

    def get_batch(self, names):
        self.calls.append(('batch', list(names)))
        if self.left == 0:
            return None
        self.left -= 1
        values = np.random.default_rng(self.left).standard_normal((2, 3, 8, 8)).astype('float32')
        cuda.memcpy_htod(self.memory, values)
        return [self.memory]

    def read_calibration_cache(self):
        self.calls.append('read')
        if os.path.exists(self.cache):
            with open(self.cache, 'rb') as file:
                return file.read()

    def write_calibration_cache(self, cache):
        self.calls.append('write')
        assert isinstance(cache, memoryview) and len(cache.tobytes()) > 0
        with open(self.cache, 'wb') as file:
            file.write(cache)


def int8_engine(net, calibrator):
    builder, network, config = parsed(net)
    profile = with_profile(builder, config)
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = calibrator
    assert config.int8_calibrator is calibrator and config.get_flag(trt.BuilderFlag.INT8)
    config.set_calibration_profile(profile)
    return builder.build_engine(network, config)


def test_int8_with_a_calibrator_and_its_cache(net, tmp_path):
    cache = str(tmp_path / 'c.cache')
    first = Batches(cache)
    assert int8_engine(net, first) is not None
    assert first.calls[0] == 'read' and first.calls.count(('batch', ['x'])) == 4 and first.calls[-1] == 'write'
    second = Batches(cache)
    assert int8_engine(net, second) is not None
    assert 'read' in second.calls and ('batch', ['x']) not in second.calls


def test_an_exception_in_get_batch_ends_the_data(net, tmp_path, capsys):
    class Broken(Batches):
        def get_batch(self, names):
            if self.left < 3:
                raise ValueError('lost')
            return super().get_batch(names)

    assert int8_engine(net, Broken(str(tmp_path / 'x'))) is not None
    assert 'Exception caught in get_batch(): lost' in capsys.readouterr().err


def test_int8_without_a_calibrator_warns(net):
    logger = Lines()
    builder, network, config = parsed(net, logger)
    with_profile(builder, config)
    config.set_flag(trt.BuilderFlag.INT8)
    assert builder.build_engine(network, config) is not None
    assert any('Calibrator is not being used' in text for _, text in logger.lines)


def test_layers_that_a_script_holds_in_floating_point(net, tmp_path):
    builder, network, config = parsed(net)
    with_profile(builder, config)
    config.set_flag(trt.BuilderFlag.INT8)
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    config.int8_calibrator = Batches(str(tmp_path / 'x'))
    for layer in network:
        if layer.type == trt.LayerType.CONVOLUTION:
            layer.precision = trt.DataType.HALF
            layer.set_output_type(0, trt.DataType.FLOAT)
    engine = builder.build_engine(network, config)
    layers = engine._engine.inspect()['layers']
    assert all(layer['precision'] != 'int8' for layer in layers if 'conv' in layer['origins'])


def test_as_tensorrt_7_had_it(net, tmp_path):
    with trt.Builder(trt.Logger()) as builder, builder.create_network(*[EXPLICIT_BATCH]) as network, \
            trt.OnnxParser(network, trt.Logger()) as parser:
        builder.max_workspace_size = 1 << 28
        builder.fp16_mode = True
        builder.max_batch_size = 1
        assert parser.parse(net)
        network.get_input(0).shape = [1, 3, 8, 8]
        engine = builder.build_cuda_engine(network)
    path = tmp_path / 'e.trt'
    path.write_bytes(engine.serialize())
    with open(path, 'rb') as file, trt.Runtime(trt.Logger()) as runtime:
        assert len(runtime.deserialize_cuda_engine(file.read())) == 2


def test_wrong_bytes_give_none():
    logger = Lines()
    assert trt.Runtime(logger).deserialize_cuda_engine(b'ftrt' * 100) is None
    assert 'Serialization' in logger.lines[0][1]


def test_inspector_and_profiler(net):
    builder, network, config = parsed(net)
    with_profile(builder, config)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    engine = builder.build_engine(network, config)
    context = engine.create_execution_context()
    inspector = engine.create_engine_inspector()
    inspector.execution_context = context
    layers = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))['Layers']
    assert layers and layers[0]['TacticName'] and engine.num_layers == len(layers)

    class Times(trt.IProfiler):
        def __init__(self):
            trt.IProfiler.__init__(self)
            self.times = {}

        def report_layer_time(self, layer_name, ms):
            self.times[layer_name] = ms

    context.profiler = Times()
    context.set_input_shape('x', (2, 3, 8, 8))
    assert context.execute_v2([cuda.mem_alloc(2 * 192 * 4), cuda.mem_alloc(32)])
    assert context.profiler.times


def test_outputs_whose_size_depends_on_data():
    from onnx import helper

    model = onnx_model([helper.make_node('NonZero', ['x'], ['y'])], [('x', 'FLOAT', [6])], [('y', 'INT64', [1, 'k'])])
    builder, network, config = parsed(model)
    engine = builder.build_engine(network, config)
    context = engine.create_execution_context()

    class Allocator(trt.IOutputAllocator):
        def __init__(self):
            trt.IOutputAllocator.__init__(self)
            self.memory = self.shape = None

        def reallocate_output(self, tensor_name, memory, size, alignment):
            self.memory = cuda.mem_alloc(size)
            return int(self.memory)

        def notify_shape(self, tensor_name, shape):
            self.shape = tuple(shape)

    allocator, x = Allocator(), cuda.to_device(np.array([0, 1, 0, 2, 3, 0], np.float32))
    context.set_tensor_address('x', x)
    context.set_tensor_address('y', 0)
    context.set_output_allocator('y', allocator)
    assert context.execute_async_v3(0) and allocator.shape == (1, 3)
    assert cuda.from_device(allocator.memory, (1, 3), np.int64).tolist() == [[1, 3, 4]]


def test_what_is_not_offered_is_absent_and_says_so(net):
    assert not hasattr(trt, 'UffParser') and not hasattr(cuda, 'SourceModule')
    with pytest.raises(NotImplementedError, match='ONNX'):
        trt.UffParser()
    _, network, config = parsed(net)
    with pytest.raises(NotImplementedError, match='build the ONNX model'):
        network.add_activation(None, None)
    assert hasattr(config, 'set_memory_pool_limit') and not hasattr(config, 'nothing')


def test_memory_of_the_device():
    cuda.init()
    context = cuda.Device(0).make_context()
    values = np.arange(12, dtype='float32').reshape(3, 4)
    memory = cuda.mem_alloc(np.int64(values.nbytes))
    cuda.memcpy_htod(memory, values)
    other = cuda.mem_alloc_like(values)
    cuda.memcpy_dtod(other, memory, values.nbytes)
    back = cuda.pagelocked_empty((3, 4), np.float32)
    cuda.memcpy_dtoh(back, other)
    assert (back == values).all() and int(memory) % 64 == 0
    cuda.memset_d32(other, 7, 12)
    assert (cuda.from_device(other, (12,), np.uint32) == 7).all()
    with pytest.raises(ValueError):
        cuda.memcpy_htod(memory, np.zeros((4, 4), 'float32')[:, ::2])
    start, end = cuda.Event().record(), cuda.Event().record()
    assert end.time_since(start) >= 0 and cuda.mem_get_info()[0] <= cuda.mem_get_info()[1]
    memory.free()
    context.pop()
    with pytest.raises(cuda.LogicError):
        while True:
            context.pop()


def run(*words):
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_in_the_old_style(detector, tmp_path):
    pytest.importorskip('PIL', reason='no Pillow')
    examples, size = os.path.join(ROOT, 'examples'), str(tenon._core.stated_inputs(detector)[0].shape[-1])
    if int(size) < 0:
        size = '640'
    engine, cache = str(tmp_path / 'd.engine'), str(tmp_path / 'd.cache')
    out = run(os.path.join(examples, 'tensorrt_int8_calibration.py'), detector, os.path.join(SAMPLES, 'images'), engine,
              '--cache', cache, '--size', size)
    assert 'calibrating [' in out and os.path.getsize(cache) > 0
    first = run(os.path.join(examples, 'tensorrt_buffers.py'), engine)
    assert first == run(os.path.join(examples, 'tensorrt_buffers.py'), engine) and 'mean' in first
    assert 'mean' in run(os.path.join(examples, 'tensorrt_names.py'), engine)
