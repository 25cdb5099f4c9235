# SPDX-License-Identifier: Apache-2.0
"""Models with If, Loop and Scan, each with inputs for several runs: CASES maps a name to (model, runs)."""
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper

RNG = np.random.default_rng(7)
CASES = {}


def value(name, shape=None, kind=T.FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def constant(name, data):
    return numpy_helper.from_array(np.asarray(data), name)


def floats(*shape, scale=0.3):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def node(op, inputs, outputs, **attributes):
    inputs, outputs = inputs.split(), outputs.split()
    return h.make_node(op, ['' if name == '_' else name for name in inputs], outputs, name=op + '_' + outputs[0],
                       **attributes)


def graph(name, nodes, inputs, outputs, constants=()):
    return h.make_graph(nodes, name, inputs, outputs, list(constants))


def add(name, nodes, inputs, outputs, runs, constants=()):
    model = h.make_model(graph(name, nodes, inputs, outputs, constants), opset_imports=[h.make_opsetid('', 17)])
    model.ir_version = 8
    CASES[name] = (model, runs)


def loop_inputs(*carried):
    return [value('i', [], T.INT64), value('c', [], T.BOOL), *carried]


TRUE, FALSE = np.array(True), np.array(False)


def branches():
    """Two bodies of different work, which both read what lies around them."""
    yes = graph('yes', [node('MatMul', 'x w', 'a'), node('Add', 'a b', 'm'), node('Relu', 'm', 'y1')], [],
                [value('y1')])
    no = graph('no', [node('Mul', 'x b', 'n'), node('Tanh', 'n', 'y2')], [], [value('y2')])
    add('branches', [node('Sigmoid', 'x0', 'x'), node('If', 'cond', 'y', then_branch=yes, else_branch=no)],
        [value('x0', [8, 64]), value('cond', [], T.BOOL)], [value('y')],
        [{'x0': floats(8, 64), 'cond': flag} for flag in (TRUE, FALSE)],
        [constant('w', floats(64, 64)), constant('b', floats(64))])


def passing_branches():
    """Branches that give a captured value, and a constant; a condition that is computed."""
    yes = graph('yes', [node('Identity', 'x', 'y1'), node('Neg', 'x', 'z1')], [], [value('y1'), value('z1')])
    no = graph('no', [node('Identity', 'k', 'y2'), node('Identity', 'x', 'z2')], [], [value('y2'), value('z2')])
    add('passing_branches',
        [node('ReduceSum', 'x', 's', keepdims=0), node('Greater', 's zero', 'cond'),
         node('If', 'cond', 'y z', then_branch=yes, else_branch=no), node('Concat', 'y z', 'all', axis=1)],
        [value('x', [4, 6])], [value('all')],
        [{'x': np.full((4, 6), number, np.float32)} for number in (1, -1)],
        [constant('zero', np.float32(0)), constant('k', floats(4, 6))])


def sized_branches():
    """A condition that the sizes decide, as exporters write it around Squeeze."""
    yes = graph('yes', [node('Squeeze', 'x one', 'y1')], [], [value('y1')])
    no = graph('no', [node('Identity', 'x', 'y2')], [], [value('y2')])
    add('sized_branches',
        [node('Shape', 'x', 'sizes'), node('Gather', 'sizes at', 'n'), node('Equal', 'n single', 'cond'),
         node('If', 'cond', 'y', then_branch=yes, else_branch=no)],
        [value('x', ['a', 'b', 3])], [value('y')], [{'x': floats(2, 1, 3)}, {'x': floats(2, 4, 3)}],
        [constant('one', np.array([1])), constant('at', np.array(1)), constant('single', np.array(1))])


def lstm(name, count, batch, size, hidden, trips, sizes=None):
    """An LSTM cell, written as a loop over time."""
    body = graph('step', [
        node('Gather', 'x i', 'xt', axis=0), node('MatMul', 'xt w', 'gx'), node('MatMul', 'h0 r', 'gh'),
        node('Add', 'gx gh', 'g0'), node('Add', 'g0 b', 'g'), node('Split', 'g', 'gi go gf gc', axis=1),
        node('Sigmoid', 'gi', 'si'), node('Sigmoid', 'go', 'so'), node('Sigmoid', 'gf', 'sf'), node('Tanh', 'gc', 'tc'),
        node('Mul', 'sf c0', 'fc'), node('Mul', 'si tc', 'ic'), node('Add', 'fc ic', 'c1'), node('Tanh', 'c1', 'tc1'),
        node('Mul', 'so tc1', 'h1'), node('Identity', 'c', 'go_on'), node('Identity', 'h1', 'y1')],
        loop_inputs(value('h0', [batch, hidden]), value('c0', [batch, hidden])),
        [value('go_on', [], T.BOOL), value('h1', [batch, hidden]), value('c1', [batch, hidden]),
         value('y1', [batch, hidden])])
    add(name, [*trips, node('Loop', 'n on hs cs', 'h c y', body=body)], [value('x', sizes or [count, batch, size])],
        [value('y'), value('h'), value('c')],
        [{'x': floats(steps, batch, size)} for steps in (count, count, count + 3 if sizes else count)],
        [constant('w', floats(size, 4 * hidden)), constant('r', floats(hidden, 4 * hidden)),
         constant('b', floats(4 * hidden)), constant('hs', floats(batch, hidden)),
         constant('cs', floats(batch, hidden)), constant('on', TRUE)] +
        ([constant('n', np.array(count))] if not trips else [constant('at', np.array(0))]))


def recurrent():
    lstm('lstm_loop', 7, 2, 24, 32, [])
    length = [node('Shape', 'x', 'sizes'), node('Gather', 'sizes at', 'n')]
    lstm('lstm_loop_any_length', 5, 1, 300, 200, length, ['t', 1, 300])


def carried_values():
    """Values that change places, that lag behind, that stay, that are constant, and that are scanned as well."""
    body = graph('round', [node('Add', 'a b', 's'), node('Identity', 'c', 'on1'), node('Identity', 'a', 'old'),
                           node('Mul', 'x s', 'p'), node('Identity', 'k', 'five')],
                 loop_inputs(*[value(name, [3, 4]) for name in ('a', 'b', 'd', 'e', 'f', 'g')]),
                 [value('on1', [], T.BOOL), value('s', [3, 4]), value('old', [3, 4]), value('e', [3, 4]),
                  value('d', [3, 4]), value('f', [3, 4]), value('five', [3, 4]), value('p', [3, 4]), value('s', [3, 4])]
                 )
    body.output[8].name = 's2'
    body.node.append(node('Identity', 's', 's2'))
    names = 'a0 b0 d0 e0 f0 g0'
    outputs = 'a1 b1 d1 e1 f1 g1 ps ss'
    for trips in (0, 1, 6, 7):
        add('carried_values_%d' % trips, [node('Loop', 'n on ' + names, outputs, body=body)],
            [value(name, [3, 4]) for name in (names + ' x').split()], [value(name) for name in outputs.split()],
            [{name: floats(3, 4) for name in (names + ' x').split()}],
            [constant('n', np.array(trips)), constant('on', TRUE), constant('k', np.full((3, 4), 5, np.float32))])


def counted():
    """A trip count that comes as data, with scans; and none."""
    body = graph('round', [node('Cast', 'i', 'f', to=T.FLOAT), node('Add', 'a f', 'a1'), node('Identity', 'c', 'on1'),
                           node('Mul', 'a1 a1', 'q')],
                 loop_inputs(value('a', [2])),
                 [value('on1', [], T.BOOL), value('a1', [2]), value('q', [2])])
    add('trip_count_as_data', [node('Loop', 'n on a0', 'a9 qs', body=body)],
        [value('a0', [2]), value('n', [], T.INT64), value('on', [], T.BOOL)], [value('a9'), value('qs')],
        [{'a0': floats(2), 'n': np.array(n), 'on': on}
         for n, on in ((0, TRUE), (1, TRUE), (5, TRUE), (5, FALSE), (9, TRUE), (9, TRUE))])


def conditions():
    """Loops that a condition ends: with carried values alone, and with scans."""
    nodes = [node('Mul', 'a half', 'a1'), node('ReduceSum', 'a1', 's', keepdims=0), node('Greater', 's limit', 'on1')]
    ends = [value('on1', [], T.BOOL), value('a1', [4, 5])]
    constants = [constant('half', np.float32(0.5)), constant('limit', np.float32(1))]
    runs = [{'a0': np.full((4, 5), number, np.float32), 'on': on}
            for number, on in ((3, TRUE), (100, TRUE), (3, FALSE), (0.01, TRUE))]
    inputs = [value('a0', [4, 5]), value('on', [], T.BOOL)]
    body = graph('round', nodes, loop_inputs(value('a', [4, 5])), ends)
    add('while', [node('Loop', '_ on a0', 'a9', body=body)], inputs, [value('a9')], runs, constants)
    body = graph('round', nodes + [node('Neg', 'a1', 'n')], loop_inputs(value('a', [4, 5])),
                 ends + [value('n', [4, 5])])
    add('while_with_scan', [node('Loop', 'most on a0', 'a9 ns', body=body)], inputs, [value('a9'), value('ns')], runs,
        constants + [constant('most', np.array(50))])


def nested():
    """A branch in a loop, and loops in loops; captures through both borders."""
    yes = graph('yes', [node('Add', 'a w', 'y1')], [], [value('y1', [16])])
    no = graph('no', [node('Mul', 'a v', 'm'), node('Add', 'm w', 'y2')], [], [value('y2', [16])])
    body = graph('round', [
        node('Mod', 'i two', 'odd'), node('Cast', 'odd', 'is_odd', to=T.BOOL),
        node('If', 'is_odd', 'a1', then_branch=yes, else_branch=no), node('Identity', 'c', 'on1')],
        loop_inputs(value('a', [16])), [value('on1', [], T.BOOL), value('a1', [16])])
    constants = [constant('two', np.array(2)), constant('v', floats(16)), constant('n', np.array(5)),
                 constant('on', TRUE)]
    add('branch_in_loop', [node('Relu', 'w0', 'w'), node('Loop', 'n on a0', 'a9', body=body)],
        [value('a0', [16]), value('w0', [16])], [value('a9')], [{'a0': floats(16), 'w0': floats(16)}], constants)
    for depth in (3, 9):
        inner = [node('Add', 'a w', 'a1')]
        for level in range(depth):
            body = graph('r%d' % level, inner + [node('Identity', 'c%d' % level, 'on%d' % level)],
                         [value('i%d' % level, [], T.INT64), value('c%d' % level, [], T.BOOL), value('a', [16])],
                         [value('on%d' % level, [], T.BOOL), value('a1', [16])])
            last = level == depth - 1
            inner = [node('Loop', 'n on ' + ('a0' if last else 'a'), 'a9' if last else 'a1', body=body)]
        add('loops_in_loops_%d' % depth, [node('Relu', 'w0', 'w')] + inner, [value('a0', [16]), value('w0', [16])],
            [value('a9')], [{'a0': floats(16), 'w0': floats(16)}], [constant('n', np.array(2)), constant('on', TRUE)])


def scans():
    """Forwards, backwards, along other axes, with several inputs and outputs."""
    body = graph('step', [node('MatMul', 'u w', 'uw'), node('Add', 'uw s', 't'), node('Add', 't v', 's1'),
                          node('Tanh', 's1', 'y'), node('Identity', 's1', 'z')],
                 [value('s', [2, 8]), value('u', [2, 5]), value('v', [2, 8])],
                 [value('s1', [2, 8]), value('y', [2, 8]), value('z', [2, 8])])
    constants = [constant('w', floats(5, 8))]
    add('scan', [node('Scan', 's0 us vs', 's9 ys zs', body=body, num_scan_inputs=2)],
        [value('s0', [2, 8]), value('us', ['t', 2, 5]), value('vs', ['t', 2, 8])],
        [value('s9'), value('ys'), value('zs')],
        [{'s0': floats(2, 8), 'us': floats(n, 2, 5), 'vs': floats(n, 2, 8)} for n in (6, 1, 9)], constants)
    add('scan_backwards', [node('Scan', 's0 us vs', 's9 ys zs', body=body, num_scan_inputs=2,
                                scan_input_directions=[1, 0], scan_output_directions=[0, 1],
                                scan_input_axes=[1, 2], scan_output_axes=[1, -1])],
        [value('s0', [2, 8]), value('us', [2, 6, 5]), value('vs', [2, 8, 6])],
        [value('s9'), value('ys'), value('zs')],
        [{'s0': floats(2, 8), 'us': floats(2, 6, 5), 'vs': floats(2, 8, 6)}], constants)


def convolutions():
    """Convolutions in a body, whose layout is its own."""
    body = graph('step', [node('Conv', 's w', 'a', pads=[1, 1, 1, 1]), node('Relu', 'a', 'r'),
                          node('Conv', 'r w2', 'b', pads=[1, 1, 1, 1]), node('Add', 'b x', 'm'),
                          node('Tanh', 'm', 's1'), node('Identity', 'c', 'on1')],
                 loop_inputs(value('s', [1, 8, 12, 12])), [value('on1', [], T.BOOL), value('s1', [1, 8, 12, 12])])
    add('convolutions', [node('Conv', 'x0 w', 'x', pads=[1, 1, 1, 1]), node('Loop', 'n on x', 'y', body=body),
                         node('Conv', 'y w', 'z')],
        [value('x0', [1, 8, 12, 12])], [value('z')], [{'x0': floats(1, 8, 12, 12)}],
        [constant('w', floats(8, 8, 3, 3, scale=0.1)), constant('w2', floats(8, 8, 3, 3, scale=0.1)),
         constant('n', np.array(4)), constant('on', TRUE)])


def decoder():
    """Greedy decoding: each round attends to the keys of all rounds before it, and ends at a token."""
    body = graph('step', [
        node('Gather', 'table token', 'x'), node('MatMul', 'x wq', 'q'), node('MatMul', 'x wk', 'k'),
        node('Concat', 'ks k', 'ks1', axis=0), node('Transpose', 'ks1', 'kt'), node('MatMul', 'q kt', 'scores'),
        node('Softmax', 'scores', 'p'), node('MatMul', 'p ks1', 'v'), node('Add', 'v x', 'o'),
        node('MatMul', 'o head', 'logits'), node('ArgMax', 'logits', 'token1', axis=1, keepdims=0),
        node('Equal', 'token1 last', 'ended'), node('Not', 'ended', 'on2'), node('Squeeze', 'on2 first', 'on1')],
        loop_inputs(value('token', [1], T.INT64), value('ks', ['t', 32])),
        [value('on1', [], T.BOOL), value('token1', [1], T.INT64), value('ks1', ['t1', 32]),
         value('logits', [1, 50])])
    add('decoder', [node('Loop', 'n on start none', 'token9 cache logits9', body=body)],
        [value('start', [1], T.INT64), value('n', [], T.INT64)],
        [value('token9', kind=T.INT64), value('cache'), value('logits9')],
        [{'start': np.array([s]), 'n': np.array(n)} for s, n in ((3, 6), (11, 12), (11, 12), (4, 1))],
        [constant('table', floats(50, 32, scale=1)), constant('wq', floats(32, 32)), constant('wk', floats(32, 32)),
         constant('head', floats(32, 50)), constant('last', np.array([17])), constant('first', np.array([0])),
         constant('on', TRUE), constant('none', np.zeros((0, 32), np.float32))])


def detector():
    """What stands behind a detector: NMS class by class, and boxes that are kept only where there are any."""
    some = graph('some', [node('Gather', 'boxes kept', 'b1', axis=1)], [], [value('b1')])
    none = graph('none', [node('Slice', 'boxes zero zero one', 'b2')], [], [value('b2')])
    body = graph('of_class', [
        node('Unsqueeze', 'i zero', 'at'), node('Gather', 'scores at', 's', axis=1),
        node('NonMaxSuppression', 'boxes s most overlap least', 'rows'),
        node('Slice', 'rows two three one', 'column'), node('Squeeze', 'column one', 'kept'),
        node('Shape', 'kept', 'count'), node('Squeeze', 'count zero', 'count0'),
        node('Greater', 'count0 nought', 'any'),
        node('If', 'any', 'b', then_branch=some, else_branch=none),
        node('Concat', 'all b', 'all1', axis=1), node('Identity', 'c', 'on1')],
        loop_inputs(value('all', [1, 'm', 4])), [value('on1', [], T.BOOL), value('all1', [1, 'm1', 4])])
    corner = np.abs(floats(1, 40, 2, scale=3))
    boxes = np.concatenate([corner, corner + 2 + np.abs(floats(1, 40, 2))], 2)
    scores = np.abs(floats(1, 3, 40))
    scores[:, 1] = 0
    add('detector', [node('Loop', 'classes on none', 'found', body=body)],
        [value('boxes', [1, 40, 4]), value('scores', [1, 3, 40])], [value('found')],
        [{'boxes': boxes, 'scores': scores}],
        [constant('zero', np.array([0])), constant('one', np.array([1])), constant('two', np.array([2])),
         constant('three', np.array([3])), constant('nought', np.array(0)), constant('most', np.array([9])),
         constant('overlap', np.array([0.4], np.float32)), constant('least', np.array([0.1], np.float32)),
         constant('classes', np.array(3)), constant('on', TRUE), constant('none', np.zeros((1, 0, 4), np.float32))])


for make in (branches, passing_branches, sized_branches, recurrent, carried_values, counted, conditions, nested, scans,
             convolutions, decoder, detector):
    make()
