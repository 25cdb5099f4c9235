# SPDX-License-Identifier: Apache-2.0
"""What cpu_time.py times with --precision int8: a model of each runtime, calibrated on the samples of MODEL.data/.

Nothing is judged: every layer may be in INT8. OpenVINO runs what NNCF makes (performance preset), ONNX Runtime what
quantize_static makes (Q/DQ, by channel, behind its own pre-processing). What they made is kept in MODEL.int8/.
"""

import subprocess

import numpy as np


def samples(path):
    return [dict(np.load(one)) for one in sorted(path.with_suffix('.data').glob('*.npz'))]


def kept(path):
    folder = path.with_suffix('.int8')
    folder.mkdir(exist_ok=True)
    return folder


def tenon_engine(path, command):
    """The engine that `tenon build` makes where no loss is too large."""
    out = kept(path) / 'engine.tenon'
    words = [command, 'build', str(path), '-o', str(out), '-q', '--precision', 'int8', '--threads', '1',
             '--max-error', '1e9', '--max-drop', '100', '--calibrator', 'minmax']
    for one in sorted(path.with_suffix('.data').glob('*.npz')):
        words += ['--data', str(one)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(' '.join(done.stderr.strip().splitlines()[-3:]))
    return out


def tenon_run(path, arrays, command):
    import tenon
    session = tenon.load(str(tenon_engine(path, command))).session(threads=1)
    return lambda: session.run(arrays)


def onnxruntime_file(path, **options):
    """Q/DQ by channel, unless the options of quantize_static say otherwise."""
    from onnxruntime import quantization
    from onnxruntime.quantization import shape_inference

    class Reader(quantization.CalibrationDataReader):
        left = iter(samples(path))

        def get_next(self):
            return next(self.left, None)

    name = '_'.join(f'{key}={getattr(value, "name", value)}' for key, value in options.items()) or 'plain'
    out = kept(path) / f'onnxruntime_{name}.onnx'
    if not out.exists():
        ready = kept(path) / 'ready.onnx'
        try:
            shape_inference.quant_pre_process(str(path), str(ready))
        except Exception:  # symbolic inference does not know all operators
            shape_inference.quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
        options = {'quant_format': quantization.QuantFormat.QDQ, 'per_channel': True,
                   'activation_type': quantization.QuantType.QUInt8, 'weight_type': quantization.QuantType.QInt8,
                   **options}
        quantization.quantize_static(str(ready), str(out), Reader(), **options)
    return out


def onnxruntime_session(path):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])


def onnxruntime_run(path, arrays, _):
    session = onnxruntime_session(onnxruntime_file(path))
    names = [one.name for one in session.get_outputs()]
    return lambda: dict(zip(names, session.run(names, arrays)))


def openvino_file(path, arrays):
    import nncf
    import openvino
    out = kept(path) / 'openvino.xml'
    if not out.exists():
        model = openvino.Core().read_model(str(path))
        model.reshape({one.any_name: list(arrays[one.any_name].shape) for one in model.inputs})
        data = samples(path)
        made = nncf.quantize(model, nncf.Dataset(data), subset_size=len(data))
        openvino.save_model(made, str(out), compress_to_fp16=False)
    return out


def openvino_run(path, arrays, _):
    import openvino
    settings = {'INFERENCE_NUM_THREADS': 1, 'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_PRECISION_HINT': 'f32'}
    model = openvino.Core().compile_model(str(openvino_file(path, arrays)), 'CPU', settings)
    request = model.create_infer_request()
    names = [one.any_name for one in model.outputs]
    return lambda: dict(zip(names, request.infer(arrays).values()))


RUNTIMES = {'Tenon': tenon_run, 'ONNX Runtime': onnxruntime_run, 'OpenVINO': openvino_run}


def decibels(got, expected):
    """What is left of the signal against its error, of the output that errs most."""
    worst = float('inf')
    for name, value in expected.items():
        error, signal = np.square(got[name] - value).sum(), np.square(value - value.mean()).sum()
        worst = min(worst, 10 * np.log10(max(signal, 1e-30) / max(error, 1e-30)))
    return worst
