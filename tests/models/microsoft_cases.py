# SPDX-License-Identifier: Apache-2.0
"""The cases of microsoft_operators.py."""
import dataclasses


@dataclasses.dataclass
class Case:
    """A node: its inputs by name, in order; `order` has the names that are absent, too."""
    name: str
    op: str
    inputs: dict
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: tuple = ('y',)
    order: tuple = ()
    constants: tuple = ()
    types: dict = dataclasses.field(default_factory=dict)
    expected: list = None  # of operators that ONNX Runtime has no kernel of on CPUs
    atol: float = 2e-5
    domain: str = 'com.microsoft'
    opset: int = 17
    free: bool = True  # whether sizes may be free, too
    keep: dict = dataclasses.field(default_factory=dict)  # what outputs are multiplied by where some say nothing

    def __post_init__(self):
        self.order = self.order or tuple(self.inputs)


class Numbers:
    def __init__(self, np, seed):
        self.np, self.random = np, np.random.default_rng(seed)

    def __call__(self, *shape, dtype='float32', scale=1.0):
        return (self.random.standard_normal(shape) * scale).astype(dtype)

    def integers(self, low, high, *shape, dtype='int32'):
        return self.random.integers(low, high, shape).astype(dtype)


def products(np, new):
    a, b = new(2, 5, 7), new(2, 7, 3)
    swapped = lambda array: np.ascontiguousarray(np.swapaxes(array, -1, -2))
    for op in ('FusedMatMul', 'TransposeMatMul'):
        yield Case(f'{op}-plain', op, {'a': a, 'b': b}, {'alpha': 0.5})
        yield Case(f'{op}-a', op, {'a': swapped(a), 'b': b}, {'transA': 1})
        yield Case(f'{op}-b', op, {'a': a, 'b': swapped(b)}, {'transB': 1, 'alpha': -2.0})
        yield Case(f'{op}-both', op, {'a': swapped(a), 'b': swapped(b)}, {'transA': 1, 'transB': 1})
        yield Case(f'{op}-weights', op, {'a': a, 'b': new(3, 7)}, {'transB': 1}, constants=('b',))
        yield Case(f'{op}-vector', op, {'a': new(7), 'b': new(3, 7)}, {'transA': 1, 'transB': 1})
    first = {'a': new(5, 2, 4, 7), 'b': new(2, 4, 7, 3)}
    yield Case('FusedMatMul-batch-a', 'FusedMatMul', first, {'transBatchA': 1})
    yield Case('FusedMatMul-batch-a-swapped', 'FusedMatMul', {'a': new(2, 4, 7, 5), 'b': new(4, 7, 2, 3)},
               {'transBatchA': 1, 'transA': 1})
    yield Case('FusedMatMul-batch-b', 'FusedMatMul', {'a': new(2, 4, 5, 7), 'b': new(7, 2, 4, 3)}, {'transBatchB': 1})
    for name, values in (('Relu', {}), ('LeakyRelu', {'activation_alpha': 0.2}), ('Tanh', {}), ('Sigmoid', {}),
                         ('HardSigmoid', {'activation_alpha': 0.3, 'activation_beta': 0.4})):
        yield Case(f'FusedGemm-{name}', 'FusedGemm', {'a': new(5, 7), 'b': new(3, 7), 'c': new(3)},
                   {'activation': name, 'transB': 1, 'alpha': 0.5, 'beta': 2.0, **values}, constants=('b', 'c'))


def erf(np, x):
    import math
    return np.vectorize(math.erf)(x.astype('float64'))


