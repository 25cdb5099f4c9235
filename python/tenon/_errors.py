# SPDX-License-Identifier: Apache-2.0
"""What Tenon raises."""

from __future__ import annotations

import enum
import re
from typing import Any


class Code(enum.IntEnum):
    """Why something could not be done: the exit status of the command."""

    internal = 1
    usage = 2
    invalid_model = 3
    unsupported = 4
    bad_engine = 5
    gate_failed = 6
    resource = 7
    io = 8


class Error(RuntimeError):
    """A file, an argument or a value that cannot be used.

    what:  what is wrong
    code:  its kind, a Code
    where: file, node, tensor or byte; "" where it is not known, as for the following
    why:   the cause
    hint:  what to do
    node:  the ONNX node at fault
    """

    def __init__(self, code: int, what: str, where: str = "", why: str = "", hint: str = "", node: str = "") -> None:
        super().__init__(what)
        self.code = Code(code)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint
        self.node = node

    def __str__(self) -> str:
        lines = [self.what]
        for label, text in (("where:", self.where), ("why:", self.why), ("you can:", self.hint)):
            if text:
                lines.append("  %-8s %s" % (label, text))
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return Error, (int(self.code), self.what, self.where, self.why, self.hint, self.node)


class ArgumentError(Error, TypeError):
    """An argument of another type than is taken."""


_DATA = "give calibration=: a folder of images, arrays, a DataLoader or a Calibrator"
# Words of the command in messages, and the same in Python.
_IN_PYTHON = (
    (r"tenon build takes --data; in C\+\+ .*", _DATA),
    (r"--data\b", "calibration="),
    (r"--shapes (\S+):1x…", r'shapes={"\1": [1, …]}'),
    (r"--shapes (\S+):([0-9x?]+) ", lambda found: 'shapes={"%s": [%s]} ' % (found[1], found[2].replace("x", ", "))),
    (r"--(precision|device) (best|cpu|cuda|[a-z]+[0-9]+)\b", r'\1="\2"'),
    (r"--max-rounds", "Limits.loop_rounds"),
    (r"--lenient", "lenient=True"),
    (r"\(--plugin\)", "(tenon.load_plugin)"),
    (r'"tenon devices"', "tenon.devices()"),
    (r"--([a-z-]+)", lambda found: found[1].replace("-", "_") + "="),
)


def in_python(text: str) -> str:
    """A message of the compiled module, which speaks of the command's options, with the names that they have here."""
    for words, instead in _IN_PYTHON if "--" in text else ():
        text = re.sub(words, instead, text)
    return text


def make(code: int, what: str, where: str, why: str, hint: str, node: str) -> Error:
    """For the compiled module."""
    place = in_python(where).rstrip("=") if where.startswith("--") else where
    return Error(code, what, place, why, in_python(hint), node)


def counted(count: int, noun: str) -> str:
    """"1 image", "2 images", "3 batches"."""
    if count == 1:
        return "1 " + noun
    return "%d %s" % (count, noun + ("es" if noun.endswith(("s", "x", "ch")) else "s"))
