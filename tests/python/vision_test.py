# SPDX-License-Identifier: Apache-2.0
"""Detecting and classifying in images and videos."""

import json
import os
import shutil
import subprocess

import numpy
import pytest
from conftest import SAMPLES

import tenon
from tenon import vision

IMAGES = os.path.join(SAMPLES, 'images')


@pytest.fixture(scope='module')
def engine(detector, tmp_path_factory):
    made = tenon.build(detector, budget=0)
    made.save(str(tmp_path_factory.mktemp('engines') / 'detector.tenon'))
    return made


def first():
    return os.path.join(IMAGES, '00000.jpg')


def test_boxes_are_those_of_the_command(engine, tmp_path):
    from tenon.__main__ import binary

    if binary() is None:
        pytest.skip('no compiled command beside the package')
    out = str(tmp_path / 'boxes.json')
    subprocess.run([binary(), 'detect', engine.path, '--source', IMAGES, '--json', out, '-q'], check=True,
                   stdout=subprocess.DEVNULL)
    with open(out, encoding='utf-8') as file:
        expected = json.load(file)['detections']
    found = list(tenon.detect(engine, IMAGES))
    assert len(found) == len(expected) > 10
    for one, entry in zip(found, expected):
        assert one.path == entry['image'] and len(one) == len(entry['detections'])
        for box, score, label, other in zip(one.boxes, one.scores, one.labels, entry['detections']):
            assert label == other['label'] and abs(score - other['score']) < 1e-5
            assert numpy.abs(box - numpy.array(other['box'])).max() < 1e-2


def test_sources_of_every_kind(engine):
    image = vision.imread(first())
    by_path, by_array = list(tenon.detect(engine, first())), list(tenon.detect(engine, image))
    assert len(by_path[0]) > 0 and (by_path[0].boxes == by_array[0].boxes).all()
    assert len(list(tenon.detect(engine, [first(), image]))) == 2
    Image = pytest.importorskip('PIL.Image', reason='no Pillow')
    assert len(list(tenon.detect(engine, Image.open(first())))[0]) == len(by_path[0])
    with open(first(), 'rb') as file:
        assert (vision.imread(file.read()) == image).all()
    with pytest.raises(tenon.Error, match='no image can be made of int'):
        list(tenon.detect(engine, 5))


def test_a_list_of_paths(engine, tmp_path):
    shutil.copy(first(), tmp_path / 'near.jpg')
    paths = tmp_path / 'list.txt'
    paths.write_text('%s\r\n\nnear.jpg  \n' % first())
    found = list(tenon.detect(engine, paths))
    assert [one.path for one in found] == [first(), str(tmp_path / 'near.jpg')]
    assert (found[0].boxes == found[1].boxes).all()
    paths.write_text(' \n')
    with pytest.raises(tenon.Error, match='the list has no images'):
        list(tenon.detect(engine, str(paths)))


def test_frames_of_a_video(engine):
    if not tenon._core.video_available():
        pytest.skip('this build has no FFmpeg')
    results = tenon.detect(engine, os.path.join(SAMPLES, 'line.mp4'))
    for frame, one in zip(range(3), results):
        assert one.frame == frame and one.boxes.shape[1] == 4


def test_results_in_other_forms(engine, tmp_path):
    one = next(tenon.detect(engine, first()))
    entries = one.to_coco(7)
    assert len(entries) == len(one) and entries[0]['image_id'] == 7
    x, y, width, height = entries[0]['bbox']
    assert numpy.allclose([x, y, x + width, y + height], one.boxes[0])
    drawn = one.plot()
    assert drawn.shape == one.image.shape and (drawn != one.image).any()
    saved = one.save(tmp_path)
    assert saved == str(tmp_path / '00000.jpg') and vision.imread(saved).shape == drawn.shape
    pytest.importorskip('pandas', reason='no pandas')
    table = one.to_pandas()
    assert list(table.columns)[:6] == ['path', 'frame', 'x1', 'y1', 'x2', 'y2'] and len(table) == len(one)


