# SPDX-License-Identifier: Apache-2.0
"""TensorRT's interface: names that are not offered, and what scripts get wrong."""

import mmap

import numpy as np
import pytest
from tensorrt_test import Batches, Lines, net, onnx_model, parsed, with_profile  # noqa: F401: net is a fixture

import tenon.cuda as cuda
import tenon.tensorrt as trt


def test_a_get_batch_that_fails_is_the_cause(net, tmp_path, capsys):
    class Broken(Batches):
        def get_batch(self, names):
            raise ValueError('the file is lost')

    logger = Lines()
    builder, network, config = parsed(net, logger)
    with_profile(builder, config)
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = Broken(str(tmp_path / 'x'))
    assert builder.build_serialized_network(network, config) is None
    errors = [text for severity, text in logger.lines if severity == trt.Logger.ERROR]
    assert len(errors) == 1 and "get_batch failed" in errors[0] and 'ValueError: the file is lost' in errors[0]
    assert 'there is no calibration data' not in errors[0] and 'lost' in capsys.readouterr().err


def test_memory_of_others_that_is_gone_is_told(tmp_path):
    if cuda.Device.count() > 0:
        pytest.skip('the driver checks a GPU\'s memory')
    from onnx import helper

    class Forgetful(Batches):
        def get_batch(self, names):
            values = mmap.mmap(-1, 4 * 3 * 512 * 512)
            address = np.frombuffer(values, np.uint8).ctypes.data
            del values  # as a tensor that lives no longer than this call
            return [address]

    logger = Lines()
    nodes = [helper.make_node('Relu', ['x'], ['y'])]
    model = onnx_model(nodes, [('x', 'FLOAT', [1, 3, 512, 512])], [('y', 'FLOAT', [1, 3, 512, 512])])
    builder, network, config = parsed(model, logger)
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = Forgetful(str(tmp_path / 'x'))
    assert builder.build_serialized_network(network, config) is None
    assert 'keep the tensor whose address it is' in logger.lines[-1][1]


def test_names_that_are_not_offered_say_what_to_use(net):
    for name in ('HardwareCompatibilityLevel', 'Permutation', 'get_builder_plugin_registry', 'IStreamReader',
                 'ResizeMode', 'ExecutionContextAllocationStrategy', 'SerializationFlag', 'PluginField',
                 'IGpuAllocator'):
        assert not hasattr(trt, name)
        with pytest.raises(NotImplementedError, match='is not offered: .'):
            getattr(trt, name)
    for name in ('managed_empty', 'get_driver_version', 'SourceModule'):
        assert not hasattr(cuda, name)
        with pytest.raises(NotImplementedError, match='is not offered: .'):
            getattr(cuda, name)
    for owner, name in ((cuda.Device(0), 'get_attribute'), (cuda.mem_alloc(4), 'as_buffer')):
        with pytest.raises(NotImplementedError, match='is not offered: .'):
            getattr(owner, name)
    builder, network, config = parsed(net)
    with_profile(builder, config)
    engine = builder.build_engine(network, config)
    context = engine.create_execution_context()
    for owner, name in ((engine, 'device_memory_size_v2'), (engine, 'create_serialization_config'),
                        (engine, 'create_runtime_config'), (config, 'algorithm_selector'), (network, 'add_shuffle'),
                        (context, 'temporary_allocator'), (builder, 'get_plugin_registry'), (network, 'mark_debug')):
        assert not hasattr(owner, name)
        with pytest.raises(NotImplementedError, match='is not offered: .'):
            getattr(owner, name)
    with pytest.raises(AttributeError) as caught:
        engine.no_such_thing
    assert not isinstance(caught.value, NotImplementedError)


def test_flags_that_are_not_offered_say_so(net):
    logger = Lines()
    builder, network, config = parsed(net, logger)
    with_profile(builder, config)
    with pytest.raises(NotImplementedError, match='BuilderFlag.FP4 is not offered: .*use INT8'):
        config.set_flag(trt.BuilderFlag.FP4)
    assert not config.get_flag(trt.BuilderFlag.FP4)
    for flag in (trt.BuilderFlag.INT4, trt.BuilderFlag.WEIGHT_STREAMING, trt.BuilderFlag.VERSION_COMPATIBLE):
        config.set_flag(flag)
    assert builder.build_serialized_network(network, config) is not None
    told = [text for severity, text in logger.lines if severity == trt.Logger.WARNING]
    assert len(told) == 3 and 'BuilderFlag.INT4: ' in told[0] and 'weights="int4"' in told[0]
    config.flags |= 1 << int(trt.BuilderFlag.FP4)
    assert builder.build_serialized_network(network, config) is None
    assert logger.lines[-1][0] == trt.Logger.ERROR and 'BuilderFlag.FP4 is not offered' in logger.lines[-1][1]


