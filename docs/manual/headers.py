# SPDX-License-Identifier: Apache-2.0
"""The headers of C++ and C as pages: declarations with their comments, without what is private."""
import re
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / 'include' / 'tenon'
TYPE = re.compile(r'(?:class|struct|enum class) (?:TENON_API )?(\w+)')
# As a program meets them.
CPP = ('build', 'engine', 'session', 'tensor', 'dtype', 'device', 'calibration', 'judge', 'explain', 'error', 'logger', 'limits',
       'buffer', 'plugin', 'dlpack')
C = ('tenon', 'tenon_values', 'custom_op')


def declarations(lines):
    """Groups of lines, each a declaration with the comment before it."""
    group, depth = [], 0
    for line in lines:
        if not line.strip() and depth == 0 and not group:
            continue
        group.append(line)
        code = '' if line.lstrip().startswith('//') else line.partition('//')[0]
        depth += code.count('{') - code.count('}')
        if depth == 0 and code.rstrip().endswith((';', '}')):
            yield group
            group = []


def public(lines):
    """A declaration without private members and bodies of functions."""
    kept, hidden = [], False
    for line in lines:
        hidden = (hidden or line == ' private:') and line != '};'
        if not hidden:
            kept.append(line)
    while len(kept) > 1 and kept[-1] == '};' and not kept[-2].strip():
        del kept[-2]
    text = '\n'.join(kept).replace('TENON_API ', '')
    if not any(map(TYPE.match, lines)):
        text = re.sub(r'\) \{.*\Z', ');', text, flags=re.S)
    return text


def comment(lines):
    """The words of a declaration's comment, and the lines behind it."""
    at = 0
    while at < len(lines) and lines[at].startswith('///'):
        at += 1
    return ' '.join(line[3:].strip() for line in lines[:at]), lines[at:]


def cpp_header(name):
    text = (INCLUDE / (name + '.h')).read_text(encoding='utf-8')
    about, inside = re.search(r'((?:^///.*\n)*)^namespace tenon\S* \{\n(.*)^\}  // namespace', text, re.M | re.S).groups()
    parts = ['\n## tenon/%s.h\n' % name, comment(about.splitlines())[0]]
    loose = []

    def flush():
        if loose:
            parts.append('\n```cpp\n%s\n```' % '\n'.join(loose))
        loose.clear()

    for group in declarations(inside.splitlines()):
        words, rest = comment(group)
        found = TYPE.match(rest[0])
        if rest[0].startswith('static_assert') or (found and rest[0].endswith(';') and '{' not in rest[0]):
            continue
        if found:
            flush()
            parts.append('\n### %s\n' % found[1] + ('\n%s\n' % words if words else ''))
            parts.append('```cpp\n%s\n```' % public(rest))
        else:
            loose.append(public(group))
    flush()
    return '\n'.join(parts)


def cpp():
    return '\n'.join(['Made from the headers; `#include <tenon/tenon.hpp>` brings them all.', *map(cpp_header, CPP)])


def c_header(name):
    text = (INCLUDE / (name + '.h')).read_text(encoding='utf-8')
    about = re.search(r'^/\* (.*?) ?\*/', text, re.M | re.S)
    words = re.sub(r'\n \* ?', '\n', about[1])
    inside = re.search(r'extern "C" \{\n#endif\n(.*)#ifdef __cplusplus', text, re.S)[1]
    parts = ['\n## tenon/%s.h\n' % name, words]
    sections = re.split(r'^/\* -+ (.*?) -+ \*/\n', inside, flags=re.M)
    for title, body in zip(['', *sections[1::2]], sections[::2]):
        if title:
            parts.append('\n### %s' % title.capitalize())
        if body.strip():
            parts.append('\n```c\n%s\n```' % body.strip().replace('TENON_API ', '').replace(' TENON_ENUM_INT', ''))
    return '\n'.join(parts)


def c():
    return '\n'.join(['Made from the headers.', *map(c_header, C)])
