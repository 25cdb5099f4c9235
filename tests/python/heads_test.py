# SPDX-License-Identifier: Apache-2.0
"""Masks, key points and oriented boxes in the results of tenon.detect."""

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
