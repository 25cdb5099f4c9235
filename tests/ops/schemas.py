#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the attributes that Tenon's ops have, in every opset, with those of the onnx package: names, types and which
are required. usage: schemas.py PROGRAM; exit status 77 where the package is not there."""
import os
import re
import subprocess
import sys

try:
    import onnx.defs
except ImportError:
    print('skipped: this Python has no onnx package')
    sys.exit(77)

# Held as a text and as a tensor.
SAME = {'TYPE_PROTO': 'STRING', 'SPARSE_TENSOR': 'TENSOR'}


def ours(program):
    table = {}
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        op, *rest = line.split()
        entries = table.setdefault(op, [])
        if rest:
            name, kind, since, until, required = rest
            entries.append((name, kind, int(since), int(until), required == '1'))
    return table


def newest_known():
    """The newest opset that the importer takes."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../src/onnx/import.cpp')
    with open(source, encoding='utf-8') as file:
        return int(re.search(r'newest_opset = (\d+)', file.read())[1])


def kind_of(attribute):
    kind = str(attribute.type).split('.')[-1]
    return SAME.get(kind, kind)


def main():
    table = ours(sys.argv[1])
    history = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == '':
            history.setdefault(schema.name, {})[schema.since_version] = schema
    newest = min(onnx.defs.onnx_opset_version(), newest_known())
    faults = ['%s is no op of ONNX' % op for op in table if op not in history]
    compared = 0
    for op, entries in table.items():
        versions = history.get(op, {})
        for opset in range(min(versions, default=newest + 1), newest + 1):
            schema = versions[max(version for version in versions if version <= opset)]
            if schema.deprecated:
                continue
            theirs = {name: (kind_of(attribute), attribute.required) for name, attribute in schema.attributes.items()}
            mine = [(name, (kind, required)) for name, kind, since, until, required in entries
                    if since <= opset <= until]
            if len(mine) != len(dict(mine)) or dict(mine) != theirs:
                faults.append('%s-%d has %s, ONNX says %s' % (op, opset, sorted(mine), sorted(theirs.items())))
            compared += 1
    for fault in faults:
        print(fault)
    print('%d ops, %d schemas by opset, onnx %s, %d faults' % (len(table), compared, onnx.__version__, len(faults)))
    sys.exit(1 if faults else 0)


if __name__ == '__main__':
    main()
