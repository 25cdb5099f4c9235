# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft, as ONNX Runtime's optimiser and its builder of language models write them: each in a
model of one node against ONNX Runtime, with sizes that are known and with free ones.
usage: microsoft_operators.py [NAME]"""
import os
import subprocess
import sys
import tempfile

import microsoft_cases
import reference

np, onnx, onnxruntime = reference.imported('numpy', 'onnx', 'onnxruntime')
from onnx import helper, numpy_helper

TENON = os.environ['TENON']


def model(case, free, keep):
    kind = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
    inputs, weights = [], []
    for name, array in case.inputs.items():
        if name in case.constants:
            weights.append(numpy_helper.from_array(array, name))
            continue
        sizes = list(array.shape)
        for axis in range(array.ndim - 1) if free else ():
            sizes[axis] = f'{name}_{axis}'
        inputs.append(helper.make_tensor_value_info(name, kind(array), sizes))
    names = [name if name in case.inputs else '' for name in case.order]
    node = helper.make_node(case.op, names, case.outputs, 'node', domain=case.domain, **case.attributes)
    nodes = [node]
    for name, array in keep.items():
        node.output[case.outputs.index(name)] = f'all_{name}'
        weights.append(numpy_helper.from_array(array, f'keep_{name}'))
        nodes.append(helper.make_node('Mul', [f'all_{name}', f'keep_{name}'], [name]))
    outputs = [helper.make_tensor_value_info(name, case.types.get(name, onnx.TensorProto.FLOAT), None)
               for name in case.outputs if name]
    graph = helper.make_graph(nodes, 'net', inputs, outputs, weights)
    opsets = [helper.make_opsetid('', case.opset), helper.make_opsetid('com.microsoft', 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def expected(case, free):
    if case.expected is not None:
        return case.expected
    net = model(case, free, {})
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(net.SerializeToString(), options, providers=['CPUExecutionProvider'])
    fed = {name: array for name, array in case.inputs.items() if name not in case.constants}
    names = [name for name in case.outputs if name]
    return [array * case.keep.get(name, 1) for name, array in zip(names, session.run(None, fed))]


def write(folder, case, free):
    os.makedirs(f'{folder}/test_data_set_0')
    onnx.save(model(case, free, case.keep), f'{folder}/model.onnx')
    arrays = [array for name, array in case.inputs.items() if name not in case.constants]
    for kind, list_of in (('input', arrays), ('output', expected(case, free))):
        for at, array in enumerate(list_of):
            with open(f'{folder}/test_data_set_0/{kind}_{at}.pb', 'wb') as file:
                file.write(numpy_helper.from_array(np.asarray(array, order='C')).SerializeToString())


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ''
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        folders = {}
        for case in microsoft_cases.cases(np):
            if wanted not in case.name:
                continue
            for free in (False, True)[:1 + case.free]:
                folder = f'{root}/{case.name}{"-free" * free}'
                write(folder, case, free)
                folders.setdefault(case.atol, []).append(folder)
        for atol, list_of in folders.items():
            for backend in ('ref', 'cpu'):
                words = [TENON, 'verify', '--quiet', '--strict-ops', '--atol', str(atol), '--backend', backend]
                failed += subprocess.run([*words, *list_of], check=False).returncode != 0
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