def activations(np, new):
    x, bias = new(2, 3, 8, scale=2), new(8)
    yield Case('Gelu', 'Gelu', {'x': x})
    yield Case('FastGelu', 'FastGelu', {'x': x})
    yield Case('FastGelu-bias', 'FastGelu', {'x': x, 'bias': bias}, constants=('bias',))
    yield Case('BiasGelu', 'BiasGelu', {'x': x, 'bias': bias}, constants=('bias',))
    yield Case('QuickGelu', 'QuickGelu', {'x': x}, {'alpha': 1.5})
    total = (x + bias).astype('float64')
    left, right = total[..., :4], total[..., 4:]
    split = (left * right * 0.5 * (1 + erf(np, right / np.sqrt(2)))).astype('float32')
    yield Case('BiasSplitGelu', 'BiasSplitGelu', {'x': x, 'bias': bias}, constants=('bias',), expected=[split])
    gate, up = x[..., :4].astype('float64'), x[..., 4:].astype('float64')
    swiglu = gate / (1 + np.exp(-1.5 * gate)) * (up + 0.5)
    more = {'activation_alpha': 1.5, 'activation_beta': 0.5}
    yield Case('SwiGLU', 'SwiGLU', {'x': x}, more, expected=[swiglu.astype('float32')])
    yield Case('SwiGLU-two', 'SwiGLU', {'gate': gate.astype('float32'), 'up': up.astype('float32')}, more,
               expected=[swiglu.astype('float32')])
    gate, up = np.minimum(gate, 1), np.clip(up, -1, 1)
    yield Case('SwiGLU-limit', 'SwiGLU', {'x': x}, {'limit': 1.0},
               expected=[(gate / (1 + np.exp(-gate)) * up).astype('float32')])
    scores = np.exp(x + x[:1, :1])
    yield Case('BiasSoftmax', 'BiasSoftmax', {'x': x, 'bias': x[:1, :1]}, {'axis': 2, 'is_inner_broadcast': 1},
               expected=[scores / scores.sum(-1, keepdims=True)])
    w, b = new(8, 3), new(3)
    total = x @ w + b
    fast = 0.5 * total * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total ** 3)))
    yield Case('GemmFastGelu', 'GemmFastGelu', {'x': x, 'w': w, 'b': b}, constants=('w', 'b'),
               expected=[fast.astype('float32')])
    yield Case('FusedMatMulActivation', 'FusedMatMulActivation', {'x': x, 'w': w}, {'activation': 'Relu', 'alpha': 2.0},
               constants=('w',), expected=[np.maximum(x @ w * 2, 0)])
    yield Case('BiasAdd', 'BiasAdd', {'x': x, 'bias': bias, 'skip': x * 2}, constants=('bias',),
               expected=[x * 3 + bias])


def convs(np, new):
    x, w, b = new(1, 4, 9, 7), new(6, 4, 3, 3), new(6)
    window = {'kernel_shape': [3, 3], 'pads': [1, 1, 1, 1]}
    for name, values in (('Relu', []), ('LeakyRelu', [0.2]), ('Clip', [0.0, 1.5]), ('HardSigmoid', [0.25, 0.5]),
                         ('Tanh', []), ('Sigmoid', [])):
        more = {'activation': name, 'activation_params': values} if values else {'activation': name}
        yield Case(f'FusedConv-{name}', 'FusedConv', {'x': x, 'w': w, 'b': b}, {**window, **more},
                   constants=('w', 'b'))
    yield Case('FusedConv-sum', 'FusedConv', {'x': x, 'w': w, 'b': b, 'z': new(1, 6, 9, 7)},
               {**window, 'activation': 'Relu'}, constants=('w', 'b'))
    yield Case('FusedConv-sum-no-bias', 'FusedConv', {'x': x, 'w': w, 'z': new(1, 6, 9, 7)},
               {**window, 'activation': 'Relu'}, order=('x', 'w', 'b', 'z'), constants=('w',))
    last = lambda array: np.ascontiguousarray(np.transpose(array, (0, 2, 3, 1)))
    yield Case('NhwcMaxPool', 'NhwcMaxPool', {'x': new.integers(0, 255, 1, 9, 7, 4, dtype='uint8')},
               {'kernel_shape': [3, 3], 'strides': [2, 2], 'pads': [1, 1, 1, 1]}, types={'y': 2})
    z, around = new(1, 9, 7, 6), np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    rows = [[np.einsum('ncij,ocij->no', around[:, :, i:i + 3, j:j + 3], w) for j in range(7)] for i in range(9)]
    y = np.transpose(np.array(rows), (2, 0, 1, 3)) + b
    yield Case('NhwcFusedConv', 'NhwcFusedConv', {'x': last(x), 'w': w, 'b': b, 'z': z},
               {**window, 'activation': 'Relu'}, constants=('w', 'b'), expected=[np.maximum(y + z, 0)])
    for name, weights in (('', w), ('-last', last(w))):
        yield Case(f'NhwcConv{name}', 'NhwcConv', {'x': last(x), 'w': weights, 'b': b}, window, constants=('w', 'b'),
                   expected=[y])


