#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races Tenon against its peers on 80 networks of 18 families: which is slower than a peer?

Networks come from torchvision, timm and transformers (zoo_networks.py), with random weights and with BatchNorm
statistics and constant parameters made random, so that nothing folds away that training would keep. Each is exported to
ONNX once, into --cache. On a CPU peers are ONNX Runtime and OpenVINO in FP32, where they are installed; on a GPU
PyTorch as a CUDA graph and torch.compile as a CUDA graph. All are timed in turn, several rounds, so that a slow moment
of the machine hits all. Prints a Markdown table: medians of the rounds' medians in ms, least and most, the best peer's
time over Tenon's, and the largest error of Tenon against ONNX Runtime over the largest value. With --rows FILE a race
that was broken off goes on where it was. --table takes two networks in three, of every family, for less time.

  pip install torch torchvision timm transformers onnx onnxruntime openvino
  bench/zoo.py build/release/bin/tenon --cache zoo [--only resnet,bert] [--rows rows.jsonl]
  bench/zoo.py build/release/bin/tenon --cache zoo --table > bench/results/zoo.md
  bench/zoo.py build/release/bin/tenon --files det.onnx rec.onnx    # with det.npz and rec.npz beside them
  bench/zoo.py build/release/bin/tenon --cache zoo --device cuda --precision fp16 --batch 1,8
"""

import argparse
import json
import math
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import torch

sys.path.append(str(pathlib.Path(__file__).with_name('gpu')))
import peers
from zoo_networks import NETWORKS, TABLE

TYPES = {'fp32': torch.float32, 'tf32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}


class File:
    """A model that is there already, with its inputs' arrays beside it as .npz."""
    family = 'file'

    def __init__(self, path):
        self.path, self.name = path, path.stem


def enliven(module, inputs):
    """Random statistics of BatchNorm, near those of its inputs, and no parameter that is one number throughout."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.numel() > 1 and (parameter == parameter.flatten()[0]).all():
                parameter.add_(torch.randn_like(parameter) * 0.1)

    def seen(layer, given):
        x = given[0].transpose(0, 1).flatten(1)
        jitter = torch.empty(x.shape[0]).uniform_(0.8, 1.2)
        layer.running_mean.copy_(x.mean(1) * jitter)
        layer.running_var.copy_((x.var(1) if x.shape[1] > 1 else torch.ones(x.shape[0])) * jitter + 1e-3)

    layers = [one for one in module.modules() if isinstance(one, torch.nn.modules.batchnorm._BatchNorm)]
    hooks = [one.register_forward_pre_hook(seen) for one in layers if one.running_mean is not None]
    with torch.no_grad():
        module(*inputs)
    for hook in hooks:
        hook.remove()


def made(network, batch):
    torch.manual_seed(1)
    module, inputs = network.make(batch)
    module = module.eval()
    enliven(module, inputs)
    return module, inputs


def exported(network, batch, cache):
    """The network's ONNX file and the arrays of its inputs by name; made once, unless it is a file."""
    if isinstance(network, File):
        return network.path, dict(np.load(network.path.with_suffix('.npz')))
    path = cache / f'{network.name}_{batch}.onnx'
    arrays = path.with_suffix('.npz')
    if not arrays.exists():
        module, inputs = made(network, batch)
        names = [f'input{at}' for at in range(len(inputs))]
        torch.backends.mha.set_fastpath_enabled(False)  # the exporter knows the parts of attention alone
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter('ignore')
            try:
                torch.onnx.export(module, inputs, str(path), opset_version=17, dynamo=False, input_names=names)
            except Exception:  # what the older exporter has no form for
                torch.onnx.export(module, inputs, str(path), opset_version=18, dynamo=True, input_names=names,
                                  external_data=False, verbose=False)
        torch.backends.mha.set_fastpath_enabled(True)
        np.savez(arrays, **{name: value.numpy() for name, value in zip(names, inputs)})
    return path, dict(np.load(arrays))


