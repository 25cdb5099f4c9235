# SPDX-License-Identifier: Apache-2.0
"""Masks, key points and oriented boxes in the results of tenon.detect, and classes of pixels in those of
tenon.segment."""

import math
import os
import sys

import numpy
import pytest
from conftest import ROOT

import tenon
from tenon import vision

pytest.importorskip('onnx', reason='no onnx')
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cli'))
import head_models as made  # noqa: E402


@pytest.fixture(scope='module')
def models():
    return made.models()


def found(models, name, **options):
    (one,) = tenon.detect(models[name], made.scene()[0], preprocess='yolo', budget=0, threads=1, **options)
    return one


def test_masks_are_those_of_the_scene(models):
    one = found(models, 'seg')
    assert one.masks.shape == (2, made.HEIGHT, made.WIDTH) and one.masks.dtype == bool
    assert one.keypoints is None and one.obb is None
    for mask, truth in zip(one.masks, made.scene()[1:]):
        assert (mask & truth).sum() / (mask | truth).sum() > 0.95
    entry = one.to_coco(3)[0]
    assert entry['segmentation']['size'] == [made.HEIGHT, made.WIDTH] and entry['image_id'] == 3
    drawn = one.plot()
    inside = drawn[80, 220]
    assert not (inside == (0, 255, 0)).all() and not (inside == drawn[30, 160]).all()


def test_key_points_and_oriented_boxes(models):
    pose = found(models, 'pose')
    assert numpy.abs(pose.keypoints - numpy.array([made.BODY])).max() < 0.01 and pose.masks is None
    assert len(pose.to_coco()[0]['keypoints']) == 51
    assert (pose.plot() != pose.image).any()
    obb = found(models, 'obb')
    assert obb.obb.shape == (3, 5) and numpy.abs(obb.obb[0] - made.BAR).max() < 0.01
    assert abs(obb.obb[1][4] - made.BAR[4] - math.pi / 2) < 1e-3
    # A corner of the bar is drawn, the corner of the enclosing box is not.
    colour = obb.plot()[33:35, 177:179]
    assert (colour != obb.image[33:35, 177:179]).any()
    assert found(models, 'pose', confidence=0.99).keypoints.shape == (0, 17, 3)


def test_boxes_alone_have_no_parts(models):
    one = found(models, 'torchvision')
    assert len(one) == 1 and one.masks is None and one.keypoints is None and one.obb is None
    assert (one.classes == [1]).all() and numpy.abs(one.boxes[0] - [38, 38, 122, 122]).max() < 0.05


def test_rows_keep_key_points(models, tmp_path):
    from tenon._rows import RowMaker

    path = str(tmp_path / 'scene.png')
    vision.imwrite(path, made.scene()[0])
    (row,) = RowMaker(models['pose'], 'yolo', budget=0, threads=1).rows([path], [None])
    assert '"keypoints"' in row['result'] and not row['error']


def halves():
    """Each pixel is of class 1 where it is bright in red, else of class 0: two planes of logits, of a free batch."""
    from conftest import onnx_model
    from onnx import helper, numpy_helper

    weights = numpy.zeros((2, 3, 1, 1), 'float32')
    weights[1, 0], bias = 1, numpy.array([0.5, 0], 'float32')
    nodes = [helper.make_node('Conv', ['x', 'w', 'b'], ['y'])]
    return onnx_model(nodes, [('x', 'FLOAT', ['n', 3, 32, 48])], [('y', 'FLOAT', ['n', 2, 32, 48])],
                      [numpy_helper.from_array(weights, 'w'), numpy_helper.from_array(bias, 'b')])


def test_segment_names_pixels(tmp_path):
    image = numpy.zeros((64, 96, 3), 'uint8')
    image[:, 60:, 0] = 255
    spec = 'resize=48x32,scale=1/255'
    engine = tenon.build(halves(), budget=0, threads=1, preprocess=spec)
    images = [image, image[:, ::-1].copy(), image]
    first, second, third = tenon.segment(engine, images, labels=['background', 'red'], batch=2)
    truth = image[..., 0] > 0
    assert first.map.dtype == numpy.uint16 and first.map.shape == (64, 96)
    assert (first.map == truth).mean() > 0.97 and (second.map == truth[:, ::-1]).mean() > 0.97
    assert (third.map == first.map).all() and first.labels == ['background', 'red'] and len(first) == 2
    assert abs(first.shares[1] - 36 / 96) < 0.02 and first.kind == 'logits'
    assert (first.mask('red') == (first.map == 1)).all() and (first.mask(0) != first.mask(1)).all()
    with pytest.raises(tenon.Error, match='no class is called "blue"'):
        first.mask('blue')
    drawn = first.plot()
    assert (drawn[20:40, 75:90] != image[20:40, 75:90]).any() and (drawn[50:, :50] == image[50:, :50]).all()
    assert first.save(tmp_path).endswith('image.jpg')
    entries = first.to_coco(5)
    assert [one['category_id'] for one in entries] == [0, 1] and sum(one['area'] for one in entries) == 64 * 96
    assert entries[1]['segmentation']['size'] == [64, 96] and entries[1]['image_id'] == 5
    assert repr(first).startswith('tenon.Segments(image: background 6')


def test_segment_refuses_other_models(models):
    with pytest.raises(tenon.Error, match='a class for each pixel'):
        list(tenon.segment(models['torchvision'], made.scene()[0], preprocess='yolo', budget=0, threads=1))
