# SPDX-License-Identifier: Apache-2.0
"""Every kind of head through the command, against what NumPy knows of the scene: boxes, masks, key points and angles in
the report, and in each format. Skipped without numpy and onnx.   usage: heads_test.py TENON"""
import csv
import io
import json
import math
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
try:
    import numpy
    import head_models as made
except ImportError as missing:
    print('skipped: %s' % missing)
    sys.exit(SKIPPED)

DISC_CORNERS, BAR_CORNERS = [38, 38, 122, 122], [155, 25, 285, 135]


def run(tenon, folder, name, *words, verb='detect'):
    command = [tenon, verb, name + '.onnx', '--budget', '0', '--timing-cache', '-', '--source', 'scene.png', *words]
    if '--preprocess' not in words:
        command += ['--preprocess', 'yolo']
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    assert result.returncode == 0, (command, result.stderr.decode())
    return result.stdout.decode(), result.stderr.decode()


def report(*words, **options):
    return json.loads(run(*words, '-q', '--json', '-', **options)[0])


def runs_of(counts):
    """Run lengths of COCO's compressed text."""
    runs, at = [], 0
    while at < len(counts):
        value = shift = 0
        more = True
        while more:
            letter = ord(counts[at]) - 48
            value |= (letter & 31) << shift
            shift, at, more = shift + 5, at + 1, bool(letter & 32)
        if letter & 16:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    return runs


def mask_of(rle):
    runs = runs_of(rle['counts'])
    assert min(runs) >= 0 and sum(runs) == rle['size'][0] * rle['size'][1], runs
    bits = numpy.repeat(numpy.arange(len(runs)) % 2, runs)
    mask = bits.reshape(rle['size'][1], rle['size'][0]).T.astype(bool)
    try:
        from pycocotools import mask as coco
        assert (coco.decode({'size': rle['size'], 'counts': rle['counts'].encode()}) == mask).all()
    except ImportError:
        pass
    return mask


def share(mask, truth):
    """Intersection over union."""
    return (mask & truth).sum() / (mask | truth).sum()


def near(got, wanted, most=0.05):
    difference = numpy.abs(numpy.array(got, float) - numpy.array(wanted, float)).max()
    assert difference < most, (got, wanted)


def inside(polygon):
    """The pixels whose middles a polygon encloses."""
    y, x = numpy.mgrid[0:made.HEIGHT, 0:made.WIDTH] + 0.5
    found = numpy.zeros(x.shape, bool)
    for (x0, y0), (x1, y1) in zip(polygon, numpy.roll(polygon, -1, axis=0)):
        if y0 != y1:
            found ^= ((y0 > y) != (y1 > y)) & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return found


def check_two_boxes(tenon, folder):
    kinds = {'detr': 'detr', 'detr_sigmoid': 'detr', 'rtdetr': 'rtdetr', 'detr_half': 'detr'}
    for name, kind in kinds.items():
        found = report(tenon, folder, name)
        assert (found['head'], found['task']) == (kind, 'detect'), found
        first, second = found['detections'][0]['detections']
        near(first['box'], DISC_CORNERS, 0.5 if name == 'detr_half' else 0.05)
        near(second['box'], BAR_CORNERS, 0.5 if name == 'detr_half' else 0.05)
        assert (first['label'], second['label']) == ('disc', 'bar')
        if not name.startswith('detr') or name == 'detr_sigmoid':
            near([first['score'], second['score']], [0.9, 0.8], 1e-4)
    # Softmax over two classes and "no object".
    scores = [one['score'] for one in report(tenon, folder, 'detr')['detections'][0]['detections']]
    near(scores, [1 / (1 + 2 * math.exp(-6)), 1 / (1 + math.exp(-5) + math.exp(-4))], 1e-5)
    for name in ('torchvision', 'labelled_batch'):
        found = report(tenon, folder, name)
        assert found['head'] == 'labelled'
        (only,) = found['detections'][0]['detections']
        near(only['box'], DISC_CORNERS)
        assert only['class'] == 1


