# SPDX-License-Identifier: Apache-2.0
"""Models as ONNX Runtime's quantiser writes them, in each of its styles, against ONNX Runtime: QuantizeLinear and
DequantizeLinear around ops, ops on bytes, and scales that are found at run time; and as tenon quantize does.
usage: foreign_qdq.py"""
import os
import subprocess
import sys
import tempfile

import reference

np, onnx, onnxruntime = reference.imported('numpy', 'onnx', 'onnxruntime')
try:
    from onnxruntime import quantization as quant
except ImportError as missing:
    print('skipped:', missing)
    sys.exit(77)
from onnx import helper, numpy_helper

S8, U8 = quant.QuantType.QInt8, quant.QuantType.QUInt8
QDQ, OPERATORS = quant.QuantFormat.QDQ, quant.QuantFormat.QOperator
STYLES = {
    'nodes u8 s8': dict(quant_format=QDQ, activation_type=U8, weight_type=S8, per_channel=True),
    'nodes s8 s8': dict(quant_format=QDQ, activation_type=S8, weight_type=S8, per_channel=True),
    'nodes u8 u8': dict(quant_format=QDQ, activation_type=U8, weight_type=U8),
    'nodes u8 u8 by channel': dict(quant_format=QDQ, activation_type=U8, weight_type=U8, per_channel=True),
    'ops u8 s8': dict(quant_format=OPERATORS, activation_type=U8, weight_type=S8, per_channel=True),
    'ops u8 u8': dict(quant_format=OPERATORS, activation_type=U8, weight_type=U8),
    'ops s8 s8': dict(quant_format=OPERATORS, activation_type=S8, weight_type=S8),
    'dynamic': None,
    'own': None,
}
MOST_LOSS = 0.05  # of the root mean square of the outputs, by own quantisation
MOST_STEPS = 1.5  # between outputs, in steps of 255 of the range that they happen to fill: one of the quantiser
SEEDS = 3


class Net:
    def __init__(self, name, shape, seed):
        self.random = np.random.default_rng(seed)
        self.name, self.shape, self.nodes, self.weights = name, shape, [], []

    def weight(self, *shape):
        name = f'w{len(self.weights)}'
        values = self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 4)
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(self, op, *inputs, **attributes):
        name = f'{op}{len(self.nodes)}'
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x, c_in, c_out, size=3, group=1, stride=1):
        return self.node('Conv', x, self.weight(c_out, c_in // group, size, size), self.weight(c_out), group=group,
                         kernel_shape=[size, size], pads=[size // 2] * 4, strides=[stride, stride])

    def save(self, path, output):
        value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, self.name, [value('x', self.shape)], [value(output, None)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)


def image(path, seed):
    net = Net('image', [1, 3, 20, 20], seed)
    x = net.node('Relu', net.conv('x', 3, 16, stride=2))
    y = net.conv(x, 16, 16, group=16)
    y = net.node('Mul', y, net.node('Sigmoid', y))
    x = net.node('Add', net.conv(y, 16, 16, size=1), x)
    x = net.node('Concat', net.node('MaxPool', x, kernel_shape=[2, 2], strides=[2, 2]),
                 net.node('AveragePool', x, kernel_shape=[2, 2], strides=[2, 2]), axis=1)
    x = net.node('LeakyRelu', net.conv(x, 32, 24), alpha=0.1)
    x = net.node('Flatten', net.node('GlobalAveragePool', x))
    net.save(path, net.node('Gemm', x, net.weight(10, 24), net.weight(10), transB=1))


def words(path, seed):
    net = Net('words', [2, 7, 24], seed)
    x = net.node('Add', net.node('MatMul', 'x', net.weight(24, 24)), net.weight(24))
    y = net.node('MatMul', x, net.node('Transpose', x, perm=[0, 2, 1]))
    x = net.node('Add', net.node('MatMul', net.node('Softmax', y, axis=-1), x), 'x')
    net.save(path, net.node('MatMul', net.node('Relu', x), net.weight(24, 9)))


def steps(path, seed):
    net = Net('steps', [6, 1, 10], seed)
    weights = [net.weight(1, 64, 10), net.weight(1, 64, 16), net.weight(1, 128)]
    net.nodes.append(helper.make_node('LSTM', ['x', *weights], ['', 'last'], name='LSTM', hidden_size=16))
    net.save(path, net.node('MatMul', net.node('Flatten', 'last'), net.weight(16, 9)))


class Reader(quant.CalibrationDataReader):
    def __init__(self, inputs):
        self.inputs = iter(inputs)

    def get_next(self):
        return next(self.inputs, None)


def tenon(folder, *words):
    subprocess.run([os.environ['TENON'], *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])


def compare(net, style, seed, folder):
    """The largest and the mean difference, in steps of 255 of the range of the outputs."""
    plain, path = os.path.join(folder, 'plain.onnx'), os.path.join(folder, 'q.onnx')
    net(plain, seed)
    shape = [d.dim_value for d in onnx.load(plain).graph.input[0].type.tensor_type.shape.dim]
    random = np.random.default_rng(seed + 100)
    inputs = [{'x': random.standard_normal(shape).astype(np.float32)} for _ in range(4)]
    np.save(os.path.join(folder, 'x.npy'), inputs[0]['x'])
    np.save(os.path.join(folder, 'data.npy'), np.concatenate([one['x'] for one in inputs]))
    # Seven bits of the weights: ONNX Runtime's sums of eight saturate on some processors.
    if style == 'own':
        tenon(folder, 'quantize', 'plain.onnx', '-o', 'q.onnx', '-q', '--data', 'data.npy')
    elif STYLES[style]:
        quant.quantize_static(plain, path, Reader(inputs), reduce_range=True, **STYLES[style])
    else:
        quant.quantize_dynamic(plain, path, weight_type=U8, reduce_range=True)
    theirs = session(path).run(None, inputs[0])[0]
    tenon(folder, 'run', 'q.onnx', '-q', '--budget', '0', '--timing-cache', '-', '--input', 'x=x.npy', '--output-dir',
          'out')
    if style == 'own':
        exact = session(plain).run(None, inputs[0])[0]
        loss = np.sqrt(np.mean((theirs - exact) ** 2) / np.mean(exact ** 2))
        assert loss < MOST_LOSS, f'{net.__name__}: quantisation changes outputs by {loss:.3g}'
    ours, = (np.load(os.path.join(folder, 'out', name)) for name in os.listdir(os.path.join(folder, 'out')))
    steps = np.abs(ours - theirs) / (np.ptp(theirs) / 255)
    return steps.max(), steps.mean()


def main():
    failed = 0
    for net in (image, words, steps):
        for style in STYLES:
            for seed in range(SEEDS):
                with tempfile.TemporaryDirectory() as folder:
                    most, mean = compare(net, style, seed, folder)
                fine = most <= MOST_STEPS
                failed += not fine
                print(f'{net.__name__}, {style}: {most:.3g} steps apart at most, {mean:.3g} on average'
                      f'{"" if fine else ": FAILED"}')
    return 1 if failed else 0


sys.exit(main())
