#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boxes of made-up images, with their mean average precision by pycocotools: oracle.py > boxes.golden
Lines: "image", "truth CLASS X0 Y0 X1 Y1 CROWD", "found CLASS SCORE X0 Y0 X1 Y1", "expect VALUE WEIGHT..." with how
often each image counts."""
import contextlib
import io
import random

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

random.seed(7)
IMAGES, CLASSES = 12, 4


def box():
  x, y = random.uniform(0, 400), random.uniform(0, 300)
  return [round(v, 2) for v in (x, y, x + random.uniform(10, 120), y + random.uniform(10, 120))]


def near(b, far):
  moved = [round(v + random.gauss(0, far), 2) for v in b]
  return moved if moved[2] > moved[0] + 1 and moved[3] > moved[1] + 1 else b


def image(at):
  truth, found = [], []
  for _ in range(random.randint(0, 7)):
    truth.append((random.randrange(CLASSES), box(), int(random.random() < 0.12)))
  for cls, b, _ in truth:
    for _ in range(random.choice([0, 1, 1, 1, 2])):
      found.append((cls if random.random() < 0.9 else random.randrange(CLASSES), round(random.random(), 4),
                    near(b, random.choice([0.5, 2, 6]))))
  for _ in range(random.randint(0, 3)):
    found.append((random.randrange(CLASSES), round(random.random() * 0.7, 4), box()))
  if at == 3:  # more boxes of one class than count
    found += [(1, round(random.random() * 0.5, 4), box()) for _ in range(110)]
  return truth, found


def average_precision(images):
  images, annotations, results = [], [], []
  for image, (truth, found) in enumerate(images, 1):
    images.append({'id': image, 'width': 640, 'height': 480})
    for cls, (x0, y0, x1, y1), crowd in truth:
      annotations.append({'id': len(annotations) + 1, 'image_id': image, 'category_id': cls, 'iscrowd': crowd,
                          'bbox': [x0, y0, x1 - x0, y1 - y0], 'area': (x1 - x0) * (y1 - y0)})
    for cls, score, (x0, y0, x1, y1) in found:
      results.append({'image_id': image, 'category_id': cls, 'score': score, 'bbox': [x0, y0, x1 - x0, y1 - y0]})
  truth = COCO()
  truth.dataset = {'images': images, 'annotations': annotations,
                   'categories': [{'id': cls, 'name': str(cls)} for cls in range(CLASSES)]}
  with contextlib.redirect_stdout(io.StringIO()):
    truth.createIndex()
    evaluation = COCOeval(truth, truth.loadRes(results), 'bbox')
    evaluation.evaluate()
    evaluation.accumulate()
  precision = evaluation.eval['precision'][:, :, :, 0, 2]
  return precision[precision > -1].mean()


images = [image(at) for at in range(IMAGES)]
for truth, found in images:
  print('image')
  for cls, b, crowd in truth:
    print('truth', cls, *b, crowd)
  for cls, score, b in found:
    print('found', cls, score, *b)
for draw in range(6):
  weights = np.ones(IMAGES, int) if draw == 0 else np.bincount(
      [random.randrange(IMAGES) for _ in range(IMAGES)], minlength=IMAGES)
  drawn = [image for image, weight in zip(images, weights) for _ in range(weight)]
  print('expect', repr(float(average_precision(drawn))), *weights)
