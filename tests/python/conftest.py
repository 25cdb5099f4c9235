# SPDX-License-Identifier: Apache-2.0
"""What several tests use: models, and the samples of the repository."""

import os

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
SAMPLES = os.path.join(ROOT, 'samples')


@pytest.fixture(scope='session', autouse=True)
def private_caches(tmp_path_factory):
    """Kernel times of tests stay out of the user's folder."""
    os.environ['TENON_CACHE_DIR'] = str(tmp_path_factory.mktemp('cache'))


def onnx_model(nodes, inputs, outputs, initializers=(), opset=17, **metadata):
    """Bytes of a model. Inputs and outputs are (name, type, sizes)."""
    onnx = pytest.importorskip('onnx', reason='no onnx')
    from onnx import helper

    def info(name, kind, sizes):
        return helper.make_tensor_value_info(name, getattr(onnx.TensorProto, kind), sizes)

    graph = helper.make_graph(
        nodes, 'test', [info(*one) for one in inputs], [info(*one) for one in outputs], list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', opset)], ir_version=8)
    helper.set_model_props(model, metadata)
    return model.SerializeToString()


@pytest.fixture(scope='session')
def tiny():
    """y = relu(a * x): as little work as a model can be."""
    numpy = pytest.importorskip('numpy')
    helper = pytest.importorskip('onnx.helper')
    numpy_helper = pytest.importorskip('onnx.numpy_helper')
    scale = numpy_helper.from_array(numpy.arange(4, dtype='float32') - 1, 'a')
    nodes = [helper.make_node('Mul', ['x', 'a'], ['m']), helper.make_node('Relu', ['m'], ['y'])]
    return onnx_model(nodes, [('x', 'FLOAT', [1, 4])], [('y', 'FLOAT', [1, 4])], [scale], license='none')


@pytest.fixture(scope='session')
def two_ends():
    """sum = p + q, product = p * q, of a free batch."""
    helper = pytest.importorskip('onnx.helper')
    nodes = [helper.make_node('Add', ['p', 'q'], ['sum']), helper.make_node('Mul', ['p', 'q'], ['product'])]
    ends = [('p', 'FLOAT', ['batch', 3]), ('q', 'FLOAT', ['batch', 3])]
    return onnx_model(nodes, ends, [('sum', 'FLOAT', ['batch', 3]), ('product', 'FLOAT', ['batch', 3])])


@pytest.fixture(scope='session')
def engine(tiny):
    import tenon

    # One thread: what matters here is the call.
    return tenon.build(tiny, budget=0, threads=1)


@pytest.fixture(scope='session')
def detector():
    path = os.path.join(SAMPLES, 'detector.onnx')
    if not os.path.exists(path):
        pytest.skip('samples/detector.onnx is not there')
    return path
