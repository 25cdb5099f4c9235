# SPDX-License-Identifier: Apache-2.0
"""Building, loading and running, with arrays in and out."""

import gc
import io
import logging
import os
import pickle
import subprocess
import sys
import threading

import numpy
import pytest

import tenon

X = numpy.array([[-2, 3, 4, 5]], 'float32')
Y = numpy.array([[2, 0, 4, 10]], 'float32')


def test_builds_from_path_bytes_and_proto(tiny, tmp_path):
    onnx = pytest.importorskip('onnx')
    path = tmp_path / 'm.onnx'
    path.write_bytes(tiny)
    for model in (path, str(path), tiny, memoryview(tiny), onnx.load_from_string(tiny)):
        assert (tenon.build(model, budget=0)(X) == Y).all()


def test_calls_give_values_and_run_gives_a_dict(engine, two_ends):
    assert (engine(X) == Y).all() and (engine(x=X) == Y).all()
    assert list(engine.run({'x': X})) == ['y']
    two = tenon.build(two_ends, budget=0)
    p, q = numpy.full((2, 3), 3, 'float32'), numpy.full((2, 3), 4, 'float32')
    total, product = two(p, q=q)
    assert (total == 7).all() and (product == 12).all() and total.shape == (2, 3)


def test_engine_tells_its_ends(engine, two_ends):
    assert [(one.name, one.dtype, one.shape) for one in engine.inputs] == [('x', 'float32', (1, 4))]
    assert tenon.build(two_ends, budget=0).inputs[0].shape == (-1, 3)
    assert engine.device == 'cpu' and engine.precision == 'fp32' and engine.metadata['license'] == 'none'


def test_save_load_serialize(engine, tmp_path):
    path = tmp_path / 'e.tenon'
    engine.save(str(path))
    assert tenon.is_engine_file(path) and not tenon.is_engine_file(__file__)
    assert (tenon.load(path)(X) == Y).all()
    assert (tenon.load(engine.serialize())(X) == Y).all()
    assert (tenon.load(io.BytesIO(engine.serialize()).getbuffer())(X) == Y).all()


def test_inputs_with_strides_and_lists(engine):
    wide = numpy.zeros((1, 8), 'float32')
    wide[:, ::2] = X
    assert (engine(wide[:, ::2]) == Y).all()
    assert (engine(numpy.ascontiguousarray(X[:, ::-1])[:, ::-1]) == Y).all()
    assert (engine([[-2, 3, 4, 5]]) == Y).all()


def test_outputs_are_arrays_of_their_own(engine):
    first = engine(X)
    kept = first.copy()
    for _ in range(10):
        engine(-X)
    gc.collect()
    assert (first == kept).all() and first.dtype == numpy.float32 and first.flags.writeable


def test_read_only_inputs(engine):
    array = X.copy()
    array.flags.writeable = False
    assert (engine(array) == Y).all()


def test_types_there_and_back():
    helper = pytest.importorskip('onnx.helper')
    from conftest import onnx_model

    for numpy_type, onnx_type in (('int64', 'INT64'), ('uint8', 'UINT8'), ('float64', 'DOUBLE'), ('bool', 'BOOL'),
                                  ('float16', 'FLOAT16'), ('int8', 'INT8')):
        model = onnx_model([helper.make_node('Identity', ['x'], ['y'])], [('x', onnx_type, [3])],
                           [('y', onnx_type, [3])])
        value = numpy.array([0, 1, 1], numpy_type)
        found = tenon.build(model, budget=0)(value)
        assert found.dtype == value.dtype and (found == value).all(), numpy_type
    model = onnx_model([helper.make_node('Identity', ['x'], ['y'])], [('x', 'STRING', [2])], [('y', 'STRING', [2])])
    assert tenon.build(model, budget=0)(numpy.array(['a', 'ö'])).tolist() == ['a', 'ö']


