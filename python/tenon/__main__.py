# SPDX-License-Identifier: Apache-2.0
"""The command `tenon`: verbs written in Python run here, all others are the compiled command's."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import List, Optional

VERBS = ("batch", "export", "monitor", "plot")
# `tenon bench` is the compiled command's, unless it is to compare frameworks.
BENCH_FLAGS = ("--pytorch-model", "--engines")


def binary() -> Optional[str]:
    """The compiled command: of the wheel, or beside the package in a build folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(here, "bin", "tenon")]
    core = importlib.util.find_spec("tenon._core")
    if core is not None and core.origin:
        places.append(os.path.join(os.path.dirname(core.origin), "..", "..", "bin", "tenon"))
    for place in places:
        if os.access(place, os.X_OK):
            return os.path.normpath(place)
    return None


def is_ours(arguments: List[str]) -> bool:
    if not arguments:
        return False
    if arguments[0] == "bench":
        return any(word.split("=")[0] in BENCH_FLAGS for word in arguments[1:])
    return arguments[0] in VERBS


def _own(arguments: List[str]) -> int:
    from ._errors import Code, Error

    verb = importlib.import_module("._verbs." + arguments[0], __package__)
    try:
        return int(verb.main(arguments[1:]) or 0)
    except Error as error:
        print("error: %s" % error, file=sys.stderr)
        return int(error.code)
    except ImportError as error:
        print("error: %s\n  you can: %s" % (error, _extra(str(error.name))), file=sys.stderr)
        return int(Code.unsupported)
    except (OSError, EOFError) as error:
        print("error: %s" % error, file=sys.stderr)
        return int(Code.io)
    except KeyboardInterrupt:
        return 130


def _extra(module: str) -> str:
    """What installs a missing module."""
    extras = {"torch": "torch", "torchvision": "torch", "onnxscript": "torch", "onnx": "torch", "matplotlib": "plots"}
    extras.update(ray="ray", pyarrow="ray", pandas="ray")
    name = module.partition(".")[0]
    if name not in extras:
        return "pip install %s" % name
    extra = extras[name]
    return 'pip install ".[%s]" in a clone of Tenon, or "PATH/OF/tenon-VERSION.whl[%s]"' % (extra, extra)


def main(arguments: Optional[List[str]] = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) == 2 and arguments[0] == "help" and arguments[1] in VERBS:
        arguments = [arguments[1], "--help"]
    if is_ours(arguments):
        return _own(arguments)
    command = binary()
    if command is None:
        print("error: this installation of tenon has no compiled command", file=sys.stderr)
        return 1
    sys.stdout.flush()
    os.execv(command, ["tenon", *arguments])


if __name__ == "__main__":
    sys.exit(main())
