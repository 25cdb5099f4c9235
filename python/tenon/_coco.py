# SPDX-License-Identifier: Apache-2.0
"""COCO's numbers of classes and images, as the command gives them."""

from __future__ import annotations

import math
import os
from typing import List, Optional, Sequence

# COCO's annotations count to 90 and leave out these.
_LEFT_OUT = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
_CLASSES = 80


def category(class_id: int, names: Sequence[str]) -> int:
    """The category of a class: COCO's own number where the names are COCO's, else counted from 1."""
    # Such classes count from 1 already.
    if names and names[0] in ("__background__", "background"):
        return class_id
    number = class_id + 1
    if len(names) == _CLASSES and names[0] == "person" and names[-1] == "toothbrush":
        for gap in _LEFT_OUT:
            number += number >= gap
    return number


def image_id(path: str, frame: int, place: int, given: Optional[int]) -> int:
    """The number given, or that which the file is named, as COCO's images are; else the image's place in the source."""
    if given is not None:
        return given
    stem = os.path.splitext(os.path.basename(path))[0]
    if frame < 0 and stem.isascii() and stem.isdigit() and int(stem) < 2**63:
        return int(stem)
    return place


def corners(cx: float, cy: float, width: float, height: float, angle: float) -> List[float]:
    """The corners of an oriented box, x and y of each."""
    ax, ay = width / 2 * math.cos(angle), width / 2 * math.sin(angle)
    bx, by = -height / 2 * math.sin(angle), height / 2 * math.cos(angle)
    around = ((ax + bx, ay + by), (ax - bx, ay - by), (-ax - bx, -ay - by), (bx - ax, by - ay))
    return [end for x, y in around for end in (cx + x, cy + y)]
