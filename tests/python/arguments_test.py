# SPDX-License-Identifier: Apache-2.0
"""What callers give: other types, files and arrays than are taken, told by name."""

import logging
import pathlib

import numpy
import pytest
from conftest import SAMPLES, onnx_model

import tenon
from tenon._errors import in_python

X = numpy.array([[1, 2, 3, 4]], 'float32')
Y = numpy.maximum(X * (numpy.arange(4, dtype='float32') - 1), 0)


@pytest.mark.parametrize('name, value, expected', [
    ('workspace', '1X', 'sizes look like'), ('workspace', 1.5, 'bytes, or text as "512M"'),
    ('max_memory', True, 'bytes, or text'), ('threads', '2', 'a whole number'), ('threads', -1, 'from 0 on'),
    ('device', 0, '"cpu", "cuda" or "cuda:N"'), ('precision', 8, '"fp32"'), ('max_drop', '1', 'a number'),
    ('max_error', 'a', 'a number'), ('strict', 'no', 'True or False'), ('metadata', {'a': 1}, 'text'),
    ('metadata', 'a', 'a dict of text by text'), ('shapes', '1x3', 'a dict of sizes by input'),
    ('shapes', {'x': '1x4'}, 'the sizes of the input'), ('shapes', {'x': 4}, 'the sizes of the input'),
    ('profiles', {'x': [1, 4]}, 'a list of tenon.Profile'), ('profiles', [{'x': [1, 4]}], '(least, best, most)'),
    ('budget', '5 days', 'times look like'), ('budget', [5], 'seconds, or text'), ('percentile', 1000, '50 to 100'),
    ('percentile', 'high', 'a number'), ('skip_passes', 'fold', 'a list of the names'), ('keep', {'a': 8}, 'text'),
    ('accuracy', 1.0, 'a function'), ('progress', 'bar', 'True, False or a function'), ('timing_cache', 5, 'a path'),
    ('state', 'x', 'the input that takes each'), ('max_samples', '9', 'a whole number'),
])
def test_arguments_of_another_type_are_named(tiny, name, value, expected):
    with pytest.raises(tenon.Error) as caught:
        tenon.build(tiny, **{'budget': 0, name: value})
    assert caught.value.code is tenon.Code.usage
    assert caught.value.where.startswith(name) and expected in str(caught.value), str(caught.value)


def test_another_type_is_a_type_error_too(tiny):
    with pytest.raises(TypeError, match='threads takes a whole number') as caught:
        tenon.build(tiny, threads='2')
    assert caught.value.why == "given is '2' of type str"
    for call in (lambda: tenon.load(5), lambda: tenon.load(tiny, device=0), lambda: tenon.retune(tiny),
                 lambda: tenon.session(tiny, threads='2')):
        with pytest.raises(TypeError):
            call()


def test_sizes_and_times_as_the_command_takes_them(tiny):
    engine = tenon.build(tiny, workspace='1G', max_memory='4GiB', budget='500ms', threads=numpy.int64(1))
    assert (engine(X) == Y).all()
    assert tenon._arguments.size('n', '512M') == 512 << 20 and tenon._arguments.size('n', '7') == 7
    assert tenon._arguments.seconds('n', '1m') == 60 and tenon._arguments.seconds('n', '.5s') == 0.5


def test_run_takes_what_a_call_takes(engine, two_ends):
    with engine.session() as session:
        for runner in (engine, session):
            for inputs in ({'x': X}, X, [X], (X,), X.tolist()):
                assert (runner.run(inputs)['y'] == Y).all()
            assert (runner({'x': X}) == Y).all()
            assert (runner.run(None, {'x': X})[0] == Y).all()
            assert (runner.run(['y'], {'x': X})[0] == Y).all()
            assert (runner.run(output_names=None, input_feed={'x': X})[0] == Y).all()
            for wrong in ('x', 5j, {5: X}):
                with pytest.raises(TypeError, match='inputs takes a dict'):
                    runner.run(wrong)
            with pytest.raises(tenon.Error, match='no output "z"') as caught:
                runner.run(['z'], {'x': X})
            assert caught.value.hint == 'its outputs: y'
            with pytest.raises(tenon.Error, match='more values than inputs'):
                runner.run([X, X])
            with pytest.raises(TypeError, match='output_names takes'):
                runner.run('y', {'x': X})
        assert (session.run_async(X).result()['y'] == Y).all()
    both = tenon.build(two_ends, budget=0)
    p = numpy.ones((2, 3), 'float32')
    assert (both.run([p, p * 2])['sum'] == 3).all()
    assert [one[0, 0] for one in both.run(['product', 'sum'], {'p': p, 'q': p * 2})] == [2, 3]


