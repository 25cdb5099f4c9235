# SPDX-License-Identifier: Apache-2.0
"""The shared models on a GPU: in FP32, TF32 and FP16 against ONNX Runtime on the CPU; INT8 models, as they come and
as Tenon calibrates them, against Tenon on the CPU. Prints a table of relative errors (l2) of the outputs; of
INT8 also which share of the outputs has the same bits, and with SiLU what --strict makes of it.
usage: gpu_agreement.py [DEVICE]"""
import concurrent.futures
import functools
import json
import os
import subprocess
import sys
import tempfile

import reference

np, onnxruntime = reference.imported('numpy', 'onnxruntime')

# Values of the input, least and largest.
FLOATS = {
    'classify/cifar10_resnet8_fp32': (0, 255), 'classify/mnist-8': (0, 255), 'classify/mobilenet_v2_fp32': (-2, 2.6),
    'classify/squeezenet1.1_fp32': (-115, 140), 'classify/squeezenet1.1_fp16': (-115, 140),
    'detect/yolov8n_fp32': (0, 1), 'detect/yolov5n_fp32': (0, 1), 'detect/yolov5n_fp16': (0, 1),
    'detect/yolox_nano': (0, 255), 'face/ultraface_rfb_320': (-1, 1), 'face/yunet_2023mar': (0, 255),
    'segment/deeplab_v3_mnv2_257': (-1, 1), 'audio/silero_vad_16k_op15': (-0.1, 0.1),
}
BYTES = {
    'classify/cifar10_resnet8_qdq_int8': (0, 255), 'classify/mobilenet_v2_qdq_int8': (-2, 2.6),
    'classify/mobilenet_v2_dynamic_int8': (-2, 2.6), 'detect/yolov8n_qdq_int8': (0, 1),
}
CALIBRATED = ('classify/cifar10_resnet8_fp32', 'classify/mnist-8', 'classify/mobilenet_v2_fp32',
              'classify/squeezenet1.1_fp32', 'detect/yolov8n_fp32', 'detect/yolox_nano', 'face/ultraface_rfb_320')
MOST = {'fp32': 1e-4, 'tf32': 1e-2, 'fp16': 1e-2}
MOST_OF_F16 = 1e-2  # of models in f16: ONNX Runtime's own results are that far off
# Where activations are none, ReLU or Clip, or by --strict, bytes are the same, and what follows in floats nearly so;
# SiLU moves bytes by one, and what follows by more.
MOST_OF_BYTES, MOST_BY_SILU = 1e-5, 0.1
SILU = ('detect/yolov8n_fp32', 'detect/yolox_nano', 'detect/yolov8n_qdq_int8')
FREE = {'audio/silero_vad_16k_op15': {'input': [1, 576], 'state': [2, 1, 128]}}