def test_bfloat16_goes_through_dlpack():
    ml_dtypes = pytest.importorskip('ml_dtypes', reason='no ml_dtypes')
    helper = pytest.importorskip('onnx.helper')
    from conftest import onnx_model

    model = onnx_model([helper.make_node('Identity', ['x'], ['y'])], [('x', 'BFLOAT16', [2])],
                       [('y', 'BFLOAT16', [2])])
    found = tenon.build(model, budget=0)(numpy.array([1, 2], ml_dtypes.bfloat16))
    assert isinstance(found, tenon.Tensor) and found.dtype == 'bfloat16' and found.shape == (2,)


def test_dlpack_in_copies_nothing(engine):
    class Shared:
        """Memory that only DLPack tells of."""

        def __init__(self, array):
            self.array, self.asked = array, 0

        def __dlpack__(self, **options):
            self.asked += 1
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    shared = Shared(X)
    assert (engine(shared) == Y).all() and shared.asked == 1


def test_bound_inputs_and_outputs_are_used_in_place(engine):
    with engine.session() as session:
        source, target = X.copy(), numpy.zeros((1, 4), 'float32')
        session.bind_input('x', source)
        session.bind_output('y', target)
        session.run_bound()
        assert (target == Y).all()
        source *= 2
        session.run_bound()
        assert (target == 2 * Y).all()
        session.bind_output('y', None)
        assert (session.run()['y'] == 2 * Y).all()
        frozen = numpy.zeros((1, 4), 'float32')
        frozen.flags.writeable = False
        with pytest.raises(tenon.Error, match='cannot be written'):
            session.bind_output('y', frozen)


def test_sessions_own_input(engine):
    with engine.session() as session:
        own = session.input(0)
        own[:] = X
        assert (session(own) == Y).all()


def test_errors_mirror_the_librarys(engine, tmp_path):
    with pytest.raises(tenon.Error) as caught:
        tenon.load(tmp_path / 'nothing.tenon')
    assert caught.value.code == tenon.Code.io and 'nothing.tenon' in str(caught.value)
    with pytest.raises(tenon.Error) as caught:
        engine(X.astype('float16'))
    assert caught.value.code is tenon.Code.usage and 'f16' in caught.value.what
    with pytest.raises(tenon.Error, match='no input "z"') as caught:
        engine(z=X)
    assert caught.value.hint == 'its inputs: x'
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, again.what, again.hint) == (caught.value.code, caught.value.what, caught.value.hint)
    for bad in (b'no model', b''):
        with pytest.raises(tenon.Error):
            tenon.build(bad)
    with pytest.raises(tenon.Error, match='no model can be made of int'):
        tenon.build(5)


def test_an_error_names_the_onnx_node():
    helper = pytest.importorskip('onnx.helper')
    from conftest import onnx_model

    model = onnx_model([helper.make_node('MatMul', ['x', 'x'], ['y'], name='bad')], [('x', 'FLOAT', [2, 3])],
                       [('y', 'FLOAT', None)])
    with pytest.raises(tenon.Error) as caught:
        tenon.build(model, budget=0)
    assert caught.value.node == 'bad' or 'bad' in str(caught.value)


def test_context_managers_end_sessions_and_engines(tiny):
    with tenon.build(tiny, budget=0) as engine:
        with engine.session() as session:
            session(X)
        with pytest.raises(tenon.Error, match='session is closed'):
            session(X)
    with pytest.raises(tenon.Error, match='engine is closed'):
        engine(X)


def test_engines_pickle_by_path(tiny, tmp_path):
    fresh = tenon.build(tiny, budget=0)
    with pytest.raises(tenon.Error, match='cannot be pickled'):
        pickle.dumps(fresh)
    fresh.save(str(tmp_path / 'e.tenon'))
    assert (pickle.loads(pickle.dumps(fresh))(X) == Y).all()


def test_run_async_gives_futures(engine):
    with engine.session() as session:
        futures = [session.run_async({'x': X * k}) for k in range(1, 9)]
        for k, future in enumerate(futures, 1):
            assert (future.result(60)['y'] == k * Y).all()
        bad = session.run_async({'x': numpy.zeros((2, 9), 'float32')})
        with pytest.raises(tenon.Error):
            bad.result(60)


