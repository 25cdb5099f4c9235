#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a C++ program that takes the address of every function that the public headers declare, and constructs and
destroys what they let one construct: linked with the shared library it shows that each carries TENON_API.
usage: public_api.py INCLUDE_FOLDER > uses.cpp"""
import os
import re
import sys

SKIPPED = ('using ', 'typedef ', 'friend ', 'static_assert', 'template', 'constexpr ', 'return ')


def plain(text):
    """Without comments and preprocessor lines."""
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S)
    text = re.sub(r'//[^\n]*', '', text)
    return re.sub(r'^[ \t]*#(?:[^\n\\]|\\\n|\\.)*', '', text, flags=re.M)


def split(text):
    """Parameters, at commas outside of brackets."""
    parts, depth, part = [], 0, ''
    for char in text:
        depth += (char in '(<{[') - (char in ')>}]')
        if char == ',' and depth == 0:
            parts.append(part)
            part = ''
        else:
            part += char
    return [part.strip() for part in parts + [part] if part.strip()]


def type_of(parameter):
    parameter = parameter.split('=')[0].strip()
    named = re.match(r'^(.*[\s&*>])(\w+)$', parameter, re.S)
    return (named[1] if named else parameter).strip()


class Reader:
    """Reads one header, and keeps each function as (scope, is_class, is_static, returned, name, types, rest)."""

    def __init__(self, text):
        self.text, self.at = plain(text), 0
        self.functions, self.nested = [], {}

    def skip_braces(self):
        depth = 1
        while depth:
            depth += {'{': 1, '}': -1}.get(self.text[self.at], 0)
            self.at += 1

    def read(self, scope=(), in_class=False, public=True):
        statement, depth = '', 0
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            depth += (char == '(') - (char == ')')
            words = statement.strip()
            if depth or char not in '{};:':
                statement += char
            elif char == ':':
                if words in ('public', 'private', 'protected'):
                    public, statement = words == 'public', ''
                else:
                    statement += char
            elif char == '}':
                return
            elif char == ';':
                if public:
                    self.take(words, scope, in_class)
                statement = ''
            else:
                self.open(words, scope, public)
                statement = ''

    def open(self, words, scope, public):
        kind = re.match(r'^(namespace|class|struct)\s+(?:TENON_API\s+)?([\w:]+)', words)
        if words.startswith('extern "C"'):
            self.read(scope)
        elif kind and '(' not in words and kind[1] == 'namespace':
            self.read(scope + tuple(kind[2].split('::')))
        elif kind and '(' not in words and public:
            self.nested.setdefault(scope, set()).add(kind[2])
            self.read(scope + (kind[2],), True, kind[1] == 'struct')
        else:
            enum = re.match(r'^enum\s+(?:class\s+)?(\w+)', words)
            if enum:
                self.nested.setdefault(scope, set()).add(enum[1])
            self.skip_braces()

    def take(self, words, scope, in_class):
        words = ' '.join(words.split())
        alias = re.match(r'^using (\w+) =', words)
        if alias:
            self.nested.setdefault(scope, set()).add(alias[1])
        if not words or words.startswith(SKIPPED) or re.search(r'= ?(0|delete|default)$', words):
            return
        words = words.replace('TENON_API ', '')
        found = re.match(r'^(?:(explicit|static|virtual) )*([^()=]*?)(~?\w+|operator[^\w(]+)\((.*)\)([^()]*)$', words)
        if not found or (not in_class and not found[2].strip()):
            return
        self.functions.append((scope, in_class, words.startswith('static '), found[2].strip(), found[3],
                               [type_of(one) for one in split(found[4]) if one != 'void'],
                               'const' if 'const' in found[5] else ''))


def qualified(text, scope, nested):
    """With names that stand in the class written as from outside."""
    for name in nested.get(scope, ()):
        text = re.sub(r'(?<![\w:])%s\b' % name, '::'.join(scope + (name,)), text)
    return text


def use_of(function, nested, at):
    scope, in_class, is_static, returned, name, types, rest = function
    owner = '::'.join(scope)
    arguments = ', '.join(qualified(one, scope, nested) for one in types)
    if in_class and name.startswith('~'):
        return 'void destroy_%d(%s* it) { delete it; }' % (at, owner), 'use(&destroy_%d);' % at
    if in_class and not returned:
        values = ', '.join('given<%s>()' % qualified(one, scope, nested) for one in types)
        return '%s* make_%d() { return new %s(%s); }' % (owner, at, owner, values), 'use(&make_%d);' % at
    pointer = '%s::*' % owner if in_class and not is_static else '*'
    path = '::%s' % '::'.join(scope + (name,))
    return '', 'use(static_cast<%s (%s)(%s) %s>(&%s));' % (qualified(returned, scope, nested), pointer, arguments, rest,
                                                             path)


def main():
    folder = sys.argv[1]
    functions, nested = [], {}
    headers = sorted(name for name in os.listdir(os.path.join(folder, 'tenon')))
    for name in headers:
        with open(os.path.join(folder, 'tenon', name), encoding='utf-8') as file:
            reader = Reader(file.read())
        reader.read()
        functions += reader.functions
        for scope, names in reader.nested.items():
            if len(scope) > 1:
                nested.setdefault(scope, set()).update(names)
    print(''.join('#include <tenon/%s>\n' % name for name in headers) + '''
#include <cstdio>
#include <cstring>

namespace {
int uses = 0;
volatile char sink[64];
template <class T>
void use(T pointer) {
  ++uses;
  for (size_t at = 0; at < sizeof pointer; ++at) sink[at] = reinterpret_cast<const char*>(&pointer)[at];
}
alignas(64) char memory[4096];
template <class T>
T&& given() {  // for what is never called
  return static_cast<T&&>(*reinterpret_cast<std::remove_reference_t<T>*>(memory));
}
}  // namespace

using namespace tenon;
''')
    pairs = [use_of(function, nested, at) for at, function in enumerate(functions)]
    print('\n'.join(before for before, _ in pairs if before))
    print('\nint main() {\n  ' + '\n  '.join(use for _, use in pairs))
    print('  std::printf("%%d of %d public functions\\n", uses);\n  return 0;\n}' % len(functions))
    return 0 if functions else 1


if __name__ == '__main__':
    sys.exit(main())