def inputs_of(name, session, low, high):
    """Patches of 8x8 pixels with noise: values that differ, as those of an image do."""
    random = np.random.default_rng(7)
    arrays = {}
    for one in session.get_inputs():
        shape = FREE.get(name, {}).get(one.name) or [size if isinstance(size, int) else 1 for size in one.shape]
        if one.type == 'tensor(int64)':
            arrays[one.name] = np.array(16000, np.int64).reshape(shape)
            continue
        coarse = random.random([-(-size // 8) for size in shape]) if len(shape) == 4 else random.random(shape)
        for axis in range(len(shape)):
            if len(shape) == 4:
                coarse = np.repeat(coarse, 8, axis).take(range(shape[axis]), axis)
        values = low + (high - low) * (0.8 * coarse + 0.2 * random.random(shape))
        arrays[one.name] = values.astype(np.float16 if one.type == 'tensor(float16)' else np.float32)
    return arrays


class Case:
    def __init__(self, name, span, folder):
        self.name, self.folder = name, os.path.join(folder, name.replace('/', '_'))
        self.path = reference.data('models', *(name + '.onnx').split('/'))
        os.mkdir(self.folder)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        if 'int8' in name:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.path, options, providers=['CPUExecutionProvider'])
        self.outputs = [one.name for one in session.get_outputs()]
        self.inputs = inputs_of(name, session, *span)
        for key, array in self.inputs.items():
            np.save(os.path.join(self.folder, key + '.npy'), array)
        self.expected = session.run(None, self.inputs)

    def tenon(self, *words):
        done = subprocess.run([os.environ['TENON'], *words, '-q', '--timing-cache', '-'], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[:300])

    def run(self, model, *words):
        out = tempfile.mkdtemp(dir=self.folder)
        feeds = [word for key in self.inputs for word in ('--input', '%s=%s/%s.npy' % (key, self.folder, key))]
        self.tenon('run', model, *feeds, '-o', out, *words)
        return [np.load(os.path.join(out, name.replace('/', '_').replace(':', '_') + '.npy')) for name in self.outputs]

    def calibrated(self, *words):
        """An engine for the CPU that has not been tuned, as large a part of it in INT8 as can be."""
        engine = os.path.join(tempfile.mkdtemp(dir=self.folder), 'int8.tenon')
        data = os.path.join(self.folder, list(self.inputs)[0] + '.npy')
        self.tenon('build', self.path, '-o', engine, '--precision', 'int8', '--data', data, '--calibrator', 'minmax',
                   '--max-error', '1e9', '--budget', '0', *words)
        return engine


def error(got, expected):
    """The largest of all outputs."""
    def of(a, b):
        a, b = a.astype(np.float64), b.astype(np.float64)
        return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30)
    return max(of(a, b) for a, b in zip(got, expected))


def floats(case, precision, device):
    got = case.run(case.path, '--device', device, '--precision', precision, '--budget', '0')
    most = MOST_OF_F16 if case.name.endswith('fp16') else MOST[precision]
    return error(got, case.expected), None, most


def int8(case, kind, device, strict):
    strict = ['--strict'] if strict else []
    model = case.calibrated(*strict) if kind == 'calibrated' else case.path
    plain = [] if kind == 'calibrated' else ['--budget', '0', *strict]
    expected = case.run(model, '--device', 'cpu', *plain)
    precision = ['--precision', 'fp32'] if plain else []  # of what is beside the bytes
    got = case.run(model, '--device', device, *plain, *precision)
    same = np.mean([np.mean(a == b) for a, b in zip(got, expected)])
    return error(got, expected), same, MOST_BY_SILU if case.name in SILU and not strict else MOST_OF_BYTES


def judged(work):
    try:
        return work() + ('',)
    except Exception as failure:
        return float('nan'), None, 0, str(failure)


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else 'cuda'
    found = json.loads(subprocess.run([os.environ['TENON'], 'devices', '--json', '-'], stdout=subprocess.PIPE,
                                      check=True).stdout)
    if device != 'cpu' and not found['cuda']:
        reference.skip('there is no GPU')
    models = reference.data('models')
    known = {**FLOATS, **BYTES}
    there = [name for name in known if os.path.exists(os.path.join(models, name + '.onnx'))]
    failed = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(8) as pool:
        cases = {name: Case(name, known[name], folder) for name in there}
        work = []
        for name, case in cases.items():
            precisions = [] if name in BYTES else ['fp32'] if device == 'cpu' else ['fp32', 'tf32', 'fp16']
            work += [(name, precision, functools.partial(floats, case, precision, device)) for precision in precisions]
            kinds = ['as it is'] if name in BYTES else ['calibrated'] if name in CALIBRATED else []
            work += [(name, 'int8 strict' if strict else 'int8',
                      functools.partial(int8, case, kind, device, strict))
                     for kind in kinds for strict in ([False, True] if name in SILU else [False])]
        results = list(pool.map(lambda one: judged(one[2]), work))
        print('| model | precision | error | same bits | |\n| --- | --- | --- | --- | --- |')
        for (name, precision, _), (distance, same, most, why) in zip(work, results):
            wrong = not distance <= most
            failed += wrong
            print('| %s | %s | %.1e | %s | %s |' % (name, precision, distance, '' if same is None else '%.4f' % same,
                                                why or ('more than %g' % most if wrong else '')))
    if len(there) < len(known):
        print('not there: ' + ', '.join(sorted(known.keys() - set(there))))
    print('%d of %d within their bounds' % (len(work) - failed, len(work)))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