def check_companions(tenon, folder):
    """Inputs beside the image, and an image input without a batch."""
    for name, words, kind in (('rtdetr_sizes', [], 4), ('detr_mask', ['--labels', 'two.txt'], 0),
                              ('alone', ['--preprocess', 'letterbox=128x128,scale=1/255'], 1)):
        with open(os.path.join(folder, 'two.txt'), 'w', encoding='utf-8') as file:
            file.write('disc\nbar\n')
        one = report(tenon, folder, name, *words)['detections'][0]['detections'][0]
        near(one['box'], DISC_CORNERS)
        assert one['class'] == kind and one['score'] > 0.89


def check_masks(tenon, folder):
    truths = made.scene()[1:]
    for name in ('seg', 'seg_untold', 'seg5', 'seg_ended'):
        found = report(tenon, folder, name)
        assert found['task'] == 'segment', found
        assert ('metadata' in found['head_from']) == (name == 'seg'), found['head_from']
        for one, truth, corners in zip(found['detections'][0]['detections'], truths, (DISC_CORNERS, BAR_CORNERS)):
            near(one['box'], corners)
            mask = mask_of(one['mask'])
            assert mask.sum() == one['mask']['area']
            assert share(mask, truth) > 0.95, share(mask, truth)
    entries = json.loads(run(tenon, folder, 'seg', '-q', '--format', 'coco')[0])
    assert share(mask_of(entries[0]['segmentation']), truths[0]) > 0.95
    rows = list(csv.DictReader(io.StringIO(run(tenon, folder, 'seg', '-q', '--format', 'csv')[0])))
    rle = {'size': [int(rows[1]['mask_height']), int(rows[1]['mask_width'])], 'counts': rows[1]['mask_counts']}
    assert share(mask_of(rle), truths[1]) > 0.95
    run(tenon, folder, 'seg', '-q', '--format', 'yolo', '-o', 'seg', '--save-crop')
    with open(os.path.join(folder, 'seg/labels/scene.txt'), encoding='utf-8') as file:
        lines = [[float(word) for word in line.split()] for line in file]
    for line, truth in zip(lines, truths):
        polygon = numpy.array(line[1:-1]).reshape(-1, 2) * [made.WIDTH, made.HEIGHT]
        assert share(inside(polygon), truth) > 0.95
    assert os.listdir(os.path.join(folder, 'seg/crops')) and lines[1][-1] == 0.8
    empty = report(tenon, folder, 'seg', '--classes', 'bar')['detections'][0]['detections']
    assert len(empty) == 1


def check_pose(tenon, folder):
    for name in ('pose', 'pose_untold'):
        found = report(tenon, folder, name)
        assert (found['task'], found['key_points']) == ('pose', 17), found
        (one,) = found['detections'][0]['detections']
        near(one['keypoints'], made.BODY, 0.01)
    (entry,) = json.loads(run(tenon, folder, 'pose', '-q', '--format', 'coco')[0])
    near(entry['keypoints'], numpy.array(made.BODY).ravel(), 0.01)
    (row,) = csv.DictReader(io.StringIO(run(tenon, folder, 'pose', '-q', '--format', 'csv')[0]))
    near([float(row[key]) for key in ('x_16', 'y_16', 'score_16')], made.BODY[16], 0.01)
    run(tenon, folder, 'pose', '-q', '--save-txt', '-o', 'pose')
    with open(os.path.join(folder, 'pose/labels/scene.txt'), encoding='utf-8') as file:
        words = [float(word) for word in file.read().split()]
    points = numpy.array(words[5:-1]).reshape(17, 3) * [made.WIDTH, made.HEIGHT, 1]
    near(words[:5] + words[-1:], [0, 80 / 320, 80 / 160, 84 / 320, 84 / 160, 0.9], 1e-4)
    near(points, made.BODY, 0.01)


