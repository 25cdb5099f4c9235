# SPDX-License-Identifier: Apache-2.0
"""Verbs of the command that are written in Python: a file each, with main(arguments)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, NoReturn

from .._kinds import require_kind


class Parser(argparse.ArgumentParser):
    """Arguments of a verb, with examples below the help; a wrong one ends with the command's status for usage."""

    def __init__(self, verb: str, says: str, examples: str) -> None:
        super().__init__(
            prog="tenon " + verb,
            description=says,
            epilog="Examples:\n" + examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        print("error: %s\n  you can: %s --help shows how" % (message, self.prog), file=sys.stderr)
        sys.exit(2)


def write_json(path: str, value: Any) -> None:
    """To a file, which appears whole or not at all, or to stdout for "-"."""
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    require_kind(path, "json")
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    temporary = path + ".part"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