def test_layers_without_a_form_in_int8_may_be_held(tmp_path):
    """As exporters hold every Sigmoid; and a product of two activations."""
    from onnx import helper, numpy_helper

    weights = numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype('float32'), 'w')
    nodes = [helper.make_node('Conv', ['x', 'w'], ['c'], name='conv', kernel_shape=[3, 3], pads=[1] * 4),
             helper.make_node('Sigmoid', ['c'], ['s'], name='sigmoid'),
             helper.make_node('MatMul', ['s', 'c'], ['y'], name='product')]
    model = onnx_model(nodes, [('x', 'FLOAT', [2, 3, 8, 8])], [('y', 'FLOAT', [2, 4, 8, 8])], [weights])
    builder, network, config = parsed(model)
    config.set_flag(trt.BuilderFlag.INT8)
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    calibrator = config.int8_calibrator = Batches(str(tmp_path / 'x'))
    for layer in network:
        if layer.type in (trt.LayerType.ACTIVATION, trt.LayerType.MATRIX_MULTIPLY):
            layer.precision = trt.float32
            layer.set_output_type(0, trt.float32)
    assert builder.build_serialized_network(network, config) is not None
    assert sum(isinstance(call, tuple) for call in calibrator.calls) == 4  # the data is read once


def test_unknown_attributes_are_not_set(net):
    builder, network, config = parsed(net)
    with_profile(builder, config)
    engine = builder.build_engine(network, config)
    owners = (builder, network, config, engine, engine.create_execution_context(), network.get_input(0),
              network.get_layer(0), builder.create_optimization_profile(), trt.Runtime(trt.Logger()))
    for owner in owners:
        with pytest.raises(AttributeError, match='no attribute'):
            owner.nonexistent_thing = 1
    with pytest.raises(NotImplementedError):
        config.hardware_compatibility_level = 1
    config.max_workspace_size, config.avg_timing_iterations, builder.fp16_mode = 1 << 20, 4, True
    network.get_input(0).location = trt.TensorLocation.HOST

    class Own(trt.IBuilderConfig):
        pass

    own = Own(trt.Logger())
    own.anything = 1
    assert own.anything == 1


def test_device_memory_is_checked_where_there_is_no_gpu(net):
    if cuda.Device.count() > 0:
        pytest.skip('the driver checks a GPU\'s memory')
    block, values = cuda.mem_alloc(16), np.arange(4, dtype='float32')
    cuda.memcpy_htod(block, values)
    back = np.zeros(2, 'float32')
    cuda.memcpy_dtoh(back, int(block) + 8)
    assert back.tolist() == [2, 3]
    for call in (lambda: cuda.memcpy_htod(block, np.zeros(40, 'float32')), lambda: cuda.memcpy_htod(123456, values),
                 lambda: cuda.memcpy_htod(int(block) + 8, values), lambda: cuda.memset_d8(block, 0, 17),
                 lambda: cuda.memcpy_dtoh_async(np.zeros(5, 'float32'), block), lambda: cuda.memcpy_htod(None, values),
                 lambda: cuda.memcpy_dtod(block, block, 17)):
        with pytest.raises(cuda.LogicError):
            call()
    address = int(block)
    block.free()
    for call in (block.free, lambda: cuda.memcpy_htod(block, values), lambda: cuda.memcpy_htod(address, values)):
        with pytest.raises(cuda.LogicError, match='freed'):
            call()
    logger = Lines()
    builder, network, config = parsed(net, logger)
    with_profile(builder, config)
    context = builder.build_engine(network, config).create_execution_context()
    context.set_input_shape('x', (2, 3, 8, 8))
    small, out = cuda.mem_alloc(16), cuda.mem_alloc(32)
    assert context.execute_v2([int(small), int(out)]) is False
    assert any('the memory of x is too small' in text for _, text in logger.lines)
