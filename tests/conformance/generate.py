# SPDX-License-Identifier: Apache-2.0
"""Writes the ONNX backend suite as the onnx package has it: the cases of its data folder, and those it makes of its
operators. Random operands are the same each time. Cases of opsets that Tenon does not read yet are written once more,
as CASE_opset25, where they are valid in opset 25, too: else nothing would test operators that ONNX has since extended.
Does nothing where the folder holds this version's cases.   usage: generate.py FOLDER"""
import argparse
import glob
import os
import shutil
import sys

try:
    import numpy
    import onnx
    from onnx.backend.test import cmd_tools, loader
except ImportError as missing:
    print('skipped: %s (script/setup installs it)' % missing)
    sys.exit(77)

NEWEST = 25  # as newest_opset in src/onnx/import.cpp
IR_VERSION = 11


def write_older(path):
    """The case of this folder as one of opset NEWEST, if it is valid there."""
    model = onnx.load(os.path.join(path, 'model.onnx'))
    opsets = [one for one in model.opset_import if not one.domain and one.version > NEWEST]
    if not opsets:
        return
    opsets[0].version, model.ir_version = NEWEST, min(model.ir_version, IR_VERSION)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return
    older = '%s_opset%d' % (path, NEWEST)
    shutil.copytree(path, older)
    onnx.save(model, os.path.join(older, 'model.onnx'))


def generate(folder):
    numpy.random.seed(0)
    made_alone = numpy.random.default_rng
    numpy.random.default_rng = lambda seed=0: made_alone(seed)
    cases = loader.load_model_tests(kind='node')
    cases += [case for case in cmd_tools.model_test.collect_testcases() if case.kind != 'real']
    cmd_tools.model_test.collect_testcases = lambda: cases
    cmd_tools.generate_data(argparse.Namespace(output=folder))
    for kind in ('light', 'simple', 'pytorch-converted', 'pytorch-operator'):
        shutil.copytree(os.path.join(loader.DATA_DIR, kind), os.path.join(folder, kind), dirs_exist_ok=True)
    for path in sorted(glob.glob(os.path.join(folder, 'node', '*'))):
        write_older(path)


def main():
    folder, stamp = sys.argv[1], os.path.join(sys.argv[1], 'version')
    if os.path.exists(stamp):
        with open(stamp, encoding='ascii') as file:
            if file.read() == onnx.__version__:
                return
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    generate(folder)
    with open(stamp, 'w', encoding='ascii') as file:
        file.write(onnx.__version__)


main()
