#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races Tenon against PyTorch on an NVIDIA GPU: device time of one captured run, inputs and outputs on the device.

Both run the same ONNX file: PyTorch by its own functions, node by node (torch_times.py); of a name that networks.py
knows (vit_b_16, bert, …), the module that the file was exported from. Tenon also runs in int8, calibrated on random
images, with layers in INT8 wherever that is faster; it is shown beside PyTorch's fp16. Prints Markdown tables of
medians in ms: of Tenon, of both, and with --slowest N of the slowest layers of each largest batch beside the least time
that their bytes or products could take. With --rows FILE a race that was broken off goes on where it was.

  pip install torch numpy onnx
  bench/gpu/race.py build/release/bin/tenon resnet50.onnx mobilenet_v2.onnx yolov8n.onnx --also-own --slowest 10
  bench/gpu/race.py build/release/bin/tenon resnet50.onnx:1,8:fp16,int8 vit_b_16:1,8:fp16 --compile-limit 0
  bench/gpu/race.py build/release/bin/tenon gpt2:8:fp16 clip_vit_b32:1:fp16 --check --slowest 8
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx

from floors import slowest
from tables import print_tables
from with_batch import with_batch

BATCHES, PRECISIONS = '1,4,8,16,32,128', 'tf32,fp16,int8'


def images(path, folder):
    """Random patches with noise, as an array that fits the model's input."""
    graph = onnx.load(path, load_external_data=False).graph
    known = {tensor.name for tensor in graph.initializer}
    shape = [d.dim_value for v in graph.input if v.name not in known for d in v.type.tensor_type.shape.dim]
    random = np.random.default_rng(1)
    patches = random.random((4, shape[1], shape[2] // 16, shape[3] // 16), dtype=np.float32)
    array = np.kron(patches, np.ones((1, 1, 16, 16), np.float32)) * 0.8
    array += 0.2 * random.random(array.shape, dtype=np.float32)
    out = str(pathlib.Path(folder) / 'images.npy')
    np.save(out, array.astype(np.float32))
    return out


class Rows:
    """What was measured, by model, batch, precision and who; kept in a file."""

    def __init__(self, path):
        self.path, self.found = path, {}
        if path and pathlib.Path(path).exists():
            for line in open(path):
                row = json.loads(line)
                self.found[self.key(row)] = row

    @staticmethod
    def key(row):
        return row['model'], row['batch'], row['precision'], row['who']

    def add(self, row):
        self.found[self.key(row)] = row
        print(' '.join('%s %s' % (name, value) for name, value in row.items() if name != 'slowest'), file=sys.stderr,
              flush=True)
        if self.path:
            with open(self.path, 'a') as out:
                out.write(json.dumps(row) + '\n')


class Model:
    def __init__(self, word, folder):
        self.path, batches, precisions = (word.split(':') + ['', ''])[:3]
        self.batches = [int(batch) for batch in (batches or BATCHES).split(',')]
        self.precisions = (precisions or PRECISIONS).split(',')
        self.name, self.named, self.folder = pathlib.Path(self.path).stem, not self.path.endswith('.onnx'), folder
        self.exported = {}

    def fixed(self, batch):
        """A file for one batch."""
        if not self.named:
            return with_batch(self.path, batch, self.folder)
        import networks
        if batch not in self.exported:
            self.exported[batch] = networks.exported(self.path, batch, self.folder)[1]
        return self.exported[batch]

    def file(self, batch):
        """A file for all batches, with the words that ask for one: what calibration found serves all of them."""
        if self.named:
            return self.fixed(batch), []
        graph = onnx.load(self.path, load_external_data=False).graph
        known = {tensor.name for tensor in graph.initializer}
        value = [value for value in graph.input if value.name not in known][0]
        sizes = [batch] + [size.dim_value for size in value.type.tensor_type.shape.dim][1:]
        return with_batch(self.path, 0, self.folder), ['--shapes', '%s:%s' % (value.name, 'x'.join(map(str, sizes)))]


def run(words, report):
    subprocess.run(words + ['-q', '--json', report], check=True, stdout=subprocess.DEVNULL)
    with open(report) as file:
        return json.load(file)


def build_words(command, model, batch, precision):
    """The words of a build, without its output, and those that ask for the batch."""
    path, shapes = model.file(batch)
    words = [command, 'build', path, '--device', 'cuda', '--precision', precision] + shapes
    if precision == 'int8':
        words += ['--data', images(path, pathlib.Path(model.folder)), '--calibrator', 'minmax', '--max-error', '1e9']
    return words, shapes


def tenon(command, model, batch, precision, options, who):
    """Builds an engine and times it."""
    folder = pathlib.Path(model.folder)
    engine, report = str(folder / 'race.tenon'), str(folder / 'report.json')
    words, shapes = build_words(command, model, batch, precision)
    words += ['-o', engine] + (['--no-vendor'] if options.no_vendor or who == 'own' else [])
    if precision == 'int8':
        words += ['--calib-cache', str(folder / (model.name + '.ranges'))]
    built = run(words, report)
    result = run([command, 'bench', engine, '--iterations', '50'] + shapes, report)
    memory = result['memory']
    row = {'model': model.name, 'batch': batch, 'precision': precision, 'who': who, 'built_as': built['precision'],
           'build_seconds': built['seconds'], 'engine_bytes': built['bytes'],
           'device_ms': result['device_latency_ms']['median'], 'wall_ms': result['latency_ms']['median'],
           'memory_bytes': memory.get('device_bytes', 0), 'arena_bytes': memory['arena_bytes'],
           'weights_bytes': memory['weights_bytes'], 'driver': result.get('gpu', {}).get('driver'),
           'used_bytes': result.get('gpu', {}).get('memory_used_bytes'),
           'sm_clock_mhz': result.get('gpu', {}).get('sm_clock_mhz')}
    if options.check and model.named:
        row['error'] = error_of(command, model, batch, engine)
    if options.slowest and batch == max(model.batches) and who == 'tenon':
        row['slowest'] = slowest(model.fixed(batch), precision, result['layers'], options.slowest)
    return row


def error_of(command, model, batch, engine):
    """The largest difference of what the engine gives from PyTorch's FP32, over the largest value."""
    import torch
    import networks
    folder = pathlib.Path(model.folder)
    x, network = networks.example(model.path, batch), networks.module(model.path).cuda()
    np.save(folder / 'input.npy', x.numpy())
    with torch.no_grad():
        expected = network(x.cuda()).float().cpu().numpy()
    subprocess.run([command, 'run', engine, '-q', '-i', 'input=%s' % (folder / 'input.npy'), '-o', str(folder / 'out')],
                   check=True, stdout=subprocess.DEVNULL)
    got = [np.load(path) for path in (folder / 'out').glob('*.npy')]
    for path in (folder / 'out').glob('*.npy'):
        path.unlink()
    return max(float(np.abs(one - expected).max() / np.abs(expected).max()) for one in got)


class PyTorch:
    """PyTorch's times of one batch, by a process that compiles while others do."""

    def __init__(self, model, batch, precisions, limit):
        self.model, self.batch, self.missing = model, batch, precisions
        script = str(pathlib.Path(__file__).with_name('torch_times.py'))
        words = [sys.executable, script, model.path, ','.join('%d:%s' % (batch, one) for one in precisions),
                 '--compile-limit', str(limit)]
        threads = {'TORCHINDUCTOR_COMPILE_THREADS': '2'}  # as many compile at once
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **threads})
        self.timer = threading.Timer(limit * len(precisions) + 60, self.process.kill)
        self.timer.start()

    def is_ready(self):
        """When it has compiled, or given up."""
        ready = self.process.stdout.readline().strip() == 'ready'
        self.timer.cancel()
        return ready

    def rows(self):
        self.process.stdin.write('go\n')
        self.process.stdin.flush()
        for line in self.process.stdout:
            yield dict(json.loads(line), model=self.model.name, who='pytorch')
        self.process.wait()


