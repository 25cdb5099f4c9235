#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small images into data/, and data/images.inc with checksums of what OpenCV 4 reads from each (as RGB), or,
where OpenCV does not read a kind, of the pixels that it was made of.

usage: make_images.py      (needs numpy, opencv-python 4.x, Pillow)
"""
import pathlib
import struct
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


def exif_of(orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    return exif


def write_tiff(path, rgb, order, tile=0, planes=False):
    """A plain TIFF of tiles, or of one strip for each colour."""
    height, width = rgb.shape[:2]
    if tile:
        padded = np.zeros(((height + tile - 1) // tile * tile, (width + tile - 1) // tile * tile, 3), np.uint8)
        padded[:height, :width] = rgb
        pieces = [padded[top:top + tile, left:left + tile].tobytes()
                  for top in range(0, height, tile) for left in range(0, width, tile)]
        tags = {322: [tile], 323: [tile]}
    else:
        pieces = [np.ascontiguousarray(rgb[:, :, channel]).tobytes() for channel in range(3)]
        tags = {278: [height], 284: [2 if planes else 1]}
    data, begins = b"", []
    for piece in pieces:
        begins.append(8 + len(data))
        data += piece
    tags.update({256: [width], 257: [height], 258: [8, 8, 8], 259: [1], 262: [2], 277: [3],
                 324 if tile else 273: begins, 325 if tile else 279: [len(piece) for piece in pieces]})
    begin = 8 + len(data)
    entries, tail = b"", b""
    after = begin + 2 + 12 * len(tags) + 4
    for tag, values in sorted(tags.items()):
        packed = struct.pack(order + "%dI" % len(values), *values)
        if len(values) > 1:
            tail, packed = tail + packed, struct.pack(order + "I", after + len(tail))
        entries += struct.pack(order + "HHI", tag, 4, len(values)) + packed
    path.write_bytes((b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, begin) + data +
                     struct.pack(order + "H", len(tags)) + entries + bytes(4) + tail)


def write_bmp(path, width, height, bits, packing, masks, palette, data):
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, packing, len(data), 0, 0, len(palette) // 4, 0)
    begin = 14 + len(head) + len(masks) + len(palette)
    path.write_bytes(b"BM" + struct.pack("<IHHI", begin + len(data), 0, 0, begin) + head + masks + palette + data)


def write_bmps(folder, rgb):
    """Kinds that Pillow does not write, and their pixels."""
    height, width = rgb.shape[:2]
    found = {}
    five = rgb.astype(np.uint32) * 31 // 255
    words = (five[:, :, 0] << 10 | five[:, :, 1] << 5 | five[:, :, 2]).astype("<u2")
    write_bmp(folder / "rgb16.bmp", width, -height, 16, 0, b"", b"", words.tobytes())
    found["rgb16.bmp"] = (five * 255 + 15) // 31
    wide = rgb.astype(np.uint32) * 1023 // 255
    words = (wide[:, :, 0] << 20 | wide[:, :, 1] << 10 | wide[:, :, 2]).astype("<u4")
    write_bmp(folder / "masks.bmp", width, height, 32, 3, struct.pack("<3I", 1023 << 20, 1023 << 10, 1023), b"",
              np.ascontiguousarray(words[::-1]).tobytes())
    found["masks.bmp"] = (wide * 255 + 511) // 1023
    palette = np.array([[n * 16, 255 - n * 16, n * 5, 0] for n in range(16)], np.uint8)
    index = (np.arange(width)[None] // 5 + np.arange(height)[:, None]) % 16
    for name, bits in (("runs8.bmp", 8), ("runs4.bmp", 4)):
        data = b""
        for row in index[::-1]:
            at = 0
            while at < width:
                count = 1
                while at + count < width and row[at + count] == row[at]:
                    count += 1
                data += bytes([count, int(row[at]) * (1 if bits == 8 else 17)])
                at += count
            data += b"\0\0"
        write_bmp(folder / name, width, height, bits, 1 if bits == 8 else 2, b"", palette.tobytes(), data + b"\0\1")
        found[name] = palette[index][:, :, 2::-1]
    return found


for orientation in range(1, 9):
    image.save(folder / f"orientation_{orientation}.jpg", exif=exif_of(orientation), quality=80)
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
grey, indexed = image.convert("L"), image.convert("P", palette=Image.Palette.ADAPTIVE)
image.save(folder / "rgb.bmp")
grey.save(folder / "grey.bmp")
indexed.save(folder / "palette.bmp")
image.convert("1").save(folder / "bit.bmp")
image.save(folder / "lossy.webp", quality=70)
image.save(folder / "lossless.webp", lossless=True)
image.save(folder / "turned.webp", exif=exif_of(6), quality=70)
Image.fromarray(np.dstack([pixels, (x * 3 % 256).astype(np.uint8)])).save(folder / "alpha.webp", lossless=True)
image.save(folder / "plain.tif")
for packing in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
    image.save(folder / f"{packing}.tif", compression=packing)
grey.save(folder / "grey.tif")
indexed.save(folder / "palette.tif", compression="tiff_lzw")
image.convert("1").save(folder / "bit.tif")
cv2.imwrite(str(folder / "rgb16.tif"), (pixels.astype(np.uint16) * 257)[:, :, ::-1])  # LZW with differences
write_tiff(folder / "tiles.tif", pixels, "<", tile=16)
write_tiff(folder / "planes.tif", pixels, ">", planes=True)
expected = {name: pixels for name in ("tiles.tif", "planes.tif")}
expected.update(write_bmps(folder, pixels))

with open(folder / "images.inc", "w") as out:
    out.write("// Written by make_images.py with OpenCV %s.\n" % cv2.__version__)
    out.write("constexpr ImageCase image_cases[] = {\n")
    for path in sorted(path for path in folder.iterdir() if path.suffix != ".inc"):
        if path.name in expected:
            read = np.ascontiguousarray(expected[path.name].astype(np.uint8))
        else:
            read = np.ascontiguousarray(cv2.imread(str(path))[:, :, ::-1])
            if path.name == "turned.webp" and read.shape[:2] == pixels.shape[:2]:  # OpenCV leaves it lying
                read = np.ascontiguousarray(np.rot90(read, -1))
        height, width = read.shape[:2]
        out.write('    {"%s", %d, %d, 0x%08xu},\n' % (path.name, width, height, zlib.crc32(read.tobytes())))
    out.write("};\n")