def test_arrays_of_other_types_are_cast_and_it_is_told(engine, caplog):
    tenon._arguments._told.clear()
    with caplog.at_level(logging.WARNING, 'tenon'):
        assert (engine(X.astype('float64')) == Y).all() and (engine.run({'x': X.astype('float64')})['y'] == Y).all()
    assert [one.message for one in caplog.records] == ['x: cast from float64 to float32, which the input expects']
    assert (engine(X.astype('>f4')) == Y).all(), 'bytes in the other order'
    with pytest.raises(tenon.Error, match='it is None'):
        engine(None)
    with pytest.raises(tenon.Error, match='cannot be a tensor'):
        engine('text')
    with engine.session() as session, pytest.raises(tenon.Error, match='another order'):
        session.bind_output('y', numpy.zeros((1, 4), '>f4'))


def test_integers_that_do_not_fit_are_refused():
    helper = pytest.importorskip('onnx.helper')
    model = onnx_model([helper.make_node('Identity', ['i'], ['o'])], [('i', 'INT32', [2])], [('o', 'INT32', [2])])
    engine = tenon.build(model, budget=0)
    assert engine(numpy.array([1, 2])).tolist() == [1, 2]
    with pytest.raises(tenon.Error, match='4294967296 does not fit into int32'):
        engine(numpy.array([1, 1 << 32]))


def test_calibration_data_is_cast(net, tmp_path):
    data = [numpy.random.default_rng(at).standard_normal((1, 3, 8, 8)) for at in range(4)]
    assert tenon.build(net, precision='int8', calibration=data, budget=0).outputs


@pytest.fixture(scope='module')
def net():
    helper, numpy_helper = pytest.importorskip('onnx.helper'), pytest.importorskip('onnx.numpy_helper')
    weights = numpy_helper.from_array(numpy.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype('float32'), 'w')
    nodes = [helper.make_node('Conv', ['x', 'w'], ['y'], kernel_shape=[3, 3], pads=[1] * 4)]
    return onnx_model(nodes, [('x', 'FLOAT', [1, 3, 8, 8])], [('y', 'FLOAT', [1, 4, 8, 8])], [weights])


def test_int8_without_data_names_the_argument(net):
    with pytest.raises(tenon.Error, match='INT8 needs calibration data') as caught:
        tenon.build(net, precision='int8', budget=0)
    assert 'calibration=' in caught.value.hint and '--data' not in caught.value.hint


def test_an_engine_replaces_engines_alone(engine, tiny, tmp_path):
    for name, content in (('m.onnx', tiny), ('b.jpg', b'\xff\xd8\xff\xe0 image')):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(tenon.Error, match='would replace a file of another kind'):
            engine.save(str(path))
        assert path.read_bytes() == content
    path = tmp_path / 'e.tenon'
    engine.save(path)
    engine.save(pathlib.Path(path))
    engine.save(str(tmp_path / 'b.jpg'), overwrite=True)
    assert tenon.is_engine_file(tmp_path / 'b.jpg')
    with pytest.raises(TypeError, match='path takes a path'):
        engine.save(5)


def test_files_of_other_kinds_are_named(engine, tiny, tmp_path):
    saved = tmp_path / 'e.tenon'
    engine.save(saved)
    for name, content, kind in (('m.onnx', tiny, 'an ONNX model'), ('b.jpg', b'\xff\xd8\xff\xe0', 'a JPEG image'),
                                ('empty', b'', 'empty'), ('t.engine', b'ftrt....', 'a plan of TensorRT')):
        (tmp_path / name).write_bytes(content)
        for given in (tmp_path / name, content):
            with pytest.raises(tenon.Error, match='the file is not an engine') as caught:
                tenon.load(given)
            assert kind in caught.value.why and caught.value.code is tenon.Code.bad_engine
            assert 'tenon.build' in caught.value.hint
    for given in (saved, saved.read_bytes()):
        with pytest.raises(tenon.Error, match='is an engine already') as caught:
            tenon.build(given)
        assert 'tenon.load' in caught.value.hint
    damaged = saved.read_bytes()[:100]
    with pytest.raises(tenon.Error, match='damaged'):
        tenon.load(damaged)


def test_missing_packages_are_found_in_this_repository():
    from tenon.__main__ import _extra

    assert _extra('matplotlib').startswith('pip install ".[plots]" in a clone')
    assert 'pip install tenon' not in _extra('torch') and '"tenon[' not in _extra('torch')


def test_images_of_other_forms(detector, tmp_path, caplog):
    import os

    from tenon import vision

    engine = tenon.build(detector, budget=0)
    images = os.path.join(SAMPLES, 'images')
    grey = vision.imread(os.path.join(images, '00000.jpg'))[:, :, 1]
    wide = numpy.repeat(grey[:, :, None], 3, 2)
    boxes = [next(tenon.detect(engine, one)).boxes for one in (grey, grey[:, :, None], wide)]
    assert (boxes[0] == boxes[2]).all() and (boxes[1] == boxes[2]).all()
    assert len(list(tenon.detect(engine, os.path.join(images, '0000[01].jpg')))) == 2
    with pytest.raises(tenon.Error, match='no image or video matches the pattern'):
        list(tenon.detect(engine, os.path.join(images, '*.gif')))
    with pytest.raises(tenon.Error, match='whole numbers of 0 to 255'):
        list(tenon.detect(engine, wide / 255))
    with pytest.raises(TypeError, match='confidence takes a number'):
        list(tenon.detect(engine, grey, confidence='high'))


