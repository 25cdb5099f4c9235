# SPDX-License-Identifier: Apache-2.0
"""Ops that are Python functions."""

import threading

import numpy
import pytest
from conftest import onnx_model

import tenon

X = numpy.array([[1, 2, 3, 4]], 'float32')


def model(op, outputs=('y',), inputs=('x',), sizes=(1, 4), given=None, **attributes):
    helper = pytest.importorskip('onnx.helper')
    domain, name = op.split('::')
    node = helper.make_node(name, list(inputs), list(outputs), domain=domain, name='mine', **attributes)
    after = [helper.make_node('Relu', [one], [one + '_out']) for one in outputs]
    made = onnx_model([node, *after], [(one, 'FLOAT', list(sizes)) for one in inputs if one],
                      [(one + '_out', 'FLOAT', given) for one in outputs])
    import onnx

    proto = onnx.load_from_string(made)
    proto.opset_import.append(helper.make_opsetid(domain, 1))
    return proto


def test_a_function_is_an_op():
    @tenon.custom_op('test.one::Swirl')
    def swirl(x, *, turns=1.0, by=(0,)):
        assert x.flags.writeable and x.dtype == numpy.float32
        return x * turns + sum(by)

    assert (swirl(X, turns=2.0) == 2 * X).all(), 'it is still the function'
    engine = tenon.build(model('test.one::Swirl', turns=3.0, by=[1, 2]), budget=0)
    assert numpy.allclose(engine(X), 3 * X + 3)
    assert (tenon.load(engine.serialize())(X) == engine(X)).all()
    with pytest.raises(tenon.Error, match='cannot be added'):
        tenon.custom_op('test.one::Swirl')(swirl)


def test_types_and_several_outputs():
    def types(x, **_):
        return [tenon.TensorType('float32', x.shape and (x.shape[0], 2)), tenon.TensorType(x.dtype, x.shape)]

    @tenon.custom_op('test.two::Split', infer=types, outputs=2)
    def split(x):
        return [x[:, :2], x[:, ::-1]]

    engine = tenon.build(model('test.two::Split', ('a', 'b')), budget=0)
    assert [one.shape for one in engine.outputs] == [(1, 2), (1, 4)]
    a, b = engine(X)
    assert (a == X[:, :2]).all() and (b == X[:, ::-1]).all()
    free = tenon.build(model('test.two::Split', ('a', 'b'), sizes=('n', 4)), budget=0)
    assert free(numpy.repeat(X, 3, 0))[0].shape == (3, 2)


def test_optional_inputs():
    @tenon.custom_op('test.three::Blend')
    def blend(x, y, z=None):
        return x + y + (0 if z is None else z)

    two = tenon.build(model('test.three::Blend', ('out',), ('x', 'y')), budget=0)
    three = tenon.build(model('test.three::Blend', ('out',), ('x', 'y', 'z')), budget=0)
    assert (two(X, X) == 2 * X).all() and (three(X, X, X) == 3 * X).all()
    with pytest.raises(tenon.Error):
        tenon.build(model('test.three::Blend', ('out',), ('x',)), budget=0)


def test_what_it_raises_names_the_node():
    @tenon.custom_op('test.four::Bad')
    def bad(x, *, how=0):
        if how == 1:
            return x[:, :1]
        if how == 2:
            return x.astype('float64')
        raise LookupError('no more ideas')

    for how, text in ((0, 'LookupError: no more ideas'), (1, 'not of the type'), (2, 'float64')):
        engine = tenon.build(model('test.four::Bad', how=how), budget=0)
        with pytest.raises(tenon.Error) as caught:
            engine(X)
        assert text in str(caught.value) and caught.value.node == 'mine'

    @tenon.custom_op('test.four::Typeless', infer=lambda x: tenon.TensorType('float99', (1,)))
    def typeless(x):
        return x

    with pytest.raises(tenon.Error, match='float99'):
        tenon.build(model('test.four::Typeless'), budget=0)
    for name in ('Swirl', '::Swirl', 'ai.onnx::Swirl', 'tenon::Swirl'):
        with pytest.raises(tenon.Error):
            tenon.custom_op(name)(typeless)


def test_many_threads_call_it():
    @tenon.custom_op('test.five::Double')
    def double(x):
        return x + x

    engine, wrong = tenon.build(model('test.five::Double'), budget=0), []

    def work(k):
        for _ in range(20):
            if not (engine(X * k) == 2 * k * X).all():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 9)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    with engine.session() as session:
        assert (session.run_async({'x': X}).result(60)['y_out'] == 2 * X).all()
    assert not wrong
