# SPDX-License-Identifier: Apache-2.0
"""tenon detect against ONNX Runtime, OpenCV's letterbox and a plain NMS: every box of either side with score >= 0.3 is
found by the other at IoU >= 0.99 with a score within 0.005.   usage: detect_agreement.py MODEL"""
import os
import sys

import reference

np, cv2, onnxruntime = reference.imported('numpy', 'cv2', 'onnxruntime')

CONFIDENCE, IOU, MOST = 0.25, 0.7, 300
LEAST_SCORE, LEAST_IOU, SCORE_TOLERANCE = 0.3, 0.99, 0.005


def yolo_input(image, side):
    """Ultralytics' letterbox: centred, sizes rounded half to even. Gives input, ratio, left, top."""
    height, width = image.shape[:2]
    ratio = min(side / height, side / width)
    size = round(width * ratio), round(height * ratio)
    left, top = (side - size[0]) / 2, (side - size[1]) / 2
    if size != (width, height):
        image = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    image = cv2.copyMakeBorder(image, round(top - 0.1), round(top + 0.1), round(left - 0.1), round(left + 0.1),
                               cv2.BORDER_CONSTANT, value=(114, 114, 114))
    blob = np.ascontiguousarray(image[:, :, ::-1].transpose(2, 0, 1), dtype=np.float32) / np.float32(255)
    return blob[None], ratio, round(left - 0.1), round(top - 0.1)


def yolox_input(image, side):
    """YOLOX's own: top left, sizes truncated, BGR 0..255."""
    ratio = min(side / image.shape[0], side / image.shape[1])
    size = int(image.shape[1] * ratio), int(image.shape[0] * ratio)
    padded = np.full((side, side, 3), 114, np.uint8)
    padded[:size[1], :size[0]] = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(padded.transpose(2, 0, 1), dtype=np.float32)[None], ratio, 0, 0


def candidates(output, kind, side):
    """Rows of centre x, centre y, width, height in input pixels, and the scores of the classes."""
    if kind == 'yolov8':
        rows = output[0].T
        return rows[:, :4], rows[:, 4:]
    rows = output[0]
    boxes = rows[:, :4].copy()
    if kind == 'yolox':
        at = 0
        for stride in (8, 16, 32):
            cells = side // stride
            y, x = np.mgrid[:cells, :cells]
            part = slice(at, at + cells * cells)
            boxes[part, 0] = (rows[part, 0] + x.ravel()) * stride
            boxes[part, 1] = (rows[part, 1] + y.ravel()) * stride
            boxes[part, 2:] = np.exp(rows[part, 2:4]) * stride
            at += cells * cells
    return boxes, rows[:, 5:] * rows[:, 4:5]


def iou(one, many):
    low, high = np.maximum(one[:2], many[:, :2]), np.minimum(one[2:], many[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(many[:, 2:] - many[:, :2], axis=1)
    return shared / (np.prod(one[2:] - one[:2]) + area - shared + 1e-12)


def expected(session, kind, path):
    image = cv2.imread(path)
    inputs = session.get_inputs()[0]
    side = inputs.shape[2] if isinstance(inputs.shape[2], int) else 640
    blob, ratio, left, top = (yolox_input if kind == 'yolox' else yolo_input)(image, side)
    centred, scores = candidates(session.run(None, {inputs.name: blob})[0], kind, side)
    classes, best = scores.argmax(1), scores.max(1)
    keep = best > CONFIDENCE
    centred, classes, best = centred[keep], classes[keep], best[keep]
    boxes = np.hstack([centred[:, :2] - centred[:, 2:] / 2, centred[:, :2] + centred[:, 2:] / 2])
    found = []
    order = list(np.argsort(-best, kind='stable'))
    while order and len(found) < MOST:
        first = order.pop(0)
        found.append(first)
        others = [at for at in order if classes[at] == classes[first]]
        overlaps = iou(boxes[first], boxes[others]) if others else []
        hidden = {at for at, overlap in zip(others, overlaps) if overlap > IOU}
        order = [at for at in order if at not in hidden]
    boxes = (boxes[found] - [left, top, left, top]) / ratio
    boxes[:, 0::2] = boxes[:, 0::2].clip(0, image.shape[1])
    boxes[:, 1::2] = boxes[:, 1::2].clip(0, image.shape[0])
    return [(int(c), float(s), b) for c, s, b in zip(classes[found], best[found], boxes)]


def unmatched(these, those):
    """Boxes of `these` that matter and have no partner of their own in `those`."""
    free, missing = list(those), []
    for kind, score, box in these:
        if score < LEAST_SCORE:
            continue
        partner = next((other for other in free if other[0] == kind and abs(other[1] - score) <= SCORE_TOLERANCE
                        and iou(box, other[2][None])[0] >= LEAST_IOU), None)
        if partner is None:
            missing.append((kind, score, box))
        else:
            free = [other for other in free if other is not partner]
    return missing


def main():
    model, images = reference.data('models', 'detect', sys.argv[1]), reference.data('coco', 'val80')
    kind = sys.argv[1].split('n_')[0].split('_')[0]
    session = reference.session(onnxruntime, model)
    compared = wrong = 0
    for entry in reference.tenon('detect', model, '--source', images)['detections']:
        got = [(one['class'], one['score'], np.array(one['box'])) for one in entry['detections']]
        want = expected(session, kind, entry['image'])
        compared += sum(score >= LEAST_SCORE for _, score, _ in want)
        for side, missing in (('missing', unmatched(want, got)), ('extra', unmatched(got, want))):
            for found, score, box in missing:
                wrong += 1
                print('%s: %s class %d score %.4f box %s' %
                      (os.path.basename(entry['image']), side, found, score, box.round(1)))
    print('%s: %d boxes compared, %d without a partner' % (sys.argv[1], compared, wrong))
    return 1 if wrong or not compared else 0


sys.exit(main())