def race_pytorch(models, options, rows):
    started = []
    for model in models:
        for batch in model.batches:
            missing = [precision for precision in model.precisions if precision != 'int8' and
                       (model.name, batch, precision, 'pytorch') not in rows.found]
            if missing:
                started.append(PyTorch(model, batch, missing, options.compile_limit))
    # None is timed before the last has compiled.
    ready = [one for one in started if one.is_ready()]
    for one in ready:
        for row in one.rows():
            rows.add(row)


def race_tenon(models, options, rows):
    begin = time.time()
    goals = json.loads(pathlib.Path(__file__).with_name('goals.json').read_text())
    for model in models:
        for batch in model.batches:
            for precision in model.precisions:
                goal = '%s %d %s' % (model.name.split('_fp32')[0], batch, precision)
                for who in ['tenon'] + (['own'] if options.also_own and goal in goals else []):
                    if time.time() - begin > options.limit:
                        return
                    if (model.name, batch, precision, who) in rows.found:
                        continue
                    try:
                        rows.add(tenon(options.tenon, model, batch, precision, options, who))
                    except Exception as error:  # an exporter's, or a build's: the others go on
                        print(model.name, batch, precision, str(error)[:300], file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tenon')
    parser.add_argument('models', nargs='+', help='MODEL.onnx[:BATCH,BATCH[:PRECISION,PRECISION]]')
    parser.add_argument('--no-torch', action='store_true', help='Tenon alone')
    parser.add_argument('--compile-limit', type=float, default=150, metavar='SECONDS',
                        help='for torch.compile on one network; 0: leave it out')
    parser.add_argument('--no-vendor', action='store_true', help='own kernels only')
    parser.add_argument('--also-own', action='store_true', help='own kernels only as well, where goals.json has a goal')
    parser.add_argument('--slowest', type=int, default=0, metavar='N', help='layers of each largest batch')
    parser.add_argument('--check', action='store_true',
                        help="compare the results of networks.py's names with PyTorch's in FP32")
    parser.add_argument('--rows', metavar='FILE', help='keeps what was measured, a line of JSON each')
    parser.add_argument('--limit', type=float, default=float('inf'), metavar='SECONDS',
                        help='begin no more rows of Tenon after that')
    options = parser.parse_args()
    rows = Rows(options.rows)
    with tempfile.TemporaryDirectory() as folder:
        models = [Model(word, folder) for word in options.models]
        if not options.no_torch:
            race_pytorch(models, options, rows)
        race_tenon(models, options, rows)
    print_tables(rows.found)


if __name__ == '__main__':
    sys.exit(main())
