#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the package does on a GPU, by itself: tensors in and out without copies, the caller's stream, torch.compile, the
five commands, scripts for TensorRT. Needs torch and a GPU; says so, with status 77, where they are not there. Every
part is told as ok or FAILED, with what was measured, and --json keeps it.

usage: gpu_check.py [--json FILE] [--quick]"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
PARTS = []


def part(function):
    PARTS.append(function)
    return function


def net(torch):
    torch.manual_seed(0)
    layers = torch.nn
    return layers.Sequential(
        layers.Conv2d(3, 32, 3, 2, 1), layers.ReLU(), layers.Conv2d(32, 64, 3, 2, 1), layers.ReLU(),
        layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(64, 10)).eval().cuda()


def close(found, expected, limit=2e-3):
    error = float(((found.float() - expected.float()).norm() / expected.float().norm()).item())
    assert error < limit, 'relative error %.3g' % error
    return error


@part
def dlpack_in_without_a_copy(torch, tenon, room):
    """A tensor of torch and what the session reads are one address; what DLPack gives back is the session's."""
    module, x = net(torch), torch.rand(8, 3, 64, 64, device='cuda')
    fast = tenon.torch.compile(module, (x,))
    session = fast.engine.session()
    name = fast.engine.inputs[0].name
    session.run({name: x})
    own = session.device_output(0)
    shared = torch.from_dlpack(own)
    assert shared.data_ptr() == own.data_ptr, 'DLPack out copies'
    target = torch.empty(8, 10, device='cuda')
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x2 = torch.rand(8, 3, 64, 64, device='cuda')
        session.enqueue([x2], [target], stream.cuda_stream)
    stream.synchronize()
    with torch.no_grad():
        error = close(target, module(x2))
    # The address that a run reads is the tensor's: what changes there changes the result, without another call.
    session.bind_input(name, x2)
    session.bind_output(fast.engine.outputs[0].name, target)
    session.run_bound()
    x2.mul_(2)
    torch.cuda.synchronize()
    session.run_bound()
    with torch.no_grad():
        close(target, module(x2))
    return {'relative_error': error, 'output_address': hex(own.data_ptr), 'torch_address': hex(shared.data_ptr())}


@part
def no_copy_in_a_trace(torch, tenon, room):
    """The profiler of torch sees no copy, on the device either, while the engine runs on torch's tensors."""
    module, x = net(torch), torch.rand(8, 3, 64, 64, device='cuda')
    fast = tenon.torch.compile(module, (x,))
    for _ in range(3):
        fast(x)
    torch.cuda.synchronize()
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        for _ in range(10):
            fast(x)
        torch.cuda.synchronize()
    names = [event.name for event in trace.events()]
    copies = [name for name in names if 'Memcpy' in name]
    assert not copies, '%d copies: %s' % (len(copies), copies[:3])
    on_gpu = [event.name for event in trace.events() if 'CUDA' in str(event.device_type)]
    assert on_gpu, 'the profiler saw nothing on the GPU: %s' % sorted(set(names))[:10]
    return {'events_on_the_gpu': len(on_gpu), 'names': sorted(set(on_gpu))[:8]}


@part
def the_callers_current_stream(torch, tenon, room):
    """Work put on the caller's stream before a run is seen by it, and what follows sees its result."""
    module, x = net(torch), torch.rand(8, 3, 64, 64, device='cuda')
    fast = tenon.torch.compile(module, (x,))
    fast(x)
    big = torch.rand(4096, 4096, device='cuda')
    worst = 0.0
    for at in range(20):
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream), torch.no_grad():
            late = big
            for _ in range(4):
                late = late @ big / 4096
            y = torch.full_like(x, 0.1 * at + 0.1) + 0 * late[0, 0]
            out = fast(y) * 1
            worst = max(worst, close(out, module(y)))
    engine = fast.engine
    name = engine.inputs[0].name
    with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
        y = torch.rand_like(x)
        for _ in range(4):
            y = y * 1.0001
        found = engine.run({name: y})
        close(torch.as_tensor(list(found.values())[0]).cuda(), module(y))
    return {'worst_relative_error': worst}


@part
def torch_compile_backend(torch, tenon, room):
    module, x = net(torch), torch.rand(8, 3, 64, 64, device='cuda')
    tenon.torch.reset()
    torch._dynamo.reset()
    fast = torch.compile(module, backend='tenon', options={'precision': 'fp16'})
    with torch.no_grad():
        error = close(fast(x), module(x), 2e-2)
    decisions = tenon.torch.explain()
    assert decisions and all(one.taken for one in decisions), decisions
    return {'relative_error': error, 'graphs': len(decisions)}


@part
def overhead_of_a_call(torch, tenon, room):
    """Microseconds of the host for one call on tensors of the GPU, where the work itself is small."""
    module, x = net(torch), torch.rand(1, 3, 64, 64, device='cuda')
    fast = tenon.torch.compile(module, (x,))
    times = {}
    with torch.no_grad():
        for name, call in (('tenon', lambda: fast(x)), ('pytorch', lambda: module(x))):
            for _ in range(20):
                call()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                call()
            torch.cuda.synchronize()
            times[name + '_us'] = round(5e3 * (time.perf_counter() - start), 2)
    return times


