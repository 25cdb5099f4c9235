# SPDX-License-Identifier: Apache-2.0
"""Detectors with every kind of head, made by hand: what they find is known before they run.
usage: head_models.py FOLDER   writes a model for each head, and scene.png, the image that they are made for

The scene is 320 x 160: a red disc of radius 40 about (80, 80) and a green bar, turned by 30 degrees, about (220, 80),
120 x 40. Models take 128 x 128 pixels; as a letterbox the scene lies in rows 32 to 96 there, reduced to 0.4. Constant
outputs state boxes, points and angles; masks are made of the colours of the input."""
import math
import os
import struct
import sys
import zlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEIGHT, SIDE, SCALE, BAND = 320, 160, 128, 0.4, 32
DISC = (80.0, 80.0, 40.0)
BAR = (220.0, 80.0, 120.0, 40.0, math.radians(30))
ULTRALYTICS = {'author': 'Ultralytics', 'stride': '32', 'imgsz': '[128, 128]'}
CELLS = 16 * 16 + 8 * 8 + 4 * 4


def scene():
    """The image as height x width x 3, and the true masks of disc and bar."""
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH] + 0.5
    disc = numpy.hypot(x - DISC[0], y - DISC[1]) < DISC[2]
    cosine, sine = math.cos(BAR[4]), math.sin(BAR[4])
    along, across = (x - BAR[0]) * cosine + (y - BAR[1]) * sine, (y - BAR[1]) * cosine - (x - BAR[0]) * sine
    bar = (abs(along) < BAR[2] / 2) & (abs(across) < BAR[3] / 2)
    image = numpy.zeros((HEIGHT, WIDTH, 3), numpy.uint8)
    image[..., 2] = 60
    image[disc] = (255, 0, 0)
    image[bar] = (0, 255, 0)
    return image, disc, bar


def write_png(path, image):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

    rows = b''.join(b'\0' + row.tobytes() for row in image)
    with open(path, 'wb') as file:
        header = struct.pack('>IIBBBBB', image.shape[1], image.shape[0], 8, 2, 0, 0, 0)
        file.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header)
                   + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def to_input(x, y):
    return x * SCALE, y * SCALE + BAND


def centred(cx, cy, width, height):
    """A box of the scene as centre and size in the input."""
    return [*to_input(cx, cy), width * SCALE, height * SCALE]


DISC_BOX = centred(80, 80, 84, 84)
BAR_BOX = centred(*BAR[:2], 130, 110)
BODY = [(40 + 14 * at, 30 + (at * 37) % 100, 0.9 if at % 4 else 0.1) for at in range(17)]


def constant(name, value):
    return numpy_helper.from_array(numpy.ascontiguousarray(value), name)


def made(nodes, outputs, constants=(), metadata=None, shape=(1, 3, SIDE, SIDE), others=()):
    kinds = {'f': TensorProto.FLOAT, 'i': TensorProto.INT64}
    infos = [helper.make_tensor_value_info(name, kinds[kind], sizes) for name, kind, sizes in outputs]
    x = helper.make_tensor_value_info('images', TensorProto.FLOAT, shape)
    inputs = [x] + [helper.make_tensor_value_info(*one) for one in others]
    graph = helper.make_graph(nodes, 'head', inputs, infos, list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)
    helper.set_model_props(model, metadata or {})
    return model.SerializeToString()


def stated(name, value):
    """Nodes and constants that give `value` whatever the image shows."""
    kind = '_i' if value.dtype == numpy.int64 else '_f'
    cast = [helper.make_node('Cast', ['zero_' + name], ['cast_' + name], to=TensorProto.INT64)] if kind == '_i' else []
    nodes = [helper.make_node('ReduceMean', ['images'], ['mean_' + name], keepdims=0),
             helper.make_node('Mul', ['mean_' + name, 'nought_' + name], ['zero_' + name]), *cast,
             helper.make_node('Add', ['value_' + name, ('cast_' if cast else 'zero_') + name], [name])]
    return nodes, [constant('value_' + name, value), constant('nought_' + name, numpy.float32(0))]


def model_of(metadata=None, shape=(1, 3, SIDE, SIDE), **values):
    """A model that gives these arrays."""
    nodes, constants, outputs = [], [], []
    for name, value in values.items():
        more = stated(name, value)
        nodes += more[0]
        constants += more[1]
        outputs.append((name, 'i' if value.dtype == numpy.int64 else 'f', value.shape))
    return made(nodes, outputs, constants, metadata, shape)


def columns(rows, count=CELLS, blank=None):
    """[1, values, count]: the rows as the first candidates, `blank` as all others."""
    values = numpy.zeros((count, len(rows[0])), numpy.float32)
    if blank is not None:
        values[:] = blank
    values[:len(rows)] = rows
    return values