def norms(np, new):
    x, skip, gamma, beta, bias = new(2, 3, 8), new(2, 3, 8), new(8), new(8), new(8)
    rows = ('gamma', 'beta', 'bias')
    four = ('y', '', '', 'sum')
    op = 'SkipLayerNormalization'
    yield Case('SkipLayerNorm', op, {'x': x, 'skip': skip, 'gamma': gamma, 'beta': beta}, constants=rows)
    yield Case('SkipLayerNorm-bias', op, {'x': x, 'skip': skip, 'gamma': gamma, 'beta': beta, 'bias': bias},
               {'epsilon': 0.1}, four, constants=rows)
    yield Case('SkipLayerNorm-no-beta', op, {'x': x, 'skip': skip, 'gamma': gamma, 'bias': bias}, {}, four,
               order=('x', 'skip', 'gamma', 'beta', 'bias'), constants=rows)
    yield Case('SkipLayerNorm-rows', op, {'x': x, 'skip': skip[0], 'gamma': gamma, 'beta': beta}, constants=rows)
    yield Case('SkipLayerNorm-one', op, {'x': x, 'skip': skip[:1], 'gamma': gamma, 'beta': beta}, constants=rows)
    op = 'SkipSimplifiedLayerNormalization'
    yield Case('SkipRmsNorm', op, {'x': x, 'skip': skip, 'gamma': gamma}, {'epsilon': 1e-5}, constants=rows)
    yield Case('SkipRmsNorm-bias', op, {'x': x, 'skip': skip, 'gamma': gamma, 'bias': bias}, {}, four, constants=rows)
    half = lambda array: array.astype('float16')
    yield Case('SkipRmsNorm-half', op, {'x': half(x), 'skip': half(skip), 'gamma': half(gamma)}, {}, four,
               constants=rows, types={'y': 10, 'sum': 10}, atol=4e-3)
    yield Case('RmsNorm', 'SimplifiedLayerNormalization', {'x': x, 'scale': gamma}, {'epsilon': 1e-3},
               ('y', 'inverse'), constants=('scale',), domain='')
    yield Case('RmsNorm-axis', 'SimplifiedLayerNormalization', {'x': x, 'scale': new(3, 8)}, {'axis': 1},
               ('y', 'inverse'), constants=('scale',), domain='')
    yield Case('LayerNorm', 'LayerNormalization', {'x': x, 'scale': gamma, 'beta': beta}, {'epsilon': 1e-3},
               constants=('scale', 'beta'), domain='')
    yield from groups(np, new)


def groups(np, new):
    x, skip, gamma, beta, bias = new(2, 5, 3, 8), new(2, 5, 3, 8), new(8), new(8), new(8)

    def normal(x, silu):
        parts = x.astype('float64').reshape(2, 15, 4, 2)
        parts = (parts - parts.mean((1, 3), keepdims=True)) / np.sqrt(parts.var((1, 3), keepdims=True) + 0.01)
        y = parts.reshape(x.shape) * gamma + beta
        return (y / (1 + np.exp(-y)) if silu else y).astype('float32')

    first = lambda array: np.ascontiguousarray(np.transpose(array, (0, 3, 1, 2)))
    more = {'groups': 4, 'epsilon': 0.01}
    rows = ('gamma', 'beta', 'bias')
    for silu in (0, 1):
        yield Case(f'GroupNorm-{silu}', 'GroupNorm', {'x': x, 'gamma': gamma, 'beta': beta},
                   {**more, 'activation': silu}, constants=rows, expected=[normal(x, silu)])
        yield Case(f'GroupNorm-first-{silu}', 'GroupNorm', {'x': first(x), 'gamma': gamma, 'beta': beta},
                   {**more, 'activation': silu, 'channels_last': 0}, constants=rows, expected=[first(normal(x, silu))])
    operands = {'x': x, 'gamma': gamma, 'beta': beta, 'skip': skip, 'bias': bias}
    total = x + skip + bias
    yield Case('SkipGroupNorm', 'SkipGroupNorm', operands, {**more, 'activation': 1}, ('y', 's'), constants=rows,
               expected=[normal(total, 1), total])
    total = x + skip[:, :1, :1]
    yield Case('SkipGroupNorm-channels', 'SkipGroupNorm',
               {'x': x, 'gamma': gamma, 'beta': beta, 'skip': np.ascontiguousarray(skip[:, 0, 0])},
               {**more, 'activation': 0}, ('y', 's'), constants=rows, expected=[normal(total, 0), total])


