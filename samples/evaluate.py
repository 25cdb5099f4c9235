#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""COCO-style average precision of a detector on a folder written by generate.py.

    evaluate.py --model detector.onnx DIR          runs the model with ONNX Runtime
    evaluate.py --predictions found.json DIR       scores boxes that another program found

Predictions are a list of {"image", "objects": [{"class", "score", "box": [x1, y1, x2, y2]}]}; "detections" is taken
for "objects", and "image" may carry folders.
"""
import argparse
import ast
import json
import os

import cv2
import numpy as np

THRESHOLDS = np.linspace(0.5, 0.95, 10)


def iou_matrix(a, b):
  low = np.maximum(a[:, None, :2], b[None, :, :2])
  high = np.minimum(a[:, None, 2:], b[None, :, 2:])
  inter = np.clip(high - low, 0, None).prod(-1)
  area_a, area_b = (a[:, 2:] - a[:, :2]).prod(-1), (b[:, 2:] - b[:, :2]).prod(-1)
  return inter / np.maximum(area_a[:, None] + area_b[None] - inter, 1e-9)


def nms(boxes, scores, limit, most):
  """Indices kept by greedy NMS of boxes that overlap a better one by more than `limit`."""
  order = np.argsort(-scores, kind='stable')
  overlap = iou_matrix(boxes[order], boxes[order]) > limit
  alive = np.ones(len(order), bool)
  kept = []
  for i in range(len(order)):
    if alive[i]:
      kept.append(order[i])
      if len(kept) == most:
        break
      alive &= ~overlap[i]
  return np.array(kept, int)


def letterbox(image, size):
  """(RGB float32 [3,size,size], scale, left, top): shrunk or grown to fit, padded with grey 114."""
  height, width = image.shape[:2]
  scale = min(size / height, size / width)
  w, h = round(width * scale), round(height * scale)
  if (w, h) != (width, height):
    image = cv2.resize(image, (w, h), interpolation=cv2.INTER_LINEAR)
  left, top = (size - w) // 2, (size - h) // 2
  whole = np.full((size, size, 3), 114, np.uint8)
  whole[top:top + h, left:left + w] = image
  return np.ascontiguousarray(whole[..., ::-1].transpose(2, 0, 1), np.float32) / 255, scale, left, top


def decode(output, confidence=0.001, limit=0.7, most=300):
  """Boxes x1 y1 x2 y2, scores and classes of one image's [4 + classes, anchors]."""
  classes, anchors = np.nonzero(output[4:] > confidence)
  scores = output[4:][classes, anchors]
  if len(scores) > 1500:
    best = np.argpartition(-scores, 1500)[:1500]
    classes, anchors, scores = classes[best], anchors[best], scores[best]
  centre, extent = output[:2, anchors].T, output[2:4, anchors].T
  boxes = np.concatenate([centre - extent / 2, centre + extent / 2], 1)
  kept = nms(boxes + classes[:, None] * 4096.0, scores, limit, most)
  return boxes[kept], scores[kept], classes[kept]


def run_model(path, folder, records, batch=8):
  import onnxruntime
  options = onnxruntime.SessionOptions()
  options.log_severity_level = 3
  session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
  entry = session.get_inputs()[0]
  found = []
  for start in range(0, len(records), batch):
    group = records[start:start + batch]
    ready = [letterbox(cv2.imread(os.path.join(folder, r['image'])), entry.shape[2]) for r in group]
    outputs = session.run(None, {entry.name: np.stack([r[0] for r in ready])})[0]
    for record, output, (_, scale, left, top) in zip(group, outputs, ready):
      boxes, scores, classes = decode(output)
      boxes = (boxes - (left, top, left, top)) / scale
      boxes = np.clip(boxes, 0, (record['width'], record['height']) * 2)
      found.append({'image': record['image'], 'objects': [
          {'class': int(c), 'score': float(s), 'box': b.tolist()} for b, s, c in zip(boxes, scores, classes)]})
  return found, names_of(session)


