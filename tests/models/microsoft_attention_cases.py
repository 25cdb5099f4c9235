# SPDX-License-Identifier: Apache-2.0
"""Cases of microsoft_operators.py: attention of com.microsoft, and what goes with it."""
from microsoft_cases import Case

BATCH, LENGTH, HEADS, SIZE, PAST = 2, 5, 3, 4, 3
WIDTH, ALL = HEADS * SIZE, LENGTH + PAST


def masks(np, keys):
    """Padding masks by name: of keys, of queries and keys, and numbers of keys."""
    rows = np.ones((BATCH, keys), 'int32')
    rows[0, -2:] = 0
    square = np.tril(np.ones((BATCH, LENGTH, keys), 'int32'), keys - LENGTH)
    return {'rows': rows, 'square': square, 'ends': np.array([keys - 2, keys], 'int32'),
            'spans': np.array([keys - 1, keys, 1, 0], 'int32')}


def projected(np, new):
    op, order = 'Attention', ('x', 'w', 'b', 'mask', 'past', 'bias')
    base = {'x': new(BATCH, LENGTH, 6), 'w': new(6, 3 * WIDTH), 'b': new(3 * WIDTH)}
    more = {'num_heads': HEADS}
    past, both = new(2, BATCH, HEADS, PAST, SIZE), ('y', 'present')
    bias, fixed = new(BATCH, HEADS, LENGTH, LENGTH), ('w', 'b')
    yield Case('Attention', op, base, more, order=order, constants=fixed)
    heads = (base['x'] @ base['w']).reshape(BATCH, LENGTH, 3, HEADS, SIZE)
    yield Case('Attention-no-bias', op, {name: base[name] for name in 'xw'}, more, order=order, constants=fixed,
               expected=[plain(np, *np.moveaxis(heads, 2, 0))])
    yield Case('Attention-causal', op, base, {**more, 'unidirectional': 1, 'scale': 0.3}, order=order,
               constants=fixed)
    yield Case('Attention-present', op, base, {**more, 'unidirectional': 1}, both, order, fixed)
    for name, mask in masks(np, LENGTH).items():
        yield Case(f'Attention-{name}', op, {**base, 'mask': mask}, more, order=order, constants=fixed)
    for name, mask in masks(np, ALL).items():
        if name == 'spans':
            continue
        yield Case(f'Attention-past-{name}', op, {**base, 'mask': mask, 'past': past}, {**more, 'unidirectional': 1},
                   both, order, fixed)
    yield Case('Attention-past', op, {**base, 'past': past}, {**more, 'unidirectional': 1}, both, order, fixed)
    for shape in ((BATCH, HEADS), (1, HEADS), (BATCH, 1), (1, 1)):
        part = bias[:shape[0], :shape[1]]
        yield Case(f'Attention-added-{shape[0]}-{shape[1]}', op, {**base, 'bias': part}, more, order=order,
                   constants=fixed)
    mask = masks(np, LENGTH)['rows']
    yield Case('Attention-added-mask', op, {**base, 'mask': mask, 'bias': bias},
               {**more, 'mask_filter_value': -1e30, 'unidirectional': 1}, order=order, constants=fixed)
    sizes = {'x': base['x'], 'w': new(6, 2 * WIDTH + 6), 'b': new(2 * WIDTH + 6)}
    yield Case('Attention-sizes', op, sizes, {**more, 'qkv_hidden_sizes': [WIDTH, WIDTH, 6]}, order=order,
               constants=fixed)
    hidden = np.zeros((BATCH, LENGTH), 'int32')
    yield Case('Attention-all-masked', op, {**base, 'mask': hidden}, more, order=order, constants=fixed, atol=2e-3)


def split(rows):
    return rows.reshape(*rows.shape[:2], HEADS, SIZE).transpose(0, 2, 1, 3)


def plain(np, q, k, v, added=0):
    scores = np.exp(np.einsum('bqhd,bkhd->bhqk', q, k) / np.sqrt(SIZE) + added)
    y = np.einsum('bhqk,bkhd->bqhd', scores / scores.sum(-1, keepdims=True), v)
    return y.reshape(*y.shape[:2], -1).astype('float32')


