# SPDX-License-Identifier: Apache-2.0
"""Builds: calibration from every kind of data, why and inspect, accuracy, notebooks."""

import os

import numpy
import pytest
from conftest import SAMPLES, onnx_model

import tenon

QUICK = dict(precision='int8', budget=0, timing_cache='-', objective='size')


@pytest.fixture(scope='module')
def net():
    """A small network of convolutions: x [n,3,16,16] to y [n,4]."""
    helper, numpy_helper = pytest.importorskip('onnx.helper'), pytest.importorskip('onnx.numpy_helper')
    generator = numpy.random.default_rng(0)

    def weights(name, *sizes):
        return numpy_helper.from_array(generator.standard_normal(sizes).astype('float32') * 0.2, name)

    nodes = [helper.make_node('Conv', ['x', 'w1'], ['c1'], name='first', pads=[1] * 4, kernel_shape=[3, 3]),
             helper.make_node('Relu', ['c1'], ['r1']),
             helper.make_node('Conv', ['r1', 'w2'], ['c2'], name='second', pads=[1] * 4, kernel_shape=[3, 3]),
             helper.make_node('Relu', ['c2'], ['r2']), helper.make_node('GlobalAveragePool', ['r2'], ['p']),
             helper.make_node('Flatten', ['p'], ['f']), helper.make_node('MatMul', ['f', 'w3'], ['y'], name='last')]
    return onnx_model(nodes, [('x', 'FLOAT', ['n', 3, 16, 16])], [('y', 'FLOAT', ['n', 4])],
                      [weights('w1', 16, 3, 3, 3), weights('w2', 16, 16, 3, 3), weights('w3', 16, 4)])


@pytest.fixture(scope='module')
def data():
    return numpy.random.default_rng(1).standard_normal((12, 3, 16, 16)).astype('float32')


def steps_in_int8(engine):
    return sum(step['precision'] == 'int8' for step in engine.inspect()['layers'])


def agrees(engine, net, data):
    expected = tenon.build(net, budget=0)(data[:4])
    return numpy.sqrt(numpy.mean((engine(data[:4]) - expected)**2)) < 0.1 * numpy.sqrt(numpy.mean(expected**2))


def test_calibration_from_arrays_and_iterables(net, data, tmp_path):
    numpy.save(tmp_path / 'a.npy', data)
    kinds = {
        'array': data,
        'list of samples': list(data),
        'generator of batches': (data[at:at + 4] for at in range(0, 12, 4)),
        'tuples with labels': [(data[:6], numpy.zeros(6)), (data[6:], numpy.zeros(6))],
        'dicts': [{'x': data}],
        'folder of arrays': str(tmp_path),
    }
    for kind, given in kinds.items():
        engine = tenon.build(net, calibration=given, **QUICK)
        assert engine.precision == 'int8' and agrees(engine, net, data), kind


def test_sizes_that_the_model_leaves_free_are_those_of_the_data(net, data, tmp_path):
    import onnx

    model = onnx.load_from_string(net)
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = 'side%d' % axis
    free = model.SerializeToString()
    numpy.save(tmp_path / 'x.npy', data)
    for given in (data, [data], {'x': data}, str(tmp_path)):
        assert tenon.build(free, calibration=given, **QUICK)(data).shape == (12, 4)
    with pytest.raises(tenon.Error, match='how large images are') as told:
        tenon.build(free, calibration=os.path.join(SAMPLES, 'images'), preprocess='yolo', **QUICK)
    assert told.value.hint.endswith(',size=WIDTHxHEIGHT"')
    sized = dict(calibration=os.path.join(SAMPLES, 'images'), preprocess='yolo,size=16x16', max_samples=2)
    assert tenon.build(free, **sized, **QUICK)(data).shape == (12, 4)


def test_calibration_from_a_dataloader(net, data):
    torch = pytest.importorskip('torch', reason='no torch')
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.from_numpy(data), torch.zeros(12)), batch_size=4)
    assert agrees(tenon.build(net, calibration=loader, **QUICK), net, data)


def test_calibration_on_images_is_kept_in_the_engine(detector):
    with pytest.raises(tenon.Error, match='how they become'):
        tenon.build(detector, calibration=os.path.join(SAMPLES, 'images'), **QUICK)
    engine = tenon.build(detector, calibration=os.path.join(SAMPLES, 'images'), preprocess='yolo', max_samples=3,
                         **QUICK)
    assert tenon.Preprocess(engine.metadata['tenon.preprocess']) == tenon.Preprocess('yolo')
    assert steps_in_int8(engine) > 5


