#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small images into data/, and data/images.inc with checksums of what OpenCV 4 reads from each (as RGB).

usage: make_images.py      (needs numpy, opencv-python 4.x, Pillow)
"""
import pathlib
import zlib

import cv2
import numpy as np
from PIL import Image

assert cv2.__version__.startswith("4."), "needs OpenCV 4, not " + cv2.__version__
folder = pathlib.Path(__file__).parent / "data"
folder.mkdir(exist_ok=True)
y, x = np.mgrid[0:21, 0:34]
pixels = np.stack([x * 7 % 256, y * 11 % 256, x * y % 256], -1).astype(np.uint8)
image = Image.fromarray(pixels)
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x112] = orientation
    image.save(folder / f"orientation_{orientation}.jpg", exif=exif, quality=80)
image.save(folder / "progressive.jpg", progressive=True)
image.save(folder / "full_chroma.jpg", subsampling=0)
image.save(folder / "half_chroma.jpg", subsampling=1)
image.convert("L").save(folder / "grey.jpg")
image.convert("CMYK").save(folder / "cmyk.jpg")
image.save(folder / "rgb.png")
image.convert("L").save(folder / "grey.png")
image.convert("P", palette=Image.Palette.ADAPTIVE).save(folder / "palette.png")
image.convert("1").save(folder / "bit.png")
Image.fromarray(np.dstack([pixels, (x * 3 % 256).astype(np.uint8)])).save(folder / "alpha.png")
cv2.imwrite(str(folder / "rgb16.png"), pixels.astype(np.uint16) * 256 + 77)

with open(folder / "images.inc", "w") as out:
    out.write("// Written by make_images.py with OpenCV %s.\n" % cv2.__version__)
    out.write("constexpr ImageCase image_cases[] = {\n")
    for path in sorted(list(folder.glob("*.jpg")) + list(folder.glob("*.png"))):
        read = np.ascontiguousarray(cv2.imread(str(path))[:, :, ::-1])
        height, width = read.shape[:2]
        out.write('    {"%s", %d, %d, 0x%08xu},\n' % (path.name, width, height, zlib.crc32(read.tobytes())))
    out.write("};\n")