def test_options_of_sessions_and_sources_are_named(engine, tmp_path):
    for wrong, name in (({'threads': '2'}, 'threads'), ({'shapes': '1x4'}, 'shapes'), ({'device': 0}, 'device'),
                        ({'profile': 1}, 'profile')):
        with pytest.raises(TypeError, match='%s takes' % name):
            engine.session(**wrong)
    with engine.session(shapes=None, threads=numpy.int32(1)) as session:
        assert session.threads == 1
    with pytest.raises(TypeError, match='path takes a path'):
        engine.save(None)
    with pytest.raises(TypeError, match='calibration takes a folder'):
        tenon.build(onnx_model([], [], []), calibration=5, precision='int8')
    assert tenon.vision.labels_of(engine, {0: 'a', 2: 'c'}) == ['a', '', 'c']
    with pytest.raises(TypeError, match='labels takes a list'):
        tenon.vision.labels_of(engine, 5)


def test_small_objects_name_their_arguments(engine, tiny):
    for make, told in ((lambda: tenon.Preprocess(5), 'preprocess takes text as "yolo"'),
                       (lambda: tenon.Profile(5), 'opt takes a dict of sizes by input'),
                       (lambda: tenon.Profile(None), 'opt takes a dict of sizes by input'),
                       (lambda: tenon.Profile({'x': 'a'}), 'the sizes of the input'),
                       (lambda: tenon.Profile({'x': [1, 4]}, max={'x': [1.5, 4]}), r"max\['x'\] takes the sizes"),
                       (lambda: tenon.Profile({'x': [1, 4]}, name=5), 'name takes the name of the profile'),
                       (lambda: engine.why(5), 'node takes the name of an ONNX node'),
                       (lambda: engine.why(measure='no'), 'measure takes True or False'),
                       (lambda: engine.why(iterations='9'), 'iterations takes a whole number'),
                       (lambda: engine.on(0), 'device takes "cpu"'),
                       (lambda: engine.state(5), 'sizes takes a dict of sizes by input'),
                       (lambda: engine.session().bind_input(0, X), 'name takes the name of an input'),
                       (lambda: engine.session().bind_output(None, X), 'name takes the name of an input'),
                       (lambda: engine.session().profile({'x': X}, 'a'), 'iterations takes a whole number'),
                       (lambda: tenon.load_plugin(5), 'path takes a path')):
        with pytest.raises(TypeError, match=told) as caught:
            make()
        assert isinstance(caught.value, tenon.Error) and caught.value.code is tenon.Code.usage
    assert tenon.Preprocess(tenon.Preprocess('yolo')) == tenon.Preprocess('yolo')
    assert tenon.Profile({'x': numpy.array([1, 4])}).max == {'x': [1, 4]}
    with pytest.raises(tenon.Error, match='cannot open the plugin'):
        tenon.load_plugin(pathlib.Path('/nowhere.so'))


def test_hints_speak_of_arguments(engine):
    from onnx import helper

    nodes = [helper.make_node('Relu', ['x'], ['y'])]
    model = onnx_model(nodes, [('x', 'FLOAT', ['n', 3, 'h', 8])], [('y', 'FLOAT', ['n', 3, 'h', 8])])
    for make, told in ((lambda: tenon.build(model, budget=0), 'give shapes={"x": [1, 3, ?, 8]} with a size for each ?'),
                       (lambda: tenon.build(model, shapes={'x': [1, 3, 512, 8]}, max_memory=64, budget=0),
                        'raise the limit with max_memory=, or give smaller shapes='),
                       (lambda: tenon.build(model, precision='fp8', budget=0),
                        'give device="cuda", or precision="int8"'),
                       (lambda: tenon.retune(engine, precision='int8'), 'build the model with precision="int8"')):
        with pytest.raises(tenon.Error) as caught:
            make()
        assert told in caught.value.hint and '--' not in str(caught.value), str(caught.value)
    assert in_python('leave out --device to run on the CPU') == 'leave out device= to run on the CPU'


def test_reports_replace_json_alone(tmp_path):
    from tenon._verbs import write_json

    (tmp_path / 'photo.jpg').write_bytes(b'\xff\xd8\xff\xe0')
    with pytest.raises(tenon.Error, match='would replace a file of another kind'):
        write_json(str(tmp_path / 'photo.jpg'), {})
    for _ in range(2):
        write_json(str(tmp_path / 'report.json'), {'a': 1})
