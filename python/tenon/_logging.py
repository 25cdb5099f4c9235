# SPDX-License-Identifier: Apache-2.0
"""Tenon's messages go to Python's logger "tenon"."""

from __future__ import annotations

import enum
import logging

logger = logging.getLogger("tenon")


class Severity(enum.IntEnum):
    """How much a message matters, the gravest first."""

    internal_error = 0
    error = 1
    warning = 2
    info = 3
    verbose = 4


LEVELS = {
    Severity.internal_error: logging.CRITICAL,
    Severity.error: logging.ERROR,
    Severity.warning: logging.WARNING,
    Severity.info: logging.INFO,
    Severity.verbose: logging.DEBUG,
}


def least() -> int:
    """The least severity that the logger's level lets through; -1 for none."""
    level = logger.getEffectiveLevel()
    taken = [severity for severity, its_level in LEVELS.items() if its_level >= level]
    return max(taken, default=-1)


def emit(severity: int, text: str) -> None:
    """For the compiled module. What failed is also raised, so here it is told once, quietly."""
    level = LEVELS[Severity(severity)]
    logger.log(logging.DEBUG if severity == Severity.error else level, "%s", text)