def call(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(' '.join(done.stderr.strip().splitlines()[-3:])[:300])
    return done.stdout


class Tenon:
    """An engine that is built once and timed on the arrays in a process of its own each round."""

    def __init__(self, options, path, arrays, folder):
        self.options, self.engine, self.folder = options, str(folder / 'zoo.tenon'), folder
        self.words = ['--device', options.device] if options.device != 'cpu' else ['--threads', str(options.threads)]
        sizes = [f"{name}:{'x'.join(map(str, array.shape))}" for name, array in arrays.items() if array.ndim]
        self.inputs = []
        for at, (name, array) in enumerate(arrays.items()):
            np.save(folder / f'{at}.npy', array)
            self.inputs += ['-i', f'{name}={folder / str(at)}.npy']
        begin = time.time()
        call([options.tenon, 'build', str(path), '-o', self.engine, '-q', '--precision', options.precision,
              '--shapes', ','.join(sizes), *self.words])
        self.seconds = time.time() - begin

    def __call__(self):
        seconds = ['--seconds', str(self.options.seconds)]
        found = json.loads(call([self.options.tenon, 'bench', self.engine, *self.words, *self.inputs, *seconds, '-q',
                                 '--json', '-']))
        return found.get('device_latency_ms', found['latency_ms'])['median']

    def error(self, expected):
        """The largest difference of a result over the largest value; none where sizes depend on near-equal scores."""
        call([self.options.tenon, 'run', self.engine, '-q', *self.words, *self.inputs, '-o', str(self.folder / 'out')])
        worst = 0.0
        for name, array in expected.items():
            got = np.load(self.folder / 'out' / f'{name.replace("/", "_").replace(":", "_")}.npy')
            if got.shape != array.shape:
                return None
            if array.size and array.dtype.kind == 'f':
                worst = max(worst, float(np.abs(got - array).max() / max(np.abs(array).max(), 1e-30)))
        return worst


def cpu_peers(options, path, arrays):
    """Functions that give the median ms of one round, by name, and what ONNX Runtime computes."""
    found, expected = {}, {}
    for name in ('ONNX Runtime', 'OpenVINO'):
        try:
            run = peers.PEERS[name](str(path), arrays, options.threads, 'fp32')
            run()
            found[name] = lambda run=run: peers.median_ms(run, options.seconds)
        except Exception as error:  # a peer that is not there, or cannot run a model, leaves its column empty
            print(f'{name} does not run {path}: {str(error).splitlines()[:1]}', file=sys.stderr)
    if 'ONNX Runtime' in found:
        import onnxruntime
        session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
        names = [one.name for one in session.get_outputs()]
        expected = dict(zip(names, session.run(names, arrays)))
    return found, expected


def cuda_peers(options, network, batch):
    import torch_times
    module, inputs = made(network, batch)
    kind = TYPES[options.precision]
    inputs = tuple(x.cuda().to(kind) if x.is_floating_point() else x.cuda() for x in inputs)
    module = module.cuda().to(kind)
    if len(inputs) == 1 and inputs[0].dim() == 4:
        module = module.to(memory_format=torch.channels_last)
        inputs = (inputs[0].contiguous(memory_format=torch.channels_last),)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == 'tf32'
    found = {}
    with torch.inference_mode():
        for name, work in (('CUDA graph', lambda: module), ('torch.compile', lambda: torch.compile(module))):
            try:
                with torch_times.Limit(options.compile_limit):
                    run = work()
                    replay = torch_times.captured(lambda run=run: run(*inputs))
                found[name] = lambda replay=replay: torch_times.milliseconds(replay)
            except Exception as error:
                print(f'{name} does not run {network.name}: {str(error).splitlines()[:1]}', file=sys.stderr)
    return found


def race(options, network, batch):
    path, arrays = exported(network, batch, options.cache)
    row = {'name': network.name, 'family': network.family, 'batch': batch}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tenon = Tenon(options, path, arrays, folder)
        row['build_seconds'] = tenon.seconds
        runs, expected = (cuda_peers(options, network, batch), {}) if options.device != 'cpu' else (
            cpu_peers(options, path, arrays))
        if expected:
            row['error'] = tenon.error(expected)
        runs['Tenon'] = tenon
        times = {name: [] for name in runs}
        for turn in range(options.rounds):
            for name in list(runs)[::1 if turn % 2 else -1]:
                times[name].append(runs[name]())
    row['ms'] = times
    return row


def cells_of(row, columns):
    cells = []
    for name in columns:
        times = row['ms'].get(name)
        cells.append(f'{statistics.median(times):.3g} ({min(times):.3g} to {max(times):.3g})' if times else '-')
    return cells


def ratio_of(row):
    middle = {name: statistics.median(times) for name, times in row['ms'].items()}
    others = [value for name, value in middle.items() if name != 'Tenon']
    return min(others) / middle['Tenon'] if others else math.nan


def table(rows, options):
    columns = ['Tenon'] + (['ONNX Runtime', 'OpenVINO'] if options.device == 'cpu' else ['CUDA graph', 'torch.compile'])
    print('| family | network | batch | ' + ' | '.join(columns) + ' | best peer / Tenon | error |')
    print('| --- | --- | --- |' + ' --- |' * (len(columns) + 2))
    ratios = []
    for row in rows:
        head = f"| {row['family']} | {row['name']} | {row['batch']} | "
        if 'failed' in row:
            print(head + ' | '.join('-' for _ in columns) + f" | {row['failed']} | - |")
            continue
        ratio, error = ratio_of(row), row.get('error')
        ratios.append(ratio)
        last = '-' if error is None else f'{error:.0e}'
        print(head + ' | '.join(cells_of(row, columns)) + f' | {ratio:.2f} | {last} |')
    known = [one for one in ratios if one == one]
    if known:
        mean = math.exp(sum(map(math.log, known)) / len(known))
        print(f'\nGeometric mean of best peer / Tenon over {len(known)} rows: {mean:.2f}; below 1.00: '
              f'{sum(one < 1 for one in known)}, the least {min(known):.2f}.')


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tenon', help='the command, such as build/release/bin/tenon')
    parser.add_argument('--cache', type=pathlib.Path, help='folder for the ONNX files; not for --files')
    parser.add_argument('--only', default='', help='parts of names of networks or families, with commas between')
    parser.add_argument('--files', type=pathlib.Path, nargs='+', default=[], metavar='MODEL.onnx',
                        help='race these, on a CPU, with inputs from MODEL.npz, instead of networks')
    parser.add_argument('--table', action='store_true', help='only the networks of the table in results/')
    parser.add_argument('--device', default='cpu', help='cpu or cuda')
    parser.add_argument('--precision', default='fp32', help='fp32; on a GPU also tf32, fp16 and bf16')
    parser.add_argument('--batch', default='1', help='batches, with commas between')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=1, help='of each runtime in each round')
    parser.add_argument('--compile-limit', type=float, default=150, help='seconds for torch.compile on one network')
    parser.add_argument('--rows', type=pathlib.Path, help='keeps what was measured, a line of JSON each')
    parser.add_argument('--export', action='store_true', help='write the ONNX files and end')
    options = parser.parse_args()
    if not options.cache and not options.files:
        parser.error('give --cache, or --files')
    return options


