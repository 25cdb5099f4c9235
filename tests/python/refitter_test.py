# SPDX-License-Identifier: Apache-2.0
"""TensorRT's interface: other weights for an engine that is there."""

import numpy as np
import pytest
from conftest import onnx_model

import tenon
import tenon.cuda as cuda
import tenon.tensorrt as trt

pytest.importorskip('onnx', reason='no onnx')
X = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype('float32')


def net(seed=0, bias_name='b'):
    """x [2,3,8,8] -> relu(conv + bias): y."""
    from onnx import helper, numpy_helper

    values = np.random.default_rng(seed)
    weights = values.standard_normal((4, 3, 1, 1)).astype('float32')
    bias = values.standard_normal(4).astype('float32')
    nodes = [helper.make_node('Conv', ['x', 'w', bias_name], ['c'], name='conv'),
             helper.make_node('Relu', ['c'], ['y'], name='relu')]
    constants = [numpy_helper.from_array(weights, 'w'), numpy_helper.from_array(bias, bias_name)]
    model = onnx_model(nodes, [('x', 'FLOAT', [2, 3, 8, 8])], [('y', 'FLOAT', [2, 4, 8, 8])], constants)
    return model, weights, bias


def expected(weights, bias):
    return np.maximum(np.einsum('oi,nihw->nohw', weights[:, :, 0, 0], X) + bias[:, None, None], 0)


def plan_of(model, *flags, logger=None):
    logger = logger or trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    assert trt.OnnxParser(network, logger).parse(model)
    config = builder.create_builder_config()
    config.builder_optimization_level = 0
    for flag in flags:
        config.set_flag(flag)
    return builder.build_serialized_network(network, config)


def run(context):
    host = np.empty((2, 4, 8, 8), 'float32')
    source, target = cuda.mem_alloc(X.nbytes), cuda.mem_alloc(host.nbytes)
    cuda.memcpy_htod(source, X)
    assert context.execute_v2([int(source), int(target)])
    cuda.memcpy_dtoh(host, target)
    return host


@pytest.fixture
def engine():
    runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
    return runtime.deserialize_cuda_engine(plan_of(net()[0], trt.BuilderFlag.REFIT))


def test_named_weights_and_roles(engine):
    _, weights, bias = net()
    context = engine.create_execution_context()
    assert engine.refittable and np.allclose(run(context), expected(weights, bias), atol=1e-4)
    refitter = trt.Refitter(engine, trt.Logger(trt.Logger.ERROR))
    assert refitter.get_all_weights() == ['w', 'b'] and refitter.get_missing_weights() == []
    assert refitter.get_all() == (['conv', 'conv'], [trt.WeightsRole.KERNEL, trt.WeightsRole.BIAS])
    assert (refitter.get_named_weights('b').numpy() == bias).all()
    assert refitter.set_named_weights('w', trt.Weights(-weights))
    assert refitter.set_weights('conv', trt.WeightsRole.BIAS, bias + 1)
    assert np.allclose(run(context), expected(weights, bias), atol=1e-4), 'nothing changes before the refit'
    assert refitter.refit_cuda_engine()
    assert np.allclose(run(context), expected(-weights, bias + 1), atol=1e-4)
    again = trt.Runtime(trt.Logger()).deserialize_cuda_engine(engine.serialize())
    assert again.refittable
    assert np.allclose(run(again.create_execution_context()), expected(-weights, bias + 1), atol=1e-4)


def test_weights_of_another_model(engine, tmp_path):
    model, weights, bias = net(seed=5)
    (tmp_path / 'm.onnx').write_bytes(model)
    refitter = trt.Refitter(engine, trt.Logger())
    parser = trt.OnnxParserRefitter(refitter, trt.Logger(trt.Logger.ERROR))
    assert parser.refit_from_file(str(tmp_path / 'm.onnx')) and refitter.refit_cuda_engine()
    assert np.allclose(run(engine.create_execution_context()), expected(weights, bias), atol=1e-4)
    assert not parser.refit_from_bytes(b'this is no model') and parser.num_errors == 1


def test_a_model_without_a_weight_is_told(engine, capsys):
    parser = trt.OnnxParserRefitter(trt.Refitter(engine, trt.Logger()), trt.Logger(trt.Logger.ERROR))
    assert not parser.refit_from_bytes(net(bias_name='other')[0]) and parser.num_errors == 1
    assert 'no weights called b' in parser.get_error(0).desc()
    assert 'no weights called b' in capsys.readouterr().out
    parser.clear_errors()
    assert parser.num_errors == 0


def test_what_does_not_fit_is_told(engine, capsys):
    refitter = trt.Refitter(engine, trt.Logger(trt.Logger.ERROR))
    assert not refitter.set_named_weights('v', np.zeros(4, 'float32'))
    assert not refitter.set_named_weights('b', np.zeros(5, 'float32'))
    assert not refitter.set_named_weights('b', np.zeros(4))
    assert not refitter.set_weights('relu', trt.WeightsRole.KERNEL, np.zeros(4, 'float32'))
    out = capsys.readouterr().out
    for text in ('no weights are called v', '4 values of DataType.FLOAT, not 5', 'layer relu has no'):
        assert text in out
    plain = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan_of(net()[0]))
    assert not plain.refittable
    with pytest.raises(TypeError, match='BuilderFlag.REFIT'):
        trt.Refitter(plain, trt.Logger(trt.Logger.INTERNAL_ERROR))


def test_a_plan_with_weights_is_no_larger_than_both(engine):
    model = net()[0]
    plain, refittable = plan_of(model), plan_of(model, trt.BuilderFlag.REFIT)
    assert len(plain) + len(model) < len(refittable) < len(plain) + len(model) + 4096
    assert tenon.load(bytes(plain)).inputs[0].name == 'x'