def check_oriented(tenon, folder):
    for name in ('obb', 'obb_untold'):
        found = report(tenon, folder, name)
        assert found['task'] == 'obb', found
        bar, crossing, disc = found['detections'][0]['detections']
        obb = bar['obb']
        near([obb[key] for key in ('cx', 'cy', 'w', 'h', 'angle')], made.BAR, 1e-2)
        assert share(inside(obb['corners']), made.scene()[2]) > 0.98
        around = numpy.array(obb['corners'])
        near(bar['box'], [*around.min(0), *around.max(0)])
        near(crossing['obb']['angle'], made.BAR[4] + math.pi / 2, 1e-3)
        assert disc['label'] == 'disc'
    alike = report(tenon, folder, 'obb', '--iou', '0.999')['detections'][0]['detections']
    assert len(alike) == 4, 'the box that the best one hid'
    entry = json.loads(run(tenon, folder, 'obb', '-q', '--format', 'coco')[0])[0]
    near(entry['segmentation'][0], numpy.array(obb['corners']).ravel(), 1e-3)
    row = next(csv.DictReader(io.StringIO(run(tenon, folder, 'obb', '-q', '--format', 'csv')[0])))
    near(float(row['angle']), made.BAR[4], 1e-3)
    run(tenon, folder, 'obb', '-q', '--format', 'yolo', '-o', 'obb')
    with open(os.path.join(folder, 'obb/labels/scene.txt'), encoding='utf-8') as file:
        words = [float(word) for word in file.readline().split()]
    near(numpy.array(words[1:-1]).reshape(4, 2) * [made.WIDTH, made.HEIGHT], obb['corners'], 0.01)


def check_semantic(tenon, folder):
    spec = ('--preprocess', 'letterbox,scale=1/255')
    disc, bar = made.scene()[1:]
    truth = disc + 2 * bar
    for name, labels in (('semantic', ['ground', 'disc', 'bar']), ('semantic_half', ['ground', 'disc', 'bar']),
                         ('label_map', ['0', '1', '2'])):
        found = report(tenon, folder, name, *spec, '-o', name, '--save-masks', verb='segment')
        assert found['head'] == ('labels' if name == 'label_map' else 'logits')
        parts = found['segmentations'][0]['classes']
        assert sorted(part['class'] for part in parts) == [0, 1, 2] and parts[0]['label'] == labels[0]
        for part in parts:
            mask = mask_of(part['mask'])
            assert part['label'] == labels[part['class']] and mask.sum() == part['pixels']
            shared = share(mask, truth == part['class'])
            assert shared > 0.93, (name, part['label'], shared)
        assert abs(sum(part['share'] for part in parts) - 1) < 1e-6
        try:
            from PIL import Image
            written = numpy.asarray(Image.open(os.path.join(folder, name, 'masks/scene.png')))
            assert (written == sum(mask_of(part['mask']) * part['class'] for part in parts)).all()
        except ImportError:
            pass
    entries = json.loads(run(tenon, folder, 'semantic', *spec, '-q', '--format', 'coco', verb='segment')[0])
    assert len(entries) == 3 and mask_of(entries[0]['segmentation']).any()
    table = run(tenon, folder, 'semantic', *spec, '-q', '--format', 'csv', verb='segment')[0]
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row['label'] for row in rows] == ['ground', 'disc', 'bar']


def check_notes(tenon, folder):
    """What is guessed is said."""
    assert 'yolov8 obb: 2 classes; told by the values of its planes' in run(tenon, folder, 'obb_untold')[1]
    assert '17 key points; told by the model\'s metadata: kpt_shape' in run(tenon, folder, 'pose')[1]
    for lines in ('person\nother\n', 'a\nb\nc\n'):
        with open(os.path.join(folder, 'others.txt'), 'w', encoding='utf-8') as file:
            file.write(lines)
        told = run(tenon, folder, 'pose_untold', '--labels', 'others.txt')[1]
        assert '17 key points' in told and 'is not that of the model' in told, told
    told = run(tenon, folder, 'yolox', '--preprocess', '')[1]
    assert 'taken as "yolox", ' in told and 'give --preprocess yolo or' in told, told
    assert 'read as logits of each pixel' in run(tenon, folder, 'semantic', verb='segment')[1]


def check_refusals(tenon, folder):
    command = [tenon, 'classify', 'levels.onnx', '-q', '--budget', '0', '--timing-cache', '-', '--source', 'scene.png']
    result = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, timeout=300)
    assert result.returncode == 4 and b'holds no class scores' in result.stderr, result.stderr


def main():
    tenon = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ['TENON_CACHE_DIR'] = folder + '/cache'
        sys.argv[1:] = [folder]
        made.main()
        for check in (check_two_boxes, check_companions, check_masks, check_pose, check_oriented, check_semantic,
                      check_notes, check_refusals):
            check(tenon, folder)


main()