def multi_head(np, new):
    op = 'MultiHeadAttention'
    order = ('q', 'k', 'v', 'b', 'mask', 'bias', 'past_k', 'past_v')
    q, k, v = new(BATCH, LENGTH, WIDTH), new(BATCH, LENGTH, WIDTH), new(BATCH, LENGTH, WIDTH)
    base, more, fixed = {'q': q, 'k': k, 'v': v}, {'num_heads': HEADS}, ('b',)
    three = ('y', 'present_k', 'present_v')
    past = {'past_k': new(BATCH, HEADS, PAST, SIZE), 'past_v': new(BATCH, HEADS, PAST, SIZE)}
    b = new(3 * WIDTH)
    yield Case('MultiHead', op, base, more, order=order)
    yield Case('MultiHead-bias', op, {**base, 'b': b}, {**more, 'scale': 0.7}, order=order, constants=fixed)
    yield Case('MultiHead-causal', op, base, {**more, 'unidirectional': 1}, three, order)
    for name, mask in masks(np, LENGTH).items():
        if name != 'spans':
            yield Case(f'MultiHead-{name}', op, {**base, 'mask': mask}, more, order=order)
    yield Case('MultiHead-past', op, {**base, **past}, more, three, order)
    yield Case('MultiHead-past-mask', op, {**base, **past, 'b': b, 'mask': masks(np, ALL)['rows']},
               {**more, 'unidirectional': 1}, three, order, fixed)
    yield Case('MultiHead-added', op, {**base, 'bias': new(1, HEADS, LENGTH, LENGTH)}, more, order=order)
    packed, pairs = new(BATCH, LENGTH, HEADS, 3, SIZE), new(BATCH, 7, HEADS, 2, SIZE)
    yield Case('MultiHead-packed', op, {'qkv': packed}, more, expected=[plain(np, *np.moveaxis(packed, 3, 0))])
    apart = [q.reshape(BATCH, LENGTH, HEADS, SIZE), *np.moveaxis(pairs, 3, 0)]
    yield Case('MultiHead-packed-kv', op, {'q': q, 'kv': pairs}, more, expected=[plain(np, *apart)])
    cross = {'q': q, 'k': new(BATCH, 7, WIDTH), 'v': new(BATCH, 7, 2 * WIDTH)}
    yield Case('MultiHead-cross', op, cross, more, three, order)
    still = {'q': q, 'k': new(BATCH, HEADS, 7, SIZE), 'v': new(BATCH, HEADS, 7, SIZE)}
    yield Case('MultiHead-static', op, still, more, order=order)
    yield Case('MultiHead-static-bias', op, {**still, 'b': b}, more, order=order, constants=fixed)
    one = {name: array[:, :1] for name, array in base.items()}
    masked = {**one, 'mask': np.array([[1, 1, 0, 1], [1, 1, 1, 1]], 'int32'), **past, 'b': b}
    joined = [np.concatenate([past[f'past_{name}'], part], 2)
              for name, part in (('k', split(one['k'] + b[WIDTH:2 * WIDTH])), ('v', split(one['v'] + b[2 * WIDTH:])))]
    hidden = np.where(masked['mask'] > 0, 0, -10000)[:, None, None]
    y = plain(np, *(part.transpose(0, 2, 1, 3) for part in (split(one['q'] + b[:WIDTH]), *joined)), hidden)
    yield Case('DecoderMasked', 'DecoderMaskedMultiHeadAttention', masked, more, three,
               ('q', 'k', 'v', 'mask', 'bias', 'past_k', 'past_v', '', '', '', 'b'), fixed, expected=[y, *joined])
    yield Case('MultiHead-scores', op, base, more, (*three, 'scores'), order)


def quantised(np, new):
    base = {'x': new.integers(0, 255, BATCH, LENGTH, 6, dtype='uint8'),
            'w': new.integers(-128, 127, 6, 3 * WIDTH, dtype='int8'), 'b': new(3 * WIDTH),
            'xs': np.array(0.02, 'float32'), 'ws': np.array(0.03, 'float32'),
            'mask': np.array([3, 5], 'int32'), 'xz': np.array(120, 'uint8'), 'wz': np.array(0, 'int8'),
            'past': new(2, BATCH, HEADS, PAST, SIZE)}
    fixed, order = tuple(name for name in base if name not in ('x', 'mask', 'past')), tuple(base)
    without = {name: array for name, array in base.items() if name not in ('past', 'mask')}
    yield Case('QAttention', 'QAttention', without, {'num_heads': HEADS}, order=order, constants=fixed, atol=1e-4)
    masked = {name: array for name, array in base.items() if name != 'past'}
    yield Case('QAttention-mask', 'QAttention', masked, {'num_heads': HEADS}, order=order, constants=fixed, atol=1e-4)
    later = {name: array for name, array in base.items() if name != 'mask'}
    yield Case('QAttention-past', 'QAttention', later, {'num_heads': HEADS, 'unidirectional': 1}, ('y', 'present'),
               order, fixed, atol=1e-4)
    yield Case('QAttention-dynamic', 'QAttention', masked, {'num_heads': HEADS}, order=order,
               constants=tuple(name for name in fixed if name not in ('xs', 'xz')), atol=1e-4)
    wide = {**without, 'ws': np.abs(new(3 * WIDTH)) / 50, 'wz': np.zeros(3 * WIDTH, 'int8')}
    yield Case('QAttention-columns', 'QAttention', wide, {'num_heads': HEADS}, order=order, constants=fixed, atol=1e-4)


def tables(np, places, half):
    angles = np.arange(places)[:, None] / 10 ** (np.arange(half)[None] / half)
    return {'cos': np.cos(angles).astype('float32'), 'sin': np.sin(angles).astype('float32')}