class Mine(tenon.Calibrator):
    """As a script writes it: one memory, filled again for each batch."""

    def __init__(self, data, cache=None):
        self.batches, self.memory, self.cache, self.read, self.written = list(data), None, cache, 0, None

    def get_batch(self, names):
        assert list(names) == ['x']
        if not self.batches:
            return None
        if self.memory is None:
            self.memory = numpy.empty_like(self.batches[0][None])
        self.memory[:] = self.batches.pop(0)
        return [self.memory]

    def read_calibration_cache(self):
        self.read += 1
        return self.cache

    def write_calibration_cache(self, cache):
        self.written = bytes(cache)


def test_a_calibrator_of_the_callers(net, data):
    first = Mine(data)
    engine = tenon.build(net, calibration=first, **QUICK)
    assert agrees(engine, net, data) and first.read >= 1 and first.written
    second = Mine([], first.written)
    assert (tenon.build(net, calibration=second, **QUICK)(data) == engine(data)).all()


def test_a_calibrators_exception_is_the_callers(net, data):
    class Broken(Mine):
        def get_batch(self, names):
            raise LookupError('no more disk')

    with pytest.raises(LookupError, match='no more disk'):
        tenon.build(net, calibration=Broken(data), **QUICK)
    with pytest.raises(tenon.Error, match=r'2 arrays for 1 input\b'):
        class Two(Mine):
            def get_batch(self, names):
                return [data, data]

        tenon.build(net, calibration=Two(data), **QUICK)


def test_a_cache_file_is_written_and_read(net, data, tmp_path):
    cache = tmp_path / 'net.calib'
    engine = tenon.build(net, calibration=data, calibration_cache=cache, **QUICK)
    assert cache.stat().st_size > 0
    assert (tenon.build(net, calibration_cache=cache, **QUICK)(data) == engine(data)).all()


def test_keep_holds_a_node_in_floating_point(net, data):
    full = tenon.build(net, calibration=data, **QUICK)
    kept = tenon.build(net, calibration=data, keep={'second': 'fp32'}, **QUICK)
    assert steps_in_int8(kept) < steps_in_int8(full)


def test_accuracy_chooses_the_engine(net, data):
    asked = []

    def points(engine):
        asked.append(engine.precision)
        return 100.0 if len(asked) == 1 else 90.0

    engine = tenon.build(net, precision='int8', calibration=data, accuracy=points, max_drop=1, budget=1,
                         objective='size', timing_cache='-')
    assert len(asked) >= 2 and steps_in_int8(engine) == 0
    with pytest.raises(ZeroDivisionError):
        tenon.build(net, precision='int8', calibration=data, accuracy=lambda _: 1 / 0, max_drop=1, budget=1,
                    timing_cache='-')


def test_options_are_checked(net):
    for options, text in (({'precision': 'fp12'}, 'no precision'), ({'method': 'guess'}, 'no method'),
                          ({'objective': 'fun'}, 'no objective'), ({'effort': 'some'}, 'not an effort'),
                          ({'device': 'toaster'}, 'device'), ({'precision': 'int8'}, 'calibration')):
        with pytest.raises(tenon.Error, match=text):
            tenon.build(net, budget=0, **options)


def test_why_and_inspect(net):
    engine = tenon.build(net, budget=0)
    facts = engine.inspect()
    assert facts['inputs'] == [{'name': 'x', 'dtype': 'float32', 'shape': [-1, 3, 16, 16]}]
    assert {name for layer in facts['layers'] for name in layer['origins']} >= {'first', 'second', 'last'}
    report = engine.why()
    assert report['measured'] and report['steps'] and 'first' in str(report)
    assert 'second' not in str(engine.why('first', measure=False)).split('\n')[0]
    with pytest.raises(tenon.Error):
        engine.why('no such node')


def test_engines_and_reports_in_notebooks(net):
    engine = tenon.build(net, budget=0)
    assert '<table>' in engine._repr_html_() and 'float32' in engine._repr_html_()
    assert engine.why(measure=False)._repr_html_().startswith('<pre>')
    assert repr(engine) == 'tenon.Engine(cpu, fp32)'


def test_bars_of_tqdm(net, capsys):
    pytest.importorskip('tqdm', reason='no tqdm')
    tenon.build(net, budget=0.1, timing_cache='-', progress=True)
    assert '%|' in capsys.readouterr().err


def test_retune_for_other_sizes(net):
    engine = tenon.open(net, budget=0)
    assert tenon.retune(engine, shapes={'x': [2, 3, 16, 16]}, budget=0).inspect()['shapes']['x'] == (2, 3, 16, 16)


def test_run_takes_a_model_at_once(net, data):
    assert tenon.run(net, {'x': data[:2]})['y'].shape == (2, 4)
    with tenon.session(net, budget=0) as session:
        assert session(data[:1]).shape == (1, 4)
