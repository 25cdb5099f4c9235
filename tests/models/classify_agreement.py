# SPDX-License-Identifier: Apache-2.0
"""tenon classify against ONNX Runtime on Pillow's resize and centre crop: the same five classes in the same order, each
score within 0.001, save where two scores lie nearer to each other than that.   usage: classify_agreement.py MODEL"""
import os
import sys

import reference

np, onnxruntime, pil = reference.imported('numpy', 'onnxruntime', 'PIL')
from PIL import Image  # noqa: E402

TOP, TOLERANCE = 5, 0.001
SPECS = {
    'mobilenet_v2_fp32.onnx': ('imagenet', 'rgb', 1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    'squeezenet1.1_fp32.onnx': ('center_crop,short=256,interpolation=antialias,colour=bgr,scale=1,mean=104:117:123',
                                'bgr', 1, (104, 117, 123), (1, 1, 1)),
}


def prepared(path, side, colour, scale, mean, std):
    """torchvision's Resize(256) and CenterCrop on Pillow images, then (pixel * scale - mean) / std."""
    image = Image.open(path).convert('RGB')
    width, height = image.size
    short, long = min(width, height), max(width, height)
    longer = int(256 * long / short)
    size = (256, longer) if width <= height else (longer, 256)
    image = image.resize(size, Image.BILINEAR)
    left, top = int(round((size[0] - side) / 2.0)), int(round((size[1] - side) / 2.0))
    pixels = np.asarray(image.crop((left, top, left + side, top + side)), np.float32)
    if colour == 'bgr':
        pixels = pixels[:, :, ::-1]
    values = (pixels * scale - np.array(mean)) / np.array(std)
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None], np.float32)


def main():
    name = sys.argv[1]
    model, images = reference.data('models', 'classify', name), reference.data('imagenet', 'val')
    words, *rest = SPECS[name]
    session = reference.session(onnxruntime, model)
    inputs = session.get_inputs()[0]
    side = inputs.shape[2] if isinstance(inputs.shape[2], int) else 224
    compared = wrong = 0
    results = reference.tenon('classify', model, '--source', images, '--preprocess', words, '--top', str(TOP))
    for entry in results['classifications']:
        logits = session.run(None, {inputs.name: prepared(entry['image'], side, *rest)})[0].ravel().astype(np.float64)
        if logits.min() >= 0 and abs(logits.sum() - 1) < 1e-3:
            scores = logits
        else:
            scores = np.exp(logits - logits.max())
            scores /= scores.sum()
        order = np.argsort(-scores, kind='stable')
        compared += 1
        for got, want in zip(entry['top'], order):
            if abs(got['score'] - scores[want]) > TOLERANCE or abs(scores[got['class']] - scores[want]) > TOLERANCE:
                wrong += 1
                print('%s: got class %d %.4f, expected %d %.4f' %
                      (os.path.basename(entry['image']), got['class'], got['score'], want, scores[want]))
    print('%s: %d images compared, %d classes differ' % (name, compared, wrong))
    return 1 if wrong or not compared else 0


sys.exit(main())
