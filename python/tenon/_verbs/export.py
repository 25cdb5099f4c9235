# SPDX-License-Identifier: Apache-2.0
"""tenon export: from PyTorch to ONNX."""

from __future__ import annotations

from typing import List

from . import Parser, write_json

EXAMPLES = """  tenon export --model resnet50 --output resnet50.onnx --dynamic-batch
  tenon export --model resnet18 --checkpoint weights.safetensors --output mine.onnx
  tenon export --model my_package.nets:make_net --input-shape 3x320x320 --output net.onnx
  tenon export --model yolov8n.pt --trust --input-shape 3x640x640 --output yolov8n.onnx"""


def main(arguments: List[str]) -> int:
    parser = Parser(
        "export", "Exports a PyTorch model to ONNX, and checks the result against PyTorch's outputs.", EXAMPLES
    )
    add = parser.add_argument
    add(
        "--model",
        required=True,
        metavar="NAME|FILE|MODULE:FACTORY",
        help="a model of torchvision or timm; a TorchScript, torch.export or pickled .pt; a function that makes one",
    )
    add("-o", "--output", required=True, metavar="FILE", help="the ONNX file")
    add("--checkpoint", metavar="FILE", help="weights: a state dict (.pt, .pth) or .safetensors")
    add(
        "--weights",
        default="auto",
        choices=["auto", "default", "none"],
        help="trained weights of torchvision or timm: auto takes random ones where none can be downloaded",
    )
    add("--input-shape", action="append", metavar="3x224x224", help="sizes behind the batch; once for each input")
    add("--batch-size", type=int, default=1, metavar="N", help="the batch (default 1)")
    add("--dynamic-batch", action="store_true", help="leave the batch free")
    add("--opset", type=int, metavar="N", help="the version of ONNX's operators")
    add("--trust", action="store_true", help="load files that may run code of their own")
    add(
        "--max-error",
        type=float,
        default=1e-3,
        metavar="E",
        help="relative error to PyTorch above which the verb fails, with status 6 (default 0.001)",
    )
    add("--json", metavar="FILE", help="the report as JSON; - is stdout")
    options = parser.parse_args(arguments)

    from .._export import export

    shapes = [parse_shape(text, parser) for text in options.input_shape or []] or None
    report = export(
        options.model,
        options.output,
        input_shapes=shapes,
        batch_size=options.batch_size,
        dynamic_batch=options.dynamic_batch,
        opset=options.opset,
        checkpoint=options.checkpoint,
        weights=options.weights,
        trust=options.trust,
        max_error=options.max_error,
    )
    if options.json != "-":
        print(report)
    if options.json:
        write_json(options.json, report.as_dict())
    return 0


def parse_shape(text: str, parser: Parser) -> List[int]:
    try:
        sizes = [int(part) for part in text.lower().split("x")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        parser.error('"%s" is no shape; shapes look like 3x224x224' % text)
    return sizes