@part
def memory_is_freed(torch, tenon, room):
    module, x = net(torch), torch.rand(32, 3, 224, 224, device='cuda')
    used = []
    for _ in range(4):
        fast = tenon.torch.compile(module, (x,), budget=0)
        with fast.engine.session() as session:
            session.run({fast.engine.inputs[0].name: x})
        fast.engine.close()
        del fast
        torch.cuda.synchronize()
        used.append(torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0])
    assert used[-1] - used[1] < 64 << 20, used
    return {'used_mb_after_each': [one >> 20 for one in used]}


def command(*words, cwd):
    done = subprocess.run([sys.executable, '-m', 'tenon', *words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, 'tenon %s: status %d\n%s' % (' '.join(words), done.returncode, done.stderr[-2000:])
    return done.stdout


@part
def the_five_commands(torch, tenon, room):
    import numpy

    images = os.path.join(ROOT, 'samples', 'images')
    command('export', '--model', 'resnet50', '--weights', 'none', '--output', 'resnet50.onnx', '--dynamic-batch',
            cwd=room)
    more = ['--shapes', 'images:8x3x224x224']
    os.mkdir(os.path.join(room, 'engines'))
    for precision in ('fp32', 'fp16'):
        command('build', 'resnet50.onnx', '-o', 'engines/%s.tenon' % precision, '--device', 'cuda', '--precision',
                precision, '-q', *more, cwd=room)
    command('build', 'resnet50.onnx', '-o', 'engines/int8.tenon', '--device', 'cuda', '--precision', 'int8', '-q',
            '--calibration-data', images, '--preprocess', 'imagenet', *more, cwd=room)
    command('classify', 'engines/fp16.tenon', '--source', images, '-q', '--json', 'classes.json', cwd=room)
    numpy.save(os.path.join(room, 'x.npy'), numpy.random.default_rng(0).random((8, 3, 224, 224), 'float32'))
    command('run', 'engines/fp32.tenon', '--input', 'images=x.npy', '-o', 'out', '-q', cwd=room)
    command('bench', '--pytorch-model', 'resnet50', '--weights', 'none', '--engines', 'engines/', '--batch-sizes', '1',
            '8', '--iterations', '50', '--warmup', '5', '--device', 'cuda', '--monitor', '--output',
            'results/benchmark.json', cwd=room)
    with open(os.path.join(room, 'results', 'benchmark.json'), encoding='utf-8') as file:
        rows = json.load(file)['results']
    try:
        import matplotlib  # noqa: F401

        command('plot', '--results', 'results/benchmark.json', '--output', 'plots/', cwd=room)
        plots = sorted(os.listdir(os.path.join(room, 'plots')))
    except ImportError:
        plots = 'no matplotlib'
    good = [row for row in rows if 'error' not in row]
    assert {row['name'] for row in good} >= {'pytorch', 'pytorch cuda graph', 'fp32', 'fp16'}, rows
    far = [row for row in good if row['fidelity']['relative_error'] > (0.5 if row['name'] == 'int8' else 2e-2)]
    assert not far, far
    return {'ms_p50': {'%s b%d' % (row['name'], row['batch']): round(row['latency_ms']['p50'], 4) for row in good},
            'fidelity': {row['name']: row['fidelity']['relative_error'] for row in good},
            'errors': [[row['name'], row['batch'], row['error']] for row in rows if 'error' in row], 'plots': plots}


@part
def scripts_for_tensorrt(torch, tenon, room):
    """The examples, on memory of the GPU."""
    import tenon.cuda as cuda

    cuda.init()
    assert cuda.Device.count() > 0 and cuda.get_version()[0] > 0
    detector, images = (os.path.join(ROOT, 'samples', name) for name in ('detector.onnx', 'images'))
    examples = os.path.join(ROOT, 'examples')
    told = {}
    for words in (['tensorrt_int8_calibration.py', detector, images, 'int8.tenon', '--batch', '4', '--size', '320'],
                  ['tensorrt_buffers.py', 'int8.tenon'], ['tensorrt_names.py', 'int8.tenon']):
        done = subprocess.run([sys.executable, os.path.join(examples, words[0]), *words[1:]], cwd=room,
                              capture_output=True, text=True)
        assert done.returncode == 0, '%s: %s' % (words[0], (done.stdout + done.stderr)[-2000:])
        told[words[0]] = (done.stdout.strip().splitlines() or [''])[-1]
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('usage')[0].strip())
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('--quick', action='store_true', help='without the five commands')
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print('skipped: no torch')
        return 77
    if not torch.cuda.is_available():
        print('skipped: no GPU')
        return 77
    import tenon
    import tenon.torch

    report = {'gpu': torch.cuda.get_device_name(0), 'torch': torch.__version__, 'tenon': tenon.__version__, 'parts': {}}
    failed = 0
    for function in PARTS:
        if options.quick and function is the_five_commands:
            continue
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as room:
            try:
                entry = {'ok': True, **(function(torch, tenon, room) or {})}
            except Exception:
                failed += 1
                entry = {'ok': False, 'error': traceback.format_exc()[-3000:]}
        entry['seconds'] = round(time.perf_counter() - start, 1)
        report['parts'][function.__name__] = entry
        told = 'ok' if entry['ok'] else 'FAILED'
        print('%-6s %s  %s' % (told, function.__name__, json.dumps(entry)[:1500]), flush=True)
        if not entry['ok']:
            print(entry['error'])
        if options.json:
            with open(options.json, 'w', encoding='utf-8') as file:
                json.dump(report, file, indent=1)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
