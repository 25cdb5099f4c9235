#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a trained detector.pt as ONNX with normalisation folded and the class names in its metadata.

    export.py detector.pt detector.onnx
"""
import sys

import onnx
import torch

import generate
from model import Conv, Detector

SIZE = 320


def export(weights, path):
  model = Detector(len(generate.NAMES), SIZE)
  model.load_state_dict(torch.load(weights, map_location='cpu'))
  model.eval().requires_grad_(False)
  for module in model.modules():
    if isinstance(module, Conv):
      module.fold()
  torch.onnx.export(model, (torch.zeros(1, 3, SIZE, SIZE),), path, opset_version=17, input_names=['images'],
                    output_names=['output0'], dynamic_axes={'images': {0: 'batch'}, 'output0': {0: 'batch'}},
                    dynamo=False)
  graph = onnx.load(path)
  facts = {'description': 'Parts on an inspection line', 'task': 'detect', 'stride': '32',
           'imgsz': str([SIZE, SIZE]), 'batch': '1', 'names': str(dict(enumerate(generate.NAMES)))}
  onnx.helper.set_model_props(graph, facts)
  graph.graph.name = 'detector'
  shape = graph.graph.output[0].type.tensor_type.shape
  shape.dim[1].dim_value, shape.dim[2].dim_value = 4 + len(generate.NAMES), model.head.points.shape[-1]
  onnx.checker.check_model(graph, full_check=True)
  onnx.save(graph, path)


if __name__ == '__main__':
  if len(sys.argv) != 3:
    sys.exit(__doc__)
  export(sys.argv[1], sys.argv[2])