def embeddings(np, new):
    ids, segments = new.integers(0, 11, 2, 5), new.integers(0, 2, 2, 5)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], 'int32')
    tables = {'words': new(11, 8), 'places': new(9, 8), 'parts': new(2, 8), 'gamma': new(8), 'beta': new(8)}
    order = ('ids', 'segments', 'words', 'places', 'parts', 'gamma', 'beta', 'mask', 'positions')
    op, fixed, three = 'EmbedLayerNormalization', tuple(tables), ('y', 'index', 'sum')
    types = {'index': 6}
    whole = {'ids': ids, 'segments': segments, **tables, 'mask': mask}
    yield Case('Embed', op, whole, {'epsilon': 1e-3}, three, order, fixed, types)
    without = {name: array for name, array in whole.items() if name not in ('segments', 'parts', 'mask')}
    yield Case('Embed-words', op, without, {}, ('y', 'index'), order, fixed, types)
    placed = {**whole, 'positions': new.integers(0, 9, 2, 5)}
    yield Case('Embed-positions', op, placed, {}, three, order, fixed, types)
    placed = {**without, 'positions': new.integers(0, 9, 1, 5)}
    yield Case('Embed-position-row', op, placed, {}, ('y', 'index'), order, fixed, types)


def moves(np, new):
    x = new(2, 3, 4)
    for axis in (1, -1):
        yield Case(f'ExpandDims{axis}', 'ExpandDims', {'x': x, 'axis': np.array(axis, 'int32')}, constants=('axis',))
    yield Case('Trilu', 'Trilu', {'x': x, 'k': np.array(1, 'int64')}, {'upper': 0}, constants=('k',))
    yield Case('GatherND', 'GatherND', {'x': x, 'at': new.integers(0, 2, 3, 2, dtype='int64')})
    yield Case('Unique', 'Unique', {'x': np.array([2, 1, 1, 3, 4, 3], 'float32')}, {}, ('y', 'at', 'counts'),
               types={'at': 7, 'counts': 7})
    pads = np.array([0, 1, 0, 1, 0, 2], 'int64')
    yield Case('Pad', 'Pad', {'x': x, 'pads': pads, 'value': np.array([2], 'float32')}, constants=('pads', 'value'))
    yield Case('Pad-edge', 'Pad', {'x': x, 'pads': pads[None]}, {'mode': 'edge'}, constants=('pads',))
    one = lambda value: np.array([value], 'float32')
    yield Case('Range', 'Range', {'from': one(1), 'to': one(4)})
    yield Case('Range-step', 'Range', {'from': np.array(9, 'int64'), 'to': np.array(0, 'int64'),
                                       'by': np.array(-2, 'int64')}, types={'y': 7})
    for metric in ('euclidean', 'sqeuclidean'):
        yield Case(f'CDist-{metric}', 'CDist', {'a': new(5, 7), 'b': new(3, 7)}, {'metric': metric}, atol=1e-4)
    yield Case('Inverse', 'Inverse', {'x': new(2, 4, 4)}, atol=1e-4)


def cases(np):
    import microsoft_attention_cases
    import microsoft_quantised_cases
    yield from microsoft_attention_cases.cases(np, Numbers(np, 2))
    yield from microsoft_quantised_cases.cases(np, Numbers(np, 3))
    for kind in (products, activations, convs, norms, embeddings, moves):
        yield from kind(np, Numbers(np, 1))
