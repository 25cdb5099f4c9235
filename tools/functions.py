# SPDX-License-Identifier: Apache-2.0
"""Finds functions and their lengths: of C++ and CUDA as clang-format leaves it, of Python by its own parser."""
import ast
import re

# What ends in an open brace and is no function.
OTHER = re.compile(r'^((namespace|struct|class|enum|union|if|for|while|switch|else|do|case|try|using|typedef)\b|\})')
NAME = re.compile(r'([~\w:]+|operator\W{1,3})\s*\($')


def signature(lines, at):
    """The first line of what ends at line `at`: back over parameters, initialisers, a template."""
    while at > 0:
        before = lines[at - 1].strip()
        if not before or before.startswith(('//', '#', '/*', '*')):
            break
        goes_on = before.endswith((',', '(')) or lines[at].strip().startswith((':', ')'))
        if before.endswith((';', '{', '}', ':')) and not goes_on:
            break
        at -= 1
    return at


def of_braces(text):
    """Yields (name, line, lines). A function begins at the margin or in a class, as does the brace that ends it."""
    lines = text.split('\n')
    at = 0
    while at < len(lines):
        line = lines[at]
        begin = at
        at += 1
        if not line.rstrip().endswith('{') or line.lstrip().startswith(('//', '#')):
            continue
        first = signature(lines, begin)
        head = ' '.join(one.strip() for one in lines[first:begin + 1])
        # Templates and attributes have brackets of their own.
        head = re.sub(r'^template\s*<[^{]*?>\s+(?=[\w:])', '', head)
        head = re.sub(r'__\w+__\([^()]*(\([^()]*\))?[^()]*\)', '', head)
        if OTHER.match(head) or '(' not in head or re.search(r'=\s*\{$', head) or re.search(r'=\s*\[', head):
            continue
        indent = len(lines[first]) - len(lines[first].lstrip())
        closing = re.compile(r' {%d}\}' % indent)
        end = next((k for k in range(at, len(lines)) if closing.match(lines[k])), len(lines) - 1)
        name = NAME.search(head[:head.index('(') + 1])
        yield name[1] if name else head[:40], first + 1, end - first + 1
        at = end + 1


def of_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def functions(path, text):
    """Yields (name, line, lines) of every function in a file."""
    if path.endswith('.py'):
        yield from of_python(text)
    elif path.endswith(('.h', '.cpp', '.cc', '.cu', '.cuh', '.inc')):
        yield from of_braces(text)
