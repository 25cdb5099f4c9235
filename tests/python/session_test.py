# SPDX-License-Identifier: Apache-2.0
"""Profiles of sizes, and values that runs carry from one to the next."""

import threading

import numpy
import pytest
from conftest import onnx_model

import tenon

ONES = numpy.ones((2, 3), 'float32')


@pytest.fixture(scope='module')
def counter():
    """sum_out = sum_in + x, twice = 2 * sum_out: a running sum."""
    helper, numpy_helper = pytest.importorskip('onnx.helper'), pytest.importorskip('onnx.numpy_helper')
    two = numpy_helper.from_array(numpy.array(2, 'float32'), 'two')
    nodes = [helper.make_node('Add', ['x', 'sum_in'], ['sum_out']),
             helper.make_node('Mul', ['sum_out', 'two'], ['twice'])]
    ends = [('x', 'FLOAT', [2, 3]), ('sum_in', 'FLOAT', [2, 3])]
    return onnx_model(nodes, ends, [('sum_out', 'FLOAT', [2, 3]), ('twice', 'FLOAT', [2, 3])], [two])


def test_profiles_bound_what_an_engine_takes(two_ends, tmp_path):
    small = tenon.Profile({'p': [2, 3], 'q': [2, 3]}, {'p': [1, 3], 'q': [1, 3]}, {'p': [4, 3], 'q': [4, 3]}, 'small')
    large = tenon.Profile(opt={'p': [16, 3], 'q': [16, 3]}, name='large')
    engine = tenon.build(two_ends, profiles=[small, large], budget=0)
    engine.save(str(tmp_path / 'e.tenon'))
    engine = tenon.load(str(tmp_path / 'e.tenon'))
    assert [one.name for one in engine.profiles] == ['small', 'large']
    assert engine.profiles[0].max == {'p': [4, 3], 'q': [4, 3]} and engine.profiles[1].min['p'] == [16, 3]
    assert repr(engine.profiles[0]) == 'tenon.Profile(small, p 1x3..2x3..4x3, q 1x3..2x3..4x3)'
    wide = numpy.ones((16, 3), 'float32')
    assert engine(wide, wide)[0].shape == (16, 3)
    with pytest.raises(tenon.Error, match='outside'):
        engine(wide[:9], wide[:9])
    with engine.session(profile='small') as session:
        assert session(ONES, ONES)[0].shape == (2, 3)
        with pytest.raises(tenon.Error):
            session(wide, wide)
    for wrong, text in (({'profile': 'none'}, 'none'), ({'profile': 'small', 'shapes': {'p': [1, 3]}}, 'not both')):
        with pytest.raises(tenon.Error, match=text):
            engine.session(**wrong)


def test_profiles_as_dicts(two_ends):
    ranges = {'p': ([1, 3], [2, 3], [8, 3]), 'q': ([1, 3], [2, 3], [8, 3])}
    engine = tenon.build(two_ends, profiles=[ranges], budget=0)
    assert engine.profiles[0].opt['q'] == [2, 3]
    with tenon.session(two_ends, profiles=[ranges], profile='', budget=0) as session:
        assert session(ONES, ONES)[1].shape == (2, 3)
    with pytest.raises(tenon.Error, match='profile'):
        tenon.build(two_ends, profiles=[{'p': ([4, 3], [2, 3], [8, 3])}], budget=0)


def test_a_state_is_carried_from_run_to_run(counter, tmp_path):
    tenon.build(counter, state={'sum_out': 'sum_in'}, budget=0).save(str(tmp_path / 'e.tenon'))
    engine = tenon.load(str(tmp_path / 'e.tenon'))
    assert engine.carried == [('sum_out', 'sum_in')]
    state = engine.state()
    with engine.session(state=state) as session:
        for step in (1, 2, 3):
            assert (session(ONES) == 2 * step).all()
        assert list(session.run({'x': ONES})) == ['twice'] and (state.get('sum_in') == 4).all()
        fork = state.fork()
        state.reset()
        assert (session(ONES) == 2).all() and (fork.get('sum_in') == 4).all()
        session.state = fork
        assert session.state is fork and (session(ONES) == 10).all()
        fork.set('sum_in', ONES * 7)
        assert (session(ONES) == 16).all()
        kept = fork.get('sum_in')
        session(ONES)
        assert (kept == 8).all(), 'what get gives is a copy'
        with pytest.raises(tenon.Error, match='no input "sum_in"'):
            session.run({'x': ONES, 'sum_in': ONES})
        for call in (session.run_bound, session.run, lambda: session.run_async({'x': ONES})):
            with pytest.raises(tenon.Error, match='carries no state'):
                call()
        session.state = None
        assert set(session.run({'x': ONES, 'sum_in': ONES})) == {'sum_out', 'twice'}


def test_wrong_states_are_told(counter, engine):
    carrying = tenon.build(counter, state=[('sum_out', 'sum_in')], budget=0)
    state = carrying.state()
    with pytest.raises(tenon.Error, match='not carried'):
        state.get('x')
    with pytest.raises(tenon.Error, match='type'):
        state.set('sum_in', numpy.ones((2, 3)))
    with pytest.raises(tenon.Error, match='carries nothing'):
        engine.state()
    with pytest.raises(tenon.Error, match='no tenon.State'):
        carrying.session(state=5)
    with pytest.raises(tenon.Error, match="another engine's"):
        tenon.build(counter, state=[('sum_out', 'sum_in')], budget=0).session(state=state)(ONES)
    with tenon.session(counter, state={'sum_out': 'sum_in'}, budget=0) as session:
        assert (session(ONES) == 2).all() and (session(ONES) == 4).all()


def test_a_state_belongs_to_one_run_at_a_time(counter):
    """Many threads on one state: each call is either a whole run or an error, and nothing is lost or doubled."""
    engine = tenon.build(counter, state={'sum_out': 'sum_in'}, budget=0, threads=1)
    state, done, refused = engine.state(), [], []

    def work():
        with engine.session(state=state) as session:
            for _ in range(300):
                try:
                    session(ONES)
                    done.append(1)
                except tenon.Error as error:
                    refused.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert (state.get('sum_in') == len(done)).all() and len(done) + len(refused) == 1200
    assert all(code is tenon.Code.usage for code in refused)
