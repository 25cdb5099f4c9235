#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Tenon's ops with those of the onnx package: in every opset the attributes, their names, types and which are
required; and the counts of inputs and outputs with those of the newest form. usage: schemas.py PROGRAM; exit status 77
where the package is not there."""
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
    table, counts = {}, {}
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        op, *rest = line.split()
        entries = table.setdefault(op, [])
        if len(rest) == 4:
            counts[op] = [int(count) for count in rest]
        elif rest:
            name, kind, since, until, required = rest
            entries.append((name, kind, int(since), int(until), required == '1'))
    return table, counts


def newest_known():
    """The newest opset that the importer takes."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../src/onnx/import.cpp')
    with open(source, encoding='utf-8') as file:
        return int(re.search(r'newest_opset = (\d+)', file.read())[1])


def kind_of(attribute):
    kind = str(attribute.type).split('.')[-1]
    return SAME.get(kind, kind)


def fault_of_counts(op, counts, schema):
    """Fewer are refused where they are read. More would be those that passes alone give to an op."""
    any_number = 2**31 - 1
    least_in, most_in, least_out, most_out = [any_number if count < 0 else count for count in counts]
    if (most_in, most_out) == (schema.max_input, schema.max_output) and least_in <= schema.min_input and \
            least_out <= schema.min_output:
        return []
    return ['%s takes %s, ONNX says %s' % (op, counts, [schema.min_input, schema.max_input, schema.min_output,
                                                        schema.max_output])]


def main():
    table, counts = ours(sys.argv[1])
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
        if op in counts and versions:
            last = max(version for version in versions if version <= newest)
            faults += fault_of_counts(op, counts[op], versions[last])
    for fault in faults:
        print(fault)
    print('%d ops, %d schemas by opset, onnx %s, %d faults' % (len(table), compared, onnx.__version__, len(faults)))
    sys.exit(1 if faults else 0)


if __name__ == '__main__':
    main()
