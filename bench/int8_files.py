#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the networks of int8_networks.py as others quantise them, Q/DQ in ONNX: for cpu_time.py.

quantize_static of ONNX Runtime by channel (u8s8, s8s8, u16: activations of uint16; nobias: biases stay floats), and
NNCF on ONNX (nncf). Calibrated on MODEL.data/; FOLDER/MODEL_KIND.onnx, with the inputs that are timed beside it.

  bench/int8_networks.py nets --only resnet18,tagger
  bench/int8_files.py files nets/resnet18.onnx nets/tagger.onnx --kinds u8s8,u16,nncf
  PYTHONPATH=build/release/python bench/cpu_time.py files/*.onnx
"""

import argparse
import pathlib
import shutil

import int8_runs

KINDS = 'u8s8,s8s8,u16,nobias,nncf'


def quantised(path, kind):
    if kind == 'nncf':
        import nncf
        import onnx
        data = int8_runs.samples(path)
        out = int8_runs.kept(path) / 'nncf.onnx'
        onnx.save(nncf.quantize(onnx.load(str(path)), nncf.Dataset(data), subset_size=len(data)), str(out))
        return out
    from onnxruntime.quantization import QuantType
    options = {'u8s8': {}, 's8s8': {'activation_type': QuantType.QInt8}, 'u16': {'activation_type': QuantType.QUInt16},
               'nobias': {'extra_options': {'QuantizeBias': False}}}
    return int8_runs.onnxruntime_file(path, **options[kind])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('models', type=pathlib.Path, nargs='+')
    parser.add_argument('--kinds', default=KINDS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for path in options.models:
        for kind in options.kinds.split(','):
            try:
                shutil.copy(quantised(path, kind), options.folder / f'{path.stem}_{kind}.onnx')
                shutil.copy(path.with_suffix('.npz'), options.folder / f'{path.stem}_{kind}.npz')
                print(path.stem, kind, flush=True)
            except Exception as error:  # what a quantiser does not take
                print(f'{path.stem} {kind}: {str(error).splitlines()[0][:200]}', flush=True)


if __name__ == '__main__':
    main()