def main():
    options = options_of()
    if options.cache:
        options.cache.mkdir(parents=True, exist_ok=True)
    words = [word for word in options.only.split(',') if word]
    networks = [File(path) for path in options.files] or NETWORKS
    chosen = [one for one in networks if (not options.table or one.name in TABLE) and
              (not words or any(word in one.name or word == one.family for word in words))]
    rows = {}
    if options.rows and options.rows.exists():
        for line in open(options.rows):
            row = json.loads(line)
            rows[row['name'], row['batch']] = row
    for network in chosen:
        for batch in map(int, options.batch.split(',')):
            if (network.name, batch) in rows:
                continue
            try:
                exported(network, batch, options.cache)
                if options.export:
                    continue
                row = race(options, network, batch)
            except Exception as error:  # one network that cannot be made or run leaves a row that says so
                row = {'name': network.name, 'family': network.family, 'batch': batch,
                       'failed': f'{type(error).__name__}: {str(error)[:160]}'.replace('|', '/').replace('\n', ' ')}
            rows[network.name, batch] = row
            shown = row.get('failed') or f"{ratio_of(row):.2f}"
            print(f'{network.name} {batch}: {shown}', file=sys.stderr, flush=True)
            if options.rows:
                with open(options.rows, 'a') as out:
                    out.write(json.dumps(row) + '\n')
    if options.export:
        return
    cpu = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo') if 'model name' in line), '')
    where = torch.cuda.get_device_name() if options.device != 'cpu' else f'{cpu}, {platform.machine()}'
    print(f'{where}, {options.precision}, {options.threads} threads, {options.rounds} rounds of '
          f'{options.seconds:g} s; ms (least to most)\n')
    names = {one.name for one in chosen}
    table([row for row in rows.values() if row['name'] in names], options)


if __name__ == '__main__':
    main()
