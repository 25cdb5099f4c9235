# SPDX-License-Identifier: Apache-2.0
"""An ONNX file with another batch."""

import pathlib

import onnx
import onnx.numpy_helper


def with_batch(path, batch, folder):
    """The model with a fixed batch, or a free one for 0: the input's first size, and that which reshapes ask for."""
    model = onnx.load(path)
    known = {tensor.name: tensor for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in known:
            size = value.type.tensor_type.shape.dim[0]
            size.Clear()
            if batch:
                size.dim_value = batch
            else:
                size.dim_param = 'N'
    for value in list(model.graph.output) + list(model.graph.value_info):
        value.type.tensor_type.ClearField('shape')
    for node in model.graph.node:
        target = known.get(node.input[1]) if node.op_type == 'Reshape' else None
        if target is not None:
            sizes = onnx.numpy_helper.to_array(target).copy()
            if sizes.size and sizes[0] == 1:
                sizes[0] = batch
                target.CopyFrom(onnx.numpy_helper.from_array(sizes, target.name))
    out = str(pathlib.Path(folder) / ('%s_%d.onnx' % (pathlib.Path(path).stem, batch)))
    onnx.save(model, out)
    return out