def segmentation(rows, planes_last=False, metadata=None):
    """Boxes with 2 coefficients each, and 2 mask planes of a quarter of the input: red and green, less a half."""
    nodes, constants = stated('output0', rows[None] if planes_last else numpy.ascontiguousarray(rows.T)[None])
    pick = numpy.zeros((2, 3, 4, 4), numpy.float32)
    pick[0, 0] = pick[1, 1] = 1 / 16
    nodes += [helper.make_node('Conv', ['images', 'pick', 'less'], ['output1'], strides=[4, 4])]
    constants += [constant('pick', pick), constant('less', numpy.array([-0.5, -0.5], numpy.float32))]
    shape = rows[None].shape if planes_last else rows.T[None].shape
    return made(nodes, [('output0', 'f', shape), ('output1', 'f', (1, 2, SIDE // 4, SIDE // 4))], constants, metadata)


def oriented():
    cx, cy = to_input(*BAR[:2])
    bar = [cx, cy, BAR[2] * SCALE, BAR[3] * SCALE]
    # The second is hidden by the first; the third crosses it, its upright box the same, and stays.
    return columns([[*bar, 0.1, 0.9, BAR[4]], [cx + 1, cy, *bar[2:], 0, 0.8, BAR[4] + 0.05],
                    [*bar, 0, 0.7, BAR[4] + math.pi / 2], [*DISC_BOX, 0.6, 0, 0.0]], blank=[5, 5, 8, 8, 0, 0, -0.5])


def logits(shares):
    return numpy.log(numpy.array(shares, numpy.float32) / (1 - numpy.array(shares, numpy.float32)))


def fractions(box):
    return [part / SIDE for part in box]


def corners(box):
    return [box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2]


def semantic():
    """Logits of ground, disc and bar at a half of the input: what is left of blue, red and green."""
    pick = numpy.zeros((3, 3, 2, 2), numpy.float32)
    pick[1, 0] = pick[2, 1] = 1 / 4
    nodes = [helper.make_node('Conv', ['images', 'pick', 'least'], ['out'], strides=[2, 2])]
    constants = [constant('pick', pick), constant('least', numpy.array([0.5, 0, 0], numpy.float32))]
    return made(nodes, [('out', 'f', (1, 3, SIDE // 2, SIDE // 2))], constants,
                {'names': "{0: 'ground', 1: 'disc', 2: 'bar'}"})


def label_map():
    """The same as class numbers, one for each pixel of the input."""
    pick = numpy.zeros((3, 3, 1, 1), numpy.float32)
    pick[1, 0] = pick[2, 1] = 1
    nodes = [helper.make_node('Conv', ['images', 'pick', 'least'], ['logits']),
             helper.make_node('ArgMax', ['logits'], ['labels'], axis=1, keepdims=0)]
    constants = [constant('pick', pick), constant('least', numpy.array([0.5, 0, 0], numpy.float32))]
    return made(nodes, [('labels', 'i', (1, SIDE, SIDE))], constants)


def with_sizes():
    """Boxes as RT-DETR's postprocessing gives them: scaled to the sizes of a second input."""
    boxes = numpy.array([[part / SIDE for part in corners(DISC_BOX)]], numpy.float32)[None]
    nodes, constants = stated('fractions', boxes)
    more = [stated('labels', numpy.array([[4]], numpy.int64)), stated('scores', numpy.array([[0.9]], numpy.float32))]
    for one in more:
        nodes += one[0]
        constants += one[1]
    nodes += [helper.make_node('Cast', ['orig_target_sizes'], ['sizes'], to=TensorProto.FLOAT),
              helper.make_node('Concat', ['sizes', 'sizes'], ['twice'], axis=1),
              helper.make_node('Unsqueeze', ['twice', 'one'], ['scale']),
              helper.make_node('Mul', ['fractions', 'scale'], ['boxes'])]
    constants.append(constant('one', numpy.array([1], numpy.int64)))
    return made(nodes, [('labels', 'i', (1, 1)), ('boxes', 'f', (1, 1, 4)), ('scores', 'f', (1, 1))], constants,
                others=[('orig_target_sizes', TensorProto.INT64, ('n', 2))])


def with_mask(boxes, logits):
    """DETR's outputs, which are nothing where the mask of its pixels is not all ones."""
    nodes, constants = stated('full', logits)
    nodes += [helper.make_node('Cast', ['pixel_mask'], ['ones'], to=TensorProto.FLOAT),
              helper.make_node('ReduceMin', ['ones'], ['least'], keepdims=0),
              helper.make_node('Mul', ['full', 'least'], ['logits'])]
    more = stated('pred_boxes', boxes)
    return made(nodes + more[0], [('logits', 'f', logits.shape), ('pred_boxes', 'f', boxes.shape)], constants + more[1],
                others=[('pixel_mask', TensorProto.INT64, (1, 64, 64))])


def in_half(content):
    """The same model with inputs and outputs in float16."""
    model = onnx.load_from_string(content)
    graph, half = model.graph, TensorProto.FLOAT16
    first, last = [], []
    for info in graph.input:
        for node in graph.node:
            node.input[:] = [name + '_f32' if name == info.name else name for name in node.input]
        info.type.tensor_type.elem_type = half
        first.append(helper.make_node('Cast', [info.name], [info.name + '_f32'], to=TensorProto.FLOAT))
    for info in graph.output:
        for node in graph.node:
            node.output[:] = [name + '_f32' if name == info.name else name for name in node.output]
        info.type.tensor_type.elem_type = half
        last.append(helper.make_node('Cast', [info.name + '_f32'], [info.name], to=half))
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)
    return model.SerializeToString()


def models():
    names, two = {'names': "{0: 'disc', 1: 'bar'}"}, {0: 'disc', 1: 'bar'}
    told = dict(ULTRALYTICS, names=str(two))
    body = [value for x, y, score in BODY for value in (*to_input(x, y), score)]
    pose = columns([[*DISC_BOX, 0.9, *body]], blank=[5, 5, 8, 8, 0, *[60, 60, 0.5] * 17])
    planes = columns([[*DISC_BOX, 0.9, 0, 1, 0], [*BAR_BOX, 0, 0.8, 0, 1]], blank=[5, 5, 8, 8, 0, 0, -3, 3])
    rows = columns([[*DISC_BOX, 0.9, 1, 0, 1, 0], [*BAR_BOX, 0.9, 0, 0.9, 0, 1]], 3 * CELLS,
                   [5, 5, 8, 8, 0, 0, 0, 0, 0])
    ended = columns([[*corners(DISC_BOX), 0.9, 0, 1, 0], [*corners(BAR_BOX), 0.8, 1, 0, 1]], 100)
    boxes = numpy.array([fractions(DISC_BOX), fractions(BAR_BOX), *[[0.5, 0.5, 0.1, 0.1]] * 8], numpy.float32)[None]
    softmax = numpy.zeros((1, 10, 3), numpy.float32)
    softmax[..., 2] = 9
    softmax[0, 0], softmax[0, 1] = (6, 0, 0), (0, 5, 1)
    sigmoid = numpy.full((1, 10, 2), -6, numpy.float32)
    sigmoid[0, 0], sigmoid[0, 1] = logits([0.9, 0.1]), logits([0.2, 0.8])
    shares = columns([[*fractions(DISC_BOX), 0.9, 0.1], [*fractions(BAR_BOX), 0.2, 0.8]], 300,
                     [0.5, 0.5, 0.1, 0.1, 0.01, 0.02])
    listed = numpy.array([corners(DISC_BOX), corners(BAR_BOX)], numpy.float32)
    scores, labels = numpy.array([0.9, 0.1], numpy.float32), numpy.array([1, 2], numpy.int64)
    result = {
        'seg': segmentation(planes, metadata=dict(told, task='segment')), 'seg_untold': segmentation(planes),
        'seg5': segmentation(rows, True, names), 'seg_ended': segmentation(ended, True, names),
        'pose': model_of(dict(ULTRALYTICS, names="{0: 'person'}", task='pose', kpt_shape='[17, 3]'),
                         output0=numpy.ascontiguousarray(pose.T)[None]),
        'pose_untold': model_of(output0=numpy.ascontiguousarray(pose.T)[None]),
        'obb': model_of(dict(told, task='obb'), output0=numpy.ascontiguousarray(oriented().T)[None]),
        'obb_untold': model_of(names, output0=numpy.ascontiguousarray(oriented().T)[None]),
        'detr': model_of(names, logits=softmax, pred_boxes=boxes),
        'detr_sigmoid': model_of(names, pred_boxes=boxes, logits=sigmoid),
        'rtdetr': model_of(names, output0=shares[None]),
        'torchvision': model_of(boxes=listed, labels=labels, scores=scores),
        'labelled_batch': model_of(labels=labels[None], boxes=listed[None] / SIDE, scores=scores[None]),
        'rtdetr_sizes': with_sizes(), 'detr_mask': with_mask(boxes, softmax),
        'alone': model_of(shape=(3, 'height', 'width'), boxes=listed, labels=labels, scores=scores),
        'semantic': semantic(), 'label_map': label_map(),
        'detr_half': in_half(model_of(names, logits=softmax, pred_boxes=boxes)), 'semantic_half': in_half(semantic()),
        'yolox': model_of(names, output=columns([[4, 4, 1, 1, 0.9, 0.9, 0.1]], blank=[0, 0, -1, -1, 0, 0, 0])[None]),
        'levels': model_of(cls_8=numpy.zeros((1, 256, 1), numpy.float32),
                           cls_16=numpy.zeros((1, 64, 1), numpy.float32)),
    }
    for content in result.values():
        onnx.checker.check_model(onnx.load_from_string(content))
    return result


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, content in models().items():
        with open(os.path.join(folder, name + '.onnx'), 'wb') as file:
            file.write(content)
    write_png(os.path.join(folder, 'scene.png'), scene()[0])


if __name__ == '__main__':
    main()
