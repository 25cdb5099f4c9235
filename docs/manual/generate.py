#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of the reference from what they are about: the command's help, the registries of operators, the
environment, the Python package and its part that stands for TensorRT, the headers of C++ and C.

usage: generate.py FOLDER"""
import inspect
import os
import re
import subprocess
import sys

import headers

import tenon
import tenon.cuda
import tenon.tensorrt
from tenon.__main__ import binary


def write(name, title, text):
    with open(os.path.join(sys.argv[1], name), 'w', encoding='utf-8') as file:
        file.write('# %s\n\n%s\n' % (title, text.strip()))


def help_of(*words):
    environment = {**os.environ, 'PATH': os.path.dirname(sys.executable) + ':' + os.environ['PATH'], 'COLUMNS': '100'}
    return subprocess.run([binary(), *words, '--help'], capture_output=True, text=True, check=True, env=environment).stdout


def command():
    top = help_of()
    verbs = re.findall(r'^  ([a-z]+) +(\S.*)$', top.split('Verbs:')[1].split('\n\n')[0], re.M)
    parts = ['Made from `tenon VERB --help`.\n\n| verb | does |\n| --- | --- |']
    parts += ['| [%s](#tenon-%s) | %s |' % (verb, verb, says) for verb, says in verbs]
    for verb, _ in verbs:
        parts.append('\n## tenon %s\n\n```text\n%s\n```' % (verb, help_of(verb).strip()))
    write('command.md', 'The command', '\n'.join(parts))


def operators():
    rows = ['Made from the registries of operators and kernels; opsets and types are those of the standard, as far as',
            'Tenon reads them. Every operator runs on every device. What has no kernel is folded or rewritten before it',
            'runs, or runs on a plain one, on a GPU by way of the host: `tenon why` says which. "16 bits" and "INT8" say',
            'whether a layer may be computed so; integers and other types that a kernel does not take run plainly.', '',
            '| operator | opsets | types of the first input | kernels on the CPU | kernels on a GPU | 16 bits | INT8 |',
            '| --- | --- | --- | --- | --- | --- | --- |']
    standard = standard_schemas()
    ops = tenon._core.operators()
    for op in ops:
        opsets, types = standard.get(op['name'], ('', ''))
        kernels = [', '.join(dict.fromkeys(op['kernels'].get(name, []))) or '' for name in ('cpu', 'cuda')]
        rows.append('| %s | %s | %s | %s | %s | %s | %s |' % (
            op['name'], opsets, types, *kernels, 'yes' if op['half'] else '', 'yes' if op['int8'] else ''))
    taken = {op['name'] for op in ops}
    missing = sorted(name for name in standard if name not in taken)
    rows += ['', 'Of the standard domain these are read as others, or refused by name: %s.' % ', '.join(missing)]
    write('operators.md', 'Operators', '\n'.join(rows))


OPSETS = (7, 25)
SHORT = {'float': 'f32', 'double': 'f64', 'float16': 'f16', 'bfloat16': 'bf16', 'bool': 'bool', 'string': 'text'}


def standard_schemas():
    """Of each operator of the standard: the opsets in which its definition changed, and types of its first input."""
    import onnx

    found = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == '' and schema.since_version <= OPSETS[1] and not schema.deprecated:
            found.setdefault(schema.name, []).append(schema)
    rows = {}
    for name, schemas in found.items():
        newest = max(schemas, key=lambda one: one.since_version)
        versions = sorted({max(OPSETS[0], one.since_version) for one in schemas})
        types = sorted(newest.inputs[0].types) if newest.inputs else []
        plain = [one[len('tensor('):-1] for one in types if one.startswith('tensor(')]
        short = [SHORT.get(one, one.replace('uint', 'u').replace('int', 'i').replace('float', 'f')) for one in plain
                 if not one.startswith('complex')]
        rows[name] = (', '.join(map(str, versions)), ', '.join(short))
    return rows


def environment():
    facts = tenon.devices()
    rows = ['Made from the program.', '', '## Environment', '', '| variable | values | does |', '| --- | --- | --- |']
    text = help_of().split('Environment:')[1]
    rows += ['| `%s` | | %s |' % pair for pair in re.findall(r'^  ([A-Z_]+) +(.+)$', text, re.M)]
    rows += ['', '## Exit codes', '', 'The values of `tenon.Code` are the exit codes of the command.', '',
             '| code | name |', '| --- | --- |', '| 0 | done |']
    rows += ['| %d | %s |' % (code.value, code.name) for code in tenon.Code]
    rows += ['| 130, 143 | stopped by a signal |', '', '## Backends', '', ', '.join('`%s`' % name for name in facts)]
    write('environment.md', 'Environment and exit codes', '\n'.join(rows))


def described(value):
    """The docstring, with the signature that nanobind puts first left out."""
    text = inspect.getdoc(value) or ''
    lines = text.split('\n')
    if lines and re.match(r'^\w+\(.*\)', lines[0]):
        text = '\n'.join(lines[1:]).strip()
    return text


def signature(name, value):
    native = getattr(value, '__nb_signature__', None)
    if native:
        return re.sub(r'^def \w+', name, native[0][0])
    try:
        return name + str(inspect.signature(value))
    except (TypeError, ValueError):
        return name


def block(title, value, level):
    text = described(value)
    return '%s %s\n\n```text\n%s\n```\n' % ('#' * level, title, (signature(title, value) + '\n\n' + text).strip())


def members(kind):
    for name in sorted(vars(kind)):
        value = inspect.getattr_static(kind, name)
        if name.startswith('_') and name != '__call__':
            continue
        if callable(getattr(kind, name, None)) and not isinstance(value, type):
            yield name, getattr(kind, name)


def python():
    parts = ['Made from the package.\n']
    for name in tenon.__all__:
        value = getattr(tenon, name)
        if isinstance(value, str):
            continue
        if not isinstance(value, type):
            parts.append(block('tenon.' + name, value, 2))
            continue
        parts.append('## tenon.%s\n\n```text\n%s\n```\n' % (name, described(value)))
        parts += [block('%s.%s' % (name, one), method, 3) for one, method in members(value)]
    write('python.md', 'Python API', '\n'.join(parts))


def offered(module):
    for name in sorted(vars(module)):
        value = getattr(module, name)
        if name.startswith('_') or inspect.ismodule(value) or name in ('annotations', 'Any', 'lacking', 'NotOffered'):
            continue
        if isinstance(value, type):
            names = sorted({one for one in dir(value) if not one.startswith('_')} - set(dir(int)) - {'bit_count'})
            yield name, ', '.join('`%s`' % one for one in names)
        elif callable(value) or name.islower():
            yield name, ''


def tensorrt():
    parts = ['Made from the package. Members of instances that are set in their constructors are not listed.\n']
    for module in (tenon.tensorrt, tenon.cuda):
        parts += ['## %s\n' % module.__name__, '| name | members |', '| --- | --- |']
        parts += ['| `%s` | %s |' % pair for pair in offered(module)]
        parts += ['\nNot offered:\n', '| name | instead |', '| --- | --- |']
        parts += ['| `%s` | %s |' % pair for pair in sorted(module._INSTEAD.items())]
        for kind, names in sorted(module._MEMBERS.items()):
            parts += ['| `%s.%s` | %s |' % (kind, *pair) for pair in sorted(names.items())]
        parts.append('')
    write('tensorrt.md', 'Names of TensorRT and pycuda', '\n'.join(parts))


for page in (command, operators, environment, python, tensorrt):
    page()
write('cpp.md', 'C++ API', headers.cpp())
write('c.md', 'C API', headers.c())
