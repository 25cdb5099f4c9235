#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch on a model: eagerly, as a CUDA graph, and as a CUDA graph of what torch.compile makes of it.

In channels_last (of a name that networks.py knows: in the better of both orders), inputs and outputs on the device in
the network's type. Prints a line of JSON for each batch and type: milliseconds, medians; the peak of PyTorch's
allocator in the first eager runs, with what cuDNN tries out and the networks of the other types; what did not finish
within --compile-limit or failed has no time. Everything is compiled first; then it waits for a line on stdin, so that
several can compile at once and be timed one after the other.
"""

import argparse
import copy
import gc
import json
import signal
import statistics
import sys
import tempfile
import time

import torch
import torch._inductor.config

import networks
from onnx_torch import Network
from with_batch import with_batch

TYPES = {'tf32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}
SECONDS, MOST_RUNS, WARM_UPS = 0.4, 1000, 5


class Limit:
    """Throws TimeoutError in what takes longer."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def late(*_):
            raise TimeoutError('more than %g s' % self.seconds)
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)


def milliseconds(work):
    for _ in range(WARM_UPS):
        work()
    torch.cuda.synchronize()
    times, total = [], 0.0
    while total < SECONDS * 1e3 and len(times) < MOST_RUNS:
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
        total += times[-1]
    return statistics.median(times)


def captured(work):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


class Variant:
    """A network of one type in one memory order, with its input and what torch.compile made of it."""

    def __init__(self, network, x, options):
        self.network, self.x, self.faster, self.row = network, x, None, {}
        if options.compile_limit <= 0:
            return
        begin = time.time()
        torch._dynamo.reset()
        try:
            with Limit(options.compile_limit):
                faster = torch.compile(network, fullgraph=True)
                faster(x)
                torch.cuda.synchronize()
            self.faster, self.row['compile_seconds'] = faster, time.time() - begin
        except Exception as error:  # whatever a compiler of another's may throw
            self.row['compile_error'] = '%s: %s' % (type(error).__name__, str(error)[:200])

    def times(self):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.row['eager'] = milliseconds(lambda: self.network(self.x))
        self.row['peak_bytes'] = torch.cuda.max_memory_allocated()
        self.row['graph'] = milliseconds(captured(lambda: self.network(self.x)))
        if self.faster is not None:
            self.row['compiled'] = milliseconds(captured(lambda: self.faster(self.x)))
        return self.row


def best(rows):
    """The least of each number that all rows have."""
    return {key: min(row[key] for row in rows) if isinstance(rows[0][key], float) else rows[0][key]
            for key in rows[0] if all(key in row for row in rows)}


def variants(model, batch, precision, folder, options):
    named = not model.endswith('.onnx')
    network = networks.module(model) if named else Network(with_batch(model, batch, folder))
    x = (networks.example(model, batch) if named else torch.rand(network.shape)).cuda()
    network = network.cuda().to(TYPES[precision]).eval()
    if not x.is_floating_point():
        return [Variant(network, x, options)]
    orders = [torch.channels_last] if x.dim() == 4 else []
    orders += [torch.contiguous_format] if named else []
    return [Variant(copy.deepcopy(network).to(memory_format=order),
                    x.to(TYPES[precision]).contiguous(memory_format=order), options) for order in orders]


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', help='MODEL.onnx, or a name of networks.py')
    parser.add_argument('rows', help='BATCH:PRECISION,BATCH:PRECISION of tf32, fp16 and bf16')
    parser.add_argument('--compile-limit', type=float, default=0, metavar='SECONDS', help='0: no torch.compile')
    options = parser.parse_args()
    torch._inductor.config.freezing = True  # weights are constants, as they are to Tenon
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    rows = [(int(batch), precision) for batch, precision in (word.split(':') for word in options.rows.split(','))]
    with tempfile.TemporaryDirectory() as folder:
        made = [variants(options.model, batch, precision, folder, options) for batch, precision in rows]
    gc.collect()
    torch.cuda.empty_cache()
    print('ready', flush=True)
    sys.stdin.readline()
    torch.backends.cudnn.benchmark = True  # not before: others compile beside it
    for (batch, precision), ones in zip(rows, made):
        row = best([one.times() for one in ones])
        row.update(batch=batch, precision=precision, pytorch=torch.__version__, cuda=torch.version.cuda,
                   cudnn=torch.backends.cudnn.version(), device=torch.cuda.get_device_name())
        print(json.dumps(row), flush=True)


if __name__ == '__main__':
    sys.exit(main())