def rotary(np, new):
    op, order = 'RotaryEmbedding', ('x', 'at', 'cos', 'sin')
    at = new.integers(0, 20, BATCH, LENGTH, dtype='int64')
    for name, x, half, more in (
            ('three', new(BATCH, LENGTH, WIDTH), SIZE // 2, {}),
            ('heads', new(BATCH, LENGTH, 16), 2, {'num_heads': 2, 'rotary_embedding_dim': 4}),
            ('four', new(BATCH, HEADS, LENGTH, SIZE), SIZE // 2, {}),
            ('interleaved', new(BATCH, LENGTH, WIDTH), SIZE // 2, {'interleaved': 1})):
        caches = tables(np, 20, half)
        yield Case(f'Rotary-{name}', op, {'x': x, 'at': at, **caches}, more, order=order, constants=('cos', 'sin'))
        yield Case(f'Rotary-offset-{name}', op, {'x': x, 'at': np.array([4], 'int64'), **caches}, more, order=order,
                   constants=('cos', 'sin'))


def valid(np, given):
    """Which rows of the outputs say something: those of queries, and those of keys that are there."""
    ends, queries = given['lengths'] + 1, given['q'].shape[1]
    keys = max(given['past_k'].shape[2], int(given['total']))
    places = np.maximum(ends - queries, 0)[:, None] + np.arange(queries)
    rows = (places < ends[:, None]).astype('float32')[:, :, None]
    there = (np.arange(keys) < ends[:, None]).astype('float32')[:, None, :, None]
    return {} if rows.all() and there.all() else {'y': rows, 'present_k': there, 'present_v': there}


def grouped(np, new):
    """Steps of a decoder: the first prompt, one with padding, next tokens of a cache that grows and of a buffer."""
    op, kv, size = 'GroupQueryAttention', 2, 16
    heads = 4
    order = ('q', 'k', 'v', 'past_k', 'past_v', 'lengths', 'total', 'cos', 'sin', 'at', 'bias', 'sink')
    three, fixed = ('y', 'present_k', 'present_v'), ('cos', 'sin', 'sink')
    more = {'num_heads': heads, 'kv_num_heads': kv}

    def step(queries, past, lengths, total, **others):
        batch = len(lengths)
        given = {'q': new(batch, queries, heads * size), 'k': new(batch, queries, kv * size),
                 'v': new(batch, queries, kv * size), 'past_k': new(batch, kv, past, size),
                 'past_v': new(batch, kv, past, size), 'lengths': np.array(lengths, 'int32') - 1,
                 'total': np.array(total, 'int32')}
        return {**given, **others}

    caches = tables(np, 30, size // 2)
    for name, given, free in (('prompt', step(5, 0, [5, 5], 5), True), ('padded', step(5, 0, [3, 5], 5), True),
                              ('next', step(1, 6, [7, 7], 7), True), ('ragged', step(1, 6, [5, 7], 7), True),
                              ('chunk', step(3, 6, [9], 9), True), ('buffer', step(1, 12, [7, 5], 7), False),
                              ('buffer-prompt', step(4, 12, [4], 4), False)):
        constant = fixed if free else (*fixed, 'total')
        how = {'free': free, 'keep': valid(np, given)}
        yield Case(f'Grouped-{name}', op, given, more, three, order, constant, **how)
        yield Case(f'Grouped-rotary-{name}', op, {**given, **caches}, {**more, 'do_rotary': 1}, three, order, constant,
                   **how)
    given = step(3, 6, [9], 9)
    yield Case('Grouped-window', op, {**given, **caches}, {**more, 'local_window_size': 4, 'do_rotary': 1}, three,
               order, fixed)
    yield Case('Grouped-window-prompt', op, step(6, 0, [6], 6), {**more, 'local_window_size': 2}, three, order, fixed)
    yield Case('Grouped-cap', op, given, {**more, 'softcap': 2.0, 'scale': 0.5}, three, order, fixed)
    yield Case('Grouped-interleaved', op, {**given, **caches}, {**more, 'do_rotary': 1, 'rotary_interleaved': 1},
               three, order, fixed)
    packed = {'q': new(1, 3, (heads + 2 * kv) * size), **{name: given[name] for name in order[3:7]}}
    yield Case('Grouped-packed', op, {**packed, **caches}, {**more, 'do_rotary': 1}, three, order, fixed)
    wide = {name: np.concatenate([given[name]] * 2, -1) for name in ('q', 'k', 'v', 'past_k', 'past_v')}
    yield Case('Grouped-part', op, {**given, **wide, **caches}, {**more, 'do_rotary': 1}, three, order, fixed)
    at = np.array([[6, 7, 8]], 'int64')
    yield Case('Grouped-positions', op, {**given, **caches, 'at': at}, {**more, 'do_rotary': 1}, three, order, fixed)
    yield Case('Grouped-added', op, {**given, 'bias': new(1, heads, 3, 9)}, more, three, order, fixed)
    yield Case('Grouped-sink', op, {**given, 'sink': new(heads)}, more, three, order, fixed)
    yield Case('Grouped-smooth', op, given, {**more, 'smooth_softmax': 1}, three, order, fixed)
    first = {name: array for name, array in step(5, 0, [5], 5).items() if not name.startswith('past')}
    yield Case('Grouped-first', op, first, more, three, order, fixed)


def cases(np, new):
    for kind in (projected, multi_head, quantised, rotary, grouped):
        yield from kind(np, new)
