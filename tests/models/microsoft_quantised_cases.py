# SPDX-License-Identifier: Apache-2.0
"""Cases of microsoft_operators.py: weights and tables of a few bits, and biases by position."""
from microsoft_cases import Case


def packed(np, numbers, bits):
    """Integers along the last axis as bytes, the first in the lowest bits."""
    each = 8 // bits
    missing = -numbers.shape[-1] % each
    parts = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, missing)]).reshape(*numbers.shape[:-1], -1, each)
    return (parts << np.arange(each) * bits).sum(-1).astype('uint8')


def products(np, new):
    k, n, op, more = 96, 10, 'MatMulNBits', {'K': 96, 'N': 10}
    order = ('x', 'w', 's', 'z', 'order', 'b')
    x = new(2, 3, k)
    for bits in (2, 4, 8):
        blocks = k // 32
        base = {'x': x, 'w': new.integers(0, 256, n, blocks, 4 * bits, dtype='uint8'),
                's': np.abs(new(n * blocks)) / 20 + np.float32(0.01)}
        fixed, attributes = ('w', 's', 'z', 'order', 'b'), {**more, 'bits': bits, 'block_size': 32}
        points = packed(np, new.integers(0, 1 << bits, n, blocks, dtype='int64'), bits)
        yield Case(f'NBits{bits}', op, base, attributes, order=order, constants=fixed)
        yield Case(f'NBits{bits}-zeros', op, {**base, 'z': points.reshape(-1), 'b': new(n)}, attributes, order=order,
                   constants=fixed)
        if bits == 8:
            continue  # ONNX Runtime has no zero points of floats for these
        whole = new.integers(0, 1 << bits, n, blocks).astype('float32')
        yield Case(f'NBits{bits}-whole-zeros', op, {**base, 'z': whole}, attributes, order=order, constants=fixed)
        yield Case(f'NBits{bits}-float-zeros', op, {**base, 'z': whole / 2 + np.float32(0.3)}, attributes,
                   order=order, constants=fixed)
        if bits == 4:
            groups = new.integers(0, blocks, k)
            yield Case('NBits4-order', op, {**base, 'order': groups}, attributes, order=order, constants=fixed)
    for kind in (0, 1):
        for k, n in ((64, 10), (33, 5)):
            given = {'x': new(3, k), 'w': new.integers(0, 256, (n * k + 1) // 2, dtype='uint8'),
                     's': np.abs(new((n * k - 1) // 32 + 1))}
            yield Case(f'Bnb4-{kind}-{k}', 'MatMulBnb4', given, {'K': k, 'N': n, 'block_size': 32, 'quant_type': kind},
                       constants=('w', 's'))


def convs(np, new):
    number = lambda value, kind: np.array(value, kind)
    given = {'x': new.integers(0, 256, 1, 9, 7, 4, dtype='uint8'), 'xs': number(0.02, 'float32'),
             'xz': number(120, 'uint8'), 'w': new.integers(-128, 128, 6, 4, 3, 3, dtype='int8'),
             'ws': np.abs(new(6)) / 50, 'wz': np.zeros(6, 'int8'), 'ys': number(0.05, 'float32'),
             'yz': number(130, 'uint8'), 'b': new.integers(-500, 500, 6)}
    window = {'kernel_shape': [3, 3], 'pads': [1, 1, 1, 1], 'strides': [2, 1]}
    fixed = tuple(name for name in given if name != 'x')
    yield Case('QLinearConv-last', 'QLinearConv', given, {**window, 'channels_last': 1}, constants=fixed,
               types={'y': 2}, atol=1.01)
    first = {**given, 'x': np.transpose(given['x'], (0, 3, 1, 2)).copy()}
    yield Case('QLinearConv', 'QLinearConv', first, window, constants=fixed, types={'y': 2}, atol=1.01)


def tables(np, new):
    from onnx import numpy_helper
    import ml_dtypes
    op, rows, order = 'GatherBlockQuantized', 7, ('w', 'at', 's', 'z')
    fixed = ('w', 's', 'z')
    at = new.integers(0, rows, 2, 3, dtype='int64')
    for bits, width in ((4, 64), (8, 64), (2, 64), (4, 40)):
        blocks = -(-width // 16)
        numbers = new.integers(0, 1 << bits, rows, width, dtype='int64')
        base = {'w': packed(np, numbers, bits), 'at': at, 's': np.abs(new(rows, blocks)) / 10}
        more = {'bits': bits, 'block_size': 16, 'gather_axis': 0, 'quantize_axis': 1}
        yield Case(f'Table{bits}-{width}', op, base, more, order=order, constants=fixed)
        zeros = packed(np, new.integers(0, 1 << bits, rows, blocks, dtype='int64'), bits)
        yield Case(f'Table{bits}-{width}-zeros', op, {**base, 'z': zeros}, more, order=order, constants=fixed)
    for kind, low in (('int4', -8), ('uint4', 0)):
        four = getattr(ml_dtypes, kind)
        base = {'w': new.integers(low, low + 16, rows, 64).astype(four), 'at': at, 's': np.abs(new(rows, 4)) / 10}
        more = {'block_size': 16, 'quantize_axis': 1}
        yield Case(f'Table-{kind}', op, base, more, order=order, constants=fixed, opset=21)
        zeros = new.integers(low, low + 16, rows, 4).astype(four)
        yield Case(f'Table-{kind}-zeros', op, {**base, 'z': zeros}, more, order=order, constants=fixed, opset=21)


def embeddings(np, new):
    byte = lambda *shape: new.integers(0, 256, *shape, dtype='uint8')
    one = lambda value, kind: np.array(value, kind)
    parts = ('words', 'places', 'parts', 'gamma', 'beta')
    sizes = {'words': (11, 8), 'places': (9, 8), 'parts': (2, 8), 'gamma': (8,), 'beta': (8,)}
    given = {'ids': new.integers(0, 11, 2, 5), 'segments': new.integers(0, 2, 2, 5),
             **{name: byte(*sizes[name]) for name in parts},
             'mask': np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], 'int32'),
             **{f'{name}_scale': one(0.01 * (at + 1), 'float32') for at, name in enumerate(parts)},
             **{f'{name}_zero': one(120 + at, 'uint8') for at, name in enumerate(parts)}}
    fixed = tuple(name for name in given if name not in ('ids', 'segments', 'mask'))
    yield Case('QEmbed', 'QEmbedLayerNormalization', given, {'epsilon': 1e-3}, ('y', 'index'), constants=fixed,
               types={'index': 6}, atol=1e-4)
    order = tuple(given)
    without = {name: array for name, array in given.items() if not name.startswith(('segments', 'parts'))}
    yield Case('QEmbed-words', 'QEmbedLayerNormalization', without, {}, ('y', 'index'), order, fixed,
               types={'index': 6}, atol=1e-4)


def positions(np, new):
    one = lambda value: np.array([value], 'int64')
    for both in (0, 1):
        table, farthest = new(32, 3), 40
        away = np.arange(50)[None] - np.arange(50)[:, None]  # of a key from a query
        count = 16 if both else 32
        side = (away > 0) * count if both else 0
        away = np.abs(away) if both else np.maximum(-away, 0)
        near = count // 2
        far = np.log(np.maximum(away, 1) / near) / np.log(farthest / near) * (count - near)
        at = side + np.where(away < near, away, np.minimum(near + far.astype('int64'), count - 1))
        given = {'table': table, 'queries': one(50), 'keys': one(50)}
        yield Case(f'RelativeBias-{both}', 'RelativePositionBias', given,
                   {'is_bidirectional': both, 'max_distance': farthest},
                   constants=('table',), expected=[np.transpose(table[at], (2, 0, 1))[None]])
    given = {'q': new(2, 5, 12), 'b': new(12), 'bias': new(1, 3, 5, 5), 'w': new(4, 8), 'wb': new(8),
             'eco': new(1, 3, 1, 1)}
    queries = (given['q'] + given['b']).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3)
    gates = 1 / (1 + np.exp(-(queries @ given['w'] + given['wb']).reshape(2, 3, 5, 2, 4).sum(-1)))
    gate = gates[..., :1] * (gates[..., 1:] * given['eco'] - 1) + 2
    yield Case('GatedBias', 'GatedRelativePositionBias', given, {'num_heads': 3}, constants=('b', 'w', 'wb', 'eco'),
               expected=[gate * given['bias']])


def cases(np, new):
    for kind in (products, convs, tables, embeddings, positions):
        yield from kind(np, new)
