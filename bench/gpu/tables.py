# SPDX-License-Identifier: Apache-2.0
"""Tables of a race, in Markdown."""

import json
import pathlib

MIB, ORDER = 2**20, ['fp32', 'tf32', 'fp16', 'bf16', 'int8']


def number(value, form='%.4g'):
    return '-' if value is None else form % value


def table(head, lines):
    print('\n| %s |\n| %s |' % (' | '.join(head), ' | '.join('---' for _ in head)))
    for line in lines:
        print('| %s |' % ' | '.join(line))


def print_tables(rows):
    """`rows` by model, batch, precision and who."""
    goals = json.loads(pathlib.Path(__file__).with_name('goals.json').read_text())
    peers = [row for row in rows.values() if row['who'] == 'pytorch']
    ours = sorted((row for row in rows.values() if row['who'] == 'tenon'),
                  key=lambda row: (row['model'], ORDER.index(row['precision']), row['batch']))
    for peer in peers[:1]:
        print('%s, PyTorch %s, CUDA %s, cuDNN %s' % tuple(peer[key] for key in ('device', 'pytorch', 'cuda', 'cudnn')))
    if ours:
        print('driver %s' % ours[0]['driver'])
    lines, races = [], []
    for row in ours:
        model, batch, precision = row['model'], row['batch'], row['precision']
        name, device = model.split('_fp32')[0], row['device_ms']
        own = rows.get((model, batch, precision, 'own'), {}).get('device_ms')
        shown = precision if row['built_as'] == precision else '%s, written as %s' % (precision, row['built_as'])
        goal = goals.get('%s %d %s' % (name, batch, precision))
        lines.append([name, '%d' % batch, shown, number(device), number(goal), number(own),
                      number(batch / device * 1e3, '%.0f'), number(row['wall_ms']),
                      number(row['memory_bytes'] / MIB, '%.1f'), number(row['engine_bytes'] / MIB, '%.1f'),
                      number(row['build_seconds'], '%.0f')])
        peer = rows.get((model, batch, 'fp16' if precision == 'int8' else precision, 'pytorch'))
        if peer:
            times = [peer.get(key) for key in ('eager', 'graph', 'compiled')]
            least = min(time for time in times if time is not None)
            races.append([name, '%d' % batch, precision, number(device)] + [number(time) for time in times] +
                         [number(row.get('error'), '%.1e'), number(least / device, '%.2f'),
                          number(row['memory_bytes'] / MIB, '%.1f'), number(peer['peak_bytes'] / MIB, '%.1f')])
    table(['model', 'batch', 'precision', 'on the GPU', 'goal', 'own kernels', 'images/s', 'with copies', 'memory MiB',
           'engine MiB', 'build s'], lines)
    if races:
        table(['model', 'batch', 'precision', 'Tenon', 'eager', 'graph', 'compiled', 'error', 'best / Tenon',
               'Tenon MiB', 'PyTorch MiB'], races)
    for row in ours:
        if 'slowest' in row:
            print('\n**%s, batch %d, %s**' % (row['model'], row['batch'], row['precision']))
            table(['layer', 'kernel', 'us', 'floor', 'us / floor'], row['slowest'])
