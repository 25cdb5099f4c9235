#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden.inc: checksums of what OpenCV 4 and Pillow compute from an image of noise.

usage: make_golden.py > golden.inc      (needs numpy, opencv-python 4.x, Pillow below 13)
"""
import sys
import zlib

import cv2
import numpy as np
import PIL
from PIL import Image

assert cv2.__version__.startswith("4."), "needs OpenCV 4, not " + cv2.__version__
assert int(PIL.__version__.split(".")[0]) < 13, "needs Pillow below 13, which changes the order of passes"


def noise(width, height):
    index = np.arange(width * height * 3, dtype=np.uint64)
    mixed = (index * 2654435761 + width * 40503 + height) & 0xFFFFFFFF
    mixed ^= mixed >> 15
    mixed = (mixed * 2246822519) & 0xFFFFFFFF
    return ((mixed >> 13) & 0xFF).astype(np.uint8).reshape(height, width, 3)


def crc(image):
    return zlib.crc32(np.ascontiguousarray(image).tobytes())


def letterbox(image, width, height):
    rows, columns = image.shape[:2]
    ratio = min(height / rows, width / columns)
    new = (round(columns * ratio), round(rows * ratio))
    across, down = (width - new[0]) / 2, (height - new[1]) / 2
    if new != (columns, rows):
        image = cv2.resize(image, new, interpolation=cv2.INTER_LINEAR)
    sides = round(down - 0.1), round(down + 0.1), round(across - 0.1), round(across + 0.1)
    return cv2.copyMakeBorder(image, *sides, cv2.BORDER_CONSTANT, value=(114, 114, 114))


def corner_box(image, width, height):
    rows, columns = image.shape[:2]
    ratio = min(height / rows, width / columns)
    out = np.full((height, width, 3), 114, np.uint8)
    new = (int(columns * ratio), int(rows * ratio))
    out[: new[1], : new[0]] = cv2.resize(image, new, interpolation=cv2.INTER_LINEAR)
    return out


def center_crop(image, short, size):
    rows, columns = image.shape[:2]
    new = (short, int(short * rows / columns)) if columns <= rows else (int(short * columns / rows), short)
    image = Image.fromarray(image)
    if new != (columns, rows):
        image = image.resize(new, Image.BILINEAR)
    left, top = int(round((new[0] - size) / 2.0)), int(round((new[1] - size) / 2.0))
    return np.asarray(image.crop((left, top, left + size, top + size)))


RESIZES = [
    (1920, 1080, 640, 360), (1280, 720, 640, 360), (3840, 2160, 640, 360), (1919, 1079, 640, 360), (333, 517, 640, 993),
    (100, 75, 640, 480), (1280, 960, 640, 480), (2, 2, 7, 9), (1, 5, 3, 4), (5, 1, 4, 3), (1, 1, 6, 6),
    (1280, 720, 640, 361), (1281, 720, 640, 360), (500, 375, 416, 312), (375, 500, 640, 853), (17, 23, 16, 22),
    (64, 64, 32, 16), (66, 65, 33, 33),
    (7, 300, 290, 6), (640, 426, 256, 170),
]
FITS = [(1920, 1080), (1280, 720), (640, 480), (641, 479), (1280, 1280), (100, 900), (255, 257), (427, 640), (33, 31)]

if __name__ == "__main__":
    sys.stdout.write("// Written by make_golden.py with OpenCV %s and Pillow %s.\n" %
                     (cv2.__version__, PIL.__version__))
    sys.stdout.write("constexpr ResizeCase resize_cases[] = {\n")
    for width, height, to_width, to_height in RESIZES:
        image, size = noise(width, height), (to_width, to_height)
        sums = (
            crc(cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)),
            crc(np.asarray(Image.fromarray(image).resize(size, Image.BILINEAR))),
            crc(cv2.resize(image, size, interpolation=cv2.INTER_NEAREST)),
        )
        print("    {%d, %d, %d, %d, 0x%08xu, 0x%08xu, 0x%08xu}," % (width, height, *size, *sums))
    sys.stdout.write("};\nconstexpr FitCase fit_cases[] = {\n")
    for width, height in FITS:
        image = noise(width, height)
        for name, made in (
            ("yolo=640x640", letterbox(image, 640, 640)),
            ("yolo=512x288", letterbox(image, 512, 288)),
            ("yolox=416x416", corner_box(image, 416, 416)),
            ("imagenet=224x224", center_crop(image, 256, 224)),
        ):
            print('    {%d, %d, "%s", 0x%08xu},' % (width, height, name, crc(made)))
    print("};")