def test_preprocessing_is_a_value():
    spec = tenon.Preprocess('yolo').resolve([1, 3, 320, 640])
    assert (spec.width, spec.height, spec.colour) == (640, 320, 'rgb') and tenon.Preprocess(str(spec)) == spec
    assert spec != tenon.Preprocess('imagenet') and spec != 'yolo'
    with pytest.raises(tenon.Error):
        tenon.Preprocess('nonsense')


def test_classes_of_images():
    numpy_helper, helper = pytest.importorskip('onnx.numpy_helper'), pytest.importorskip('onnx.helper')
    from conftest import onnx_model

    weights = numpy_helper.from_array(numpy.eye(3, dtype='float32'), 'w')
    nodes = [helper.make_node('GlobalAveragePool', ['x'], ['p']), helper.make_node('Flatten', ['p'], ['f']),
             helper.make_node('MatMul', ['f', 'w'], ['y'])]
    model = onnx_model(nodes, [('x', 'FLOAT', ['n', 3, 8, 8])], [('y', 'FLOAT', ['n', 3])], [weights])
    blue = numpy.zeros((8, 8, 3), 'uint8')
    blue[..., 2] = 255
    found = list(tenon.classify(model, [blue, blue], top=2, preprocess='resize=8x8,scale=1/255', batch=2, budget=0,
                                labels=['red', 'green', 'blue']))
    assert len(found) == 2 and found[1].labels[0] == 'blue' and found[1].scores[0] > 0.5


def test_coco_entries_are_those_of_the_command(engine):
    from tenon.__main__ import binary

    if binary() is None:
        pytest.skip('no compiled command beside the package')
    told = subprocess.run([binary(), 'detect', engine.path, '--source', IMAGES, '--format', 'coco', '-q'], check=True,
                          stdout=subprocess.PIPE).stdout
    expected = json.loads(told)
    found = [entry for one in tenon.detect(engine, IMAGES) for entry in one.to_coco()]
    assert len(found) == len(expected) > 10
    for own, other in zip(found, expected):
        for key in ('image_id', 'category_id'):
            assert own[key] == other[key]


def test_coco_numbers():
    from tenon import _coco

    names = ['person', *map(str, range(1, 79)), 'toothbrush']
    assert [_coco.category(at, names) for at in (0, 3, 11, 79)] == [1, 4, 13, 90]
    assert _coco.category(3, []) == 4 and _coco.category(3, ['__background__', 'a']) == 3
    assert _coco.image_id('/a/000139.jpg', -1, 7, None) == 139 and _coco.image_id('cat.jpg', -1, 7, None) == 7
    assert _coco.image_id('1.mp4', 4, 5, None) == 5 and _coco.image_id('9.jpg', -1, 1, 3) == 3


def test_a_detector_does_not_classify(engine):
    with pytest.raises(tenon.Error, match='the model is a detector') as caught:
        list(tenon.classify(engine, first()))
    assert caught.value.code is tenon.Code.unsupported and caught.value.hint == 'use tenon.detect'


def test_a_guess_at_the_preprocessing_is_told(engine, caplog):
    list(tenon.detect(engine, [first(), first()]))
    told = [one.message for one in caplog.records if 'does not tell how images' in one.message]
    stated = 'tenon.preprocess' in engine.metadata
    assert len(told) == (0 if stated else 1)
    caplog.clear()
    helper = pytest.importorskip('onnx.helper')
    from conftest import onnx_model

    nodes = [helper.make_node('GlobalAveragePool', ['x'], ['p']), helper.make_node('Flatten', ['p'], ['y'])]
    model = onnx_model(nodes, [('x', 'FLOAT', [1, 3, 32, 32])], [('y', 'FLOAT', [1, 3])])
    colours = next(tenon.classify(model, first(), budget=0))
    assert len(colours.classes) == 3
    told = [one for one in caplog.records if 'does not tell how images' in one.message]
    assert len(told) == 1 and told[0].levelname == 'WARNING' and 'taken as "imagenet"' in told[0].message
    caplog.clear()
    next(tenon.classify(model, first(), budget=0, preprocess='imagenet', labels=['a', 'b']))
    assert "the number of labels (2) is not that of the model's classes (3): names may be shifted" in caplog.messages
    assert sum('hardly more than a guess' in one for one in caplog.messages) == 1