def names_of(session):
  text = session.get_modelmeta().custom_metadata_map.get('names')
  return ast.literal_eval(text) if text else {}


def average_precision(records, found):
  """{class: AP at each of THRESHOLDS}, precision interpolated at 101 recalls; at most 100 boxes an image."""
  by_image = {}
  for record in found:
    items = record.get('objects', record.get('detections', []))
    by_image[os.path.basename(record['image'])] = sorted(items, key=lambda o: -o['score'])[:100]
  classes = sorted({o['class'] for r in records for o in r['objects']})
  result = {}
  for cls in classes:
    scores, hits, total = [], [], 0
    for record in records:
      truth = np.array([o['box'] for o in record['objects'] if o['class'] == cls], float).reshape(-1, 4)
      mine = [o for o in by_image.get(os.path.basename(record['image']), []) if o['class'] == cls]
      total += len(truth)
      hit = np.zeros((len(mine), len(THRESHOLDS)), bool)
      if mine and len(truth):
        overlap = iou_matrix(np.array([o['box'] for o in mine], float), truth)
        for t, threshold in enumerate(THRESHOLDS):
          free = np.ones(len(truth), bool)
          for i in range(len(mine)):
            best = int(np.argmax(np.where(free, overlap[i], -1)))
            if free[best] and overlap[i, best] >= threshold:
              free[best] = False
              hit[i, t] = True
      scores.append(np.array([o['score'] for o in mine]))
      hits.append(hit)
    scores, hits = np.concatenate(scores), np.concatenate(hits)
    hits = hits[np.argsort(-scores, kind='stable')]
    right, wrong = np.cumsum(hits, 0), np.cumsum(~hits, 0)
    values = []
    for t in range(len(THRESHOLDS)):
      recall = right[:, t] / max(total, 1)
      precision = right[:, t] / np.maximum(right[:, t] + wrong[:, t], 1)
      precision = np.maximum.accumulate(precision[::-1])[::-1]
      at = np.searchsorted(recall, np.linspace(0, 1, 101), side='left')
      values.append(np.append(precision, 0.0)[at].mean())
    result[cls] = np.array(values)
  return result


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  source = parser.add_mutually_exclusive_group(required=True)
  source.add_argument('--model', help='an ONNX file')
  source.add_argument('--predictions', help='a JSON file')
  parser.add_argument('--json', help='write the figures here')
  parser.add_argument('--write-predictions', help='write what the model found here')
  parser.add_argument('folder')
  args = parser.parse_args()
  with open(os.path.join(args.folder, 'labels.json')) as file:
    records = json.load(file)
  names = {o['class']: o['label'] for r in records for o in r['objects']}
  if args.model:
    found, own = run_model(args.model, args.folder, records)
    names = {**names, **own}
  else:
    with open(args.predictions) as file:
      found = json.load(file)
      if isinstance(found, dict):  # tenon detect writes an object
        found = found['detections']
  if args.write_predictions:
    with open(args.write_predictions, 'w') as file:
      json.dump(found, file)
  table = average_precision(records, found)
  print(f'{"class":16} {"mAP50-95":>9} {"AP50":>7} {"AP75":>7}')
  for cls, values in table.items():
    print(f'{names.get(cls, str(cls)):16} {values.mean():9.4f} {values[0]:7.4f} {values[5]:7.4f}')
  every = np.array(list(table.values()))
  print(f'{"all":16} {every.mean():9.4f} {every[:, 0].mean():7.4f} {every[:, 5].mean():7.4f}')
  if args.json:
    with open(args.json, 'w') as file:
      json.dump({'images': len(records), 'map50_95': every.mean(), 'map50': every[:, 0].mean(),
                 'map75': every[:, 5].mean(),
                 'classes': {names.get(c, str(c)): v.mean() for c, v in table.items()}}, file, indent=1)
      file.write('\n')


if __name__ == '__main__':
  main()