def test_run_async_can_be_awaited(engine):
    import asyncio

    async def work(session):
        results = await asyncio.gather(*[session.run_async({'x': X * k}) for k in range(1, 5)])
        return [(result['y'] == k * Y).all() for k, result in enumerate(results, 1)]

    with engine.session() as session:
        assert all(asyncio.run(work(session)))


def test_closing_waits_for_runs_in_the_background(engine):
    session = engine.session()
    futures = [session.run_async({'x': X}) for _ in range(50)]
    session.close()
    assert all(future.done() for future in futures)


def test_a_session_belongs_to_one_thread(detector):
    engine = tenon.build(detector, budget=0)
    info = engine.inputs[0]
    image = numpy.zeros([size if size > 0 else 1 for size in info.shape], 'float32')
    session, errors = engine.session(), []

    def work():
        try:
            for _ in range(20):
                session(image)
        except tenon.Error as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert errors and errors[0].code == tenon.Code.usage


def test_a_hundred_threads_share_an_engine(engine):
    wrong = []

    def work(k):
        for _ in range(50):
            if not (engine(X * k) == Y * k).all():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 101)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def resident():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE')


def test_a_hundred_thousand_calls_take_no_memory(engine):
    session, growths = engine.session(), []
    # What calls keep grows each time; pages that other tests have given back are taken once.
    for _ in range(3):
        gc.collect()
        before = resident()
        for _ in range(34000):
            session(X), session.run({'x': X}), engine(X)
        gc.collect()
        growths.append(resident() - before)
    assert min(growths) < 1 << 20, growths


def test_messages_go_to_logging(tiny, caplog):
    with caplog.at_level(logging.INFO, 'tenon'):
        tenon.build(tiny, budget=0)
    assert any('built for cpu' in record.message for record in caplog.records)
    caplog.clear()
    with caplog.at_level(logging.WARNING, 'tenon'):
        tenon.build(tiny, budget=0)
    assert not caplog.records


def test_progress_is_told_and_cancels(detector):
    seen = []
    tenon.build(detector, budget=0.2, timing_cache='-', progress=lambda stage, done, left: seen.append((stage, done)))
    assert seen and all(0 <= done <= 1 for _, done in seen)
    with pytest.raises(tenon.Error):
        tenon.build(detector, timing_cache='-', progress=lambda *_: False)

    def broken(*_):
        raise KeyError('mine')

    with pytest.raises(KeyError, match='mine'):
        tenon.build(detector, timing_cache='-', progress=broken)


def test_shapes_of_free_sizes(two_ends):
    engine = tenon.build(two_ends, shapes={'p': [5, 3], 'q': (5, 3)}, budget=0)
    assert engine.inspect()['shapes']['p'] == (5, 3)
    ones = numpy.ones((7, 3), 'float32')
    assert engine(ones, ones)[0].shape == (7, 3)


def test_import_is_light():
    code = ('import sys, time; start = time.perf_counter(); import tenon; '
            'print(time.perf_counter() - start, "numpy" in sys.modules, "torch" in sys.modules)')
    out = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout.split()
    assert out[1:] == ['False', 'False'], 'importing tenon imports what it may not need'


def test_closing_while_others_run(detector):
    """Runs of other threads end as they would; calls that come later are told."""
    image = None
    for _ in range(5):
        engine = tenon.build(detector, budget=0)
        session = engine.session()
        image = numpy.zeros([size if size > 0 else 1 for size in engine.inputs[0].shape], 'float32')
        own = session.input(0)

        def work(call, told):
            try:
                for _ in range(50):
                    call(image)
            except tenon.Error as error:
                told.append(error.code is tenon.Code.usage)

        told = []
        threads = [threading.Thread(target=work, args=(call, told)) for call in (engine, engine, session)]
        [thread.start() for thread in threads]
        session.close()
        engine.close()
        [thread.join() for thread in threads]
        own[:] = 1
        assert told and all(told) and (own == 1).all()
