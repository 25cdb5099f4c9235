# SPDX-License-Identifier: Apache-2.0
"""The pages that are made from the headers."""

import os
import re
import sys

from conftest import ROOT

sys.path.insert(0, os.path.join(ROOT, 'docs', 'manual'))
import headers  # noqa: E402


def names(page):
    return set(re.findall(r'^## tenon/(\w+)\.h$', page, re.M))


def test_every_header_has_a_place():
    there = {file[:-2] for file in os.listdir(headers.INCLUDE) if file.endswith('.h')}
    assert names(headers.cpp()) | names(headers.c()) == there - {'export', 'version'}


def test_declarations_are_whole_and_public():
    for page in (headers.cpp(), headers.c()):
        blocks = re.findall(r'^```c(?:pp)?\n(.*?)^```', page, re.M | re.S)
        assert len(blocks) > 6 and page.count('```') == 2 * len(blocks)
        for block in blocks:
            assert block.count('{') == block.count('}') and block.count('(') == block.count(')'), block
            assert 'private' not in block and 'impl_' not in block and 'TENON_API' not in block, block


def test_comments_stand_where_they_were():
    page = headers.cpp()
    assert '### Engine\n\nA built model: immutable' in page and '  /// The bytes that save() writes.' in page
    assert 'inline Engine load(const std::string& path, const LoadOptions& options = {});' in page
    page = headers.c()
    assert '### Sessions' in page and 'tenon_code tenon_error_code(const tenon_error* error);' in page
