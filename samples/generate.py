#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeded images of an inspection line with exact ground truth.

    generate.py --count 24 --seed 7 --size 480x360 -o DIR    JPEGs and DIR/labels.json
    generate.py --clip 180 --seed 7 --size 480x270 -o a.mp4  parts moving along a belt, and a.json beside it

Parts are drawn as height maps and lit by one lamp per scene. A box is the tight extent of a part's visible pixels,
[x1, y1, x2, y2] in pixels with x2 and y2 exclusive. Needs numpy and OpenCV.
"""
import argparse
import json
import multiprocessing
import os
import shutil
import subprocess

import cv2
import numpy as np

import parts

NAMES = parts.NAMES
MIN_VISIBLE = 0.7   # of a part covered by others
MIN_INSIDE = 0.55    # of a part cut by the image's edge
FINE = 72            # parts smaller than this, in pixels, are drawn oversampled twice

BELTS = ((52, 54, 56), (38, 40, 44), (86, 88, 90), (62, 84, 58), (96, 78, 58), (120, 122, 118), (48, 58, 78))


def noise_field(rng, height, width, cell):
  """Smooth noise of unit deviation whose features are about `cell` pixels."""
  grid = rng.standard_normal((max(2, int(height / cell) + 2), max(2, int(width / cell) + 2)), dtype=np.float32)
  return cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)


def draw_belt(rng, height, width, unit):
  """The empty conveyor, moving along x: rubber, weave or slats, stains and side rails; float32 BGR 0..255."""
  base = np.array(BELTS[rng.integers(len(BELTS))], np.float32) * rng.uniform(0.75, 1.35)
  grain = noise_field(rng, height, width, 1.2 * unit) * rng.uniform(1, 3.5)
  grain += noise_field(rng, height, width, 40 * unit) * rng.uniform(1, 5)
  x = np.arange(width, dtype=np.float32)[None]
  y = np.arange(height, dtype=np.float32)[:, None]
  kind = rng.integers(5)
  pitch = rng.uniform(7, 16) * unit
  depth = rng.uniform(2, 7)
  if kind == 1:
    grain += depth * np.sin(x * (2 * np.pi / pitch)) + 0 * y
  elif kind == 2:
    grain += depth * np.sin((x + y) * (2 * np.pi / pitch)) * np.sin((x - y) * (2 * np.pi / pitch))
  elif kind == 3:
    slat = pitch * 5
    edge = np.abs((x % slat) - slat / 2)
    grain += np.where(edge < 1.2 * unit, -3.5 * depth, np.where(edge < 2.4 * unit, 2 * depth, 0)) + 0 * y
  elif kind == 4:
    grain += depth * np.sign(np.sin(y * (2 * np.pi / pitch)))
  canvas = base + grain[..., None]
  for _ in range(rng.integers(0, 2 + int(width / (100 * unit)))):
    stain = np.zeros((height, width), np.uint8)
    centre = (int(rng.uniform(0, width)), int(rng.uniform(0, height)))
    axes = (int(rng.uniform(6, 45) * unit), int(rng.uniform(5, 28) * unit))
    cv2.ellipse(stain, centre, axes, rng.uniform(0, 180), 0, 360, 255, -1, cv2.LINE_AA)
    soft = cv2.blur(stain, (5, 5)).astype(np.float32)[..., None] / 255
    canvas *= 1 - soft * rng.uniform(-0.2, 0.35)
  for _ in range(rng.integers(0, 7)):
    start = rng.uniform((0, 0), (width, height))
    end = start + rng.normal(0, 70 * unit, 2) * (1, 0.15)
    shade = base * rng.uniform(0.6, 1.5)
    cv2.line(canvas, tuple(int(v) for v in start), tuple(int(v) for v in end), shade.tolist(), 1, cv2.LINE_AA)
  if rng.random() < 0.45:
    draw_rails(rng, canvas, unit)
  return canvas


def draw_rails(rng, canvas, unit):
  """Metal or painted guides along one or both sides of the belt."""
  height, width = canvas.shape[:2]
  colour = np.array([(150, 150, 148), (40, 170, 215), (120, 96, 60), (90, 92, 96)][rng.integers(4)], np.float32)
  thick = int(rng.uniform(8, 26) * unit)
  profile = 0.55 + 0.6 * np.sin(np.linspace(0.15, 2.9, thick, dtype=np.float32))
  band = colour * profile[:, None, None] * np.ones((1, width, 1), np.float32)
  band += rng.normal(0, 3, (1, width, 1)).astype(np.float32)
  sides = rng.integers(1, 4)
  if sides & 1:
    canvas[:thick] = band
    canvas[thick:thick + 4] *= 0.6
  if sides & 2:
    canvas[height - thick:] = band
    canvas[height - thick - 3:height - thick] *= 0.7


class Scene:
  """A belt with parts on it: `canvas` float32 BGR, `ids` which part each pixel shows (0: none)."""

  def __init__(self, rng, height, width, unit):
    self.rng, self.unit = rng, unit
    self.height, self.width = height, width
    self.canvas = draw_belt(rng, height, width, unit)
    self.ids = np.zeros((height, width), np.int32)
    self.objects = [None]
    angle = rng.uniform(0, 2 * np.pi)
    slope = rng.uniform(0.5, 1.1)
    self.light = np.array([np.cos(angle) * slope, np.sin(angle) * slope, 1.0], np.float32)
    self.light /= np.linalg.norm(self.light)
    self.ambient = rng.uniform(0.28, 0.5)
    self.tilt = rng.uniform(0.86, 1.0)
    self.shadow = rng.uniform(0.3, 0.65)

  def place(self, kind, size, centre, label=None):
    """Draws one part of `size` pixels across at `centre`; False where it would hide too much of another."""
    over = 2 if size < FINE else 1
    colour, mask, lift, defect = parts.render(self.rng, kind, size * over, self.tilt, self.light, self.ambient)
    rows, columns = mask.shape[0] // over, mask.shape[1] // over
    if over == 2:
      mask = cv2.resize(mask, (columns, rows), interpolation=cv2.INTER_AREA)
      colour = cv2.resize(colour, (columns, rows), interpolation=cv2.INTER_AREA)
    else:
      mask = cv2.GaussianBlur(mask, (3, 3), 0.6)
    left, top = int(round(centre[0] - columns / 2)), int(round(centre[1] - rows / 2))
    x1, y1, x2, y2 = max(left, 0), max(top, 0), min(left + columns, self.width), min(top + rows, self.height)
    if x2 <= x1 or y2 <= y1:
      return False
    inner = np.s_[y1 - top:y2 - top, x1 - left:x2 - left]
    solid = mask > 0.5
    area = int(solid.sum())
    cut = solid[inner]
    if area < 12 or cut.sum() < (MIN_INSIDE if label is not None else 0) * area:
      return False
    if defect is not None:
      defect = (defect[0] / over + left, defect[1] / over + top)
      if not (2 <= defect[0] < self.width - 2 and 2 <= defect[1] < self.height - 2):
        return False
    region = self.ids[y1:y2, x1:x2]
    for number, hidden in enumerate(np.bincount(region[cut], minlength=1)):
      if number == 0 or hidden == 0:
        continue
      below = self.objects[number]
      if below['seen'] - hidden < MIN_VISIBLE * below['area']:
        return False
      if below['defect'] is not None:
        gap = np.hypot(*np.subtract(below['defect'], centre))
        if gap < 0.62 * size + 3:
          return False
    for number, hidden in enumerate(np.bincount(region[cut], minlength=1)):
      if number and hidden:
        self.objects[number]['seen'] -= int(hidden)
    self._cast_shadow(mask, left, top, lift / over)
    alpha = mask[inner][..., None]
    target = self.canvas[y1:y2, x1:x2]
    target += (colour[inner] - target) * alpha
    if label is None:
      region[cut] = 0
      return True
    self.objects.append({'class': label, 'area': int(cut.sum()), 'full': area, 'seen': int(cut.sum()),
                         'roi': (x1, y1, x2, y2), 'defect': defect})
    region[cut] = len(self.objects) - 1
    return True

  def _cast_shadow(self, mask, left, top, lift):
    pad = int(lift * 2) + 3
    soft = cv2.copyMakeBorder(mask, pad, pad, pad, pad, cv2.BORDER_CONSTANT)
    soft = cv2.blur(soft, (pad, pad))
    shift = -self.light[:2] / self.light[2] * lift * 1.2
    left, top = int(round(left - pad + shift[0])), int(round(top - pad + shift[1]))
    x1, y1 = max(left, 0), max(top, 0)
    x2, y2 = min(left + soft.shape[1], self.width), min(top + soft.shape[0], self.height)
    if x2 > x1 and y2 > y1:
      self.canvas[y1:y2, x1:x2] *= 1 - self.shadow * soft[y1 - top:y2 - top, x1 - left:x2 - left, None]

  def fill(self, count, scale, clutter):
    """Up to `count` labelled parts and `clutter` unlabelled things, at sizes around `scale` units."""
    rng = self.rng
    order = np.array([1] * count + [0] * clutter)
    rng.shuffle(order)
    for labelled in order:
      for _ in range(6):
        centre = rng.uniform((0, 0), (self.width, self.height))
        if labelled:
          label = int(rng.integers(len(NAMES)))
          size = float(np.clip(scale * rng.uniform(0.7, 1.4) * parts.SPREAD[label], 24, 150)) * self.unit
          if self.place(NAMES[label], size, centre, label):
            break
        else:
          kind = parts.CLUTTER[rng.integers(len(parts.CLUTTER))]
          if self.place(kind, rng.uniform(8, 60) * self.unit, centre):
            break

  def labels(self, window=None, min_inside=0.0):
    """Ground truth of the whole scene, or of what a window [x1, y1, x2, y2] of it shows."""
    wx1, wy1, wx2, wy2 = window or (0, 0, self.width, self.height)
    found = []
    for number, item in enumerate(self.objects):
      if number == 0:
        continue
      x1, y1, x2, y2 = item['roi']
      x1, y1, x2, y2 = max(x1, wx1), max(y1, wy1), min(x2, wx2), min(y2, wy2)
      if x2 <= x1 or y2 <= y1:
        continue
      shown = self.ids[y1:y2, x1:x2] == number
      if shown.sum() < max(6, min_inside * item['seen']):
        continue
      columns, rows = np.flatnonzero(shown.any(0)), np.flatnonzero(shown.any(1))
      box = [int(x1 + columns[0] - wx1), int(y1 + rows[0] - wy1), int(x1 + columns[-1] + 1 - wx1),
             int(y1 + rows[-1] + 1 - wy1)]
      found.append({'class': item['class'], 'label': NAMES[item['class']], 'box': box, 'part': number})
    return found


class Camera:
  """Exposure, lamp fall-off, colour cast, defocus, belt motion and sensor noise of one image or clip."""

  def __init__(self, rng, height, width, unit, clip=False):
    mild = 0.5 if clip else 1.0
    y, x = np.mgrid[:height, :width].astype(np.float32)
    cx, cy = rng.uniform(0, width), rng.uniform(0, height)
    reach = ((x - cx) ** 2 + (y - cy) ** 2) / float(height * height + width * width)
    gain = rng.uniform(0.75, 1.2) * (1.15 - mild * rng.uniform(0.1, 0.9) * reach)
    if rng.random() < 0.25 * mild:
      angle, edge = rng.uniform(0, 2 * np.pi), rng.uniform(-0.3, 0.3) * width
      side = (x - width / 2) * np.cos(angle) + (y - height / 2) * np.sin(angle) - edge
      gain *= 1 - rng.uniform(0.15, 0.4) / (1 + np.exp(-side / (rng.uniform(2, 14) * unit)))
    cast = 1 + rng.normal(0, 0.045, 3)
    self.gain = (gain[..., None] * cast).astype(np.float32)
    self.blur = rng.uniform(0.3, 1.0 if clip else 1.5) * unit if rng.random() < 0.7 else 0
    self.smear = int(rng.integers(3, 6) * unit) if rng.random() < 0.2 and not clip else 0
    self.noise = rng.uniform(1.0, 2.0) if clip else rng.uniform(1, 8)
    self.gamma = rng.uniform(0.85, 1.2)

  def shoot(self, rng, canvas, flicker=1.0):
    """The 8-bit BGR image the camera takes of `canvas`."""
    image = canvas * (self.gain * flicker)
    if self.blur > 0.25:
      image = cv2.GaussianBlur(image, (0, 0), self.blur)
    if self.smear > 1:
      image = cv2.blur(image, (self.smear, 1))
    np.clip(image, 0, 255, out=image)
    table = (255 * (np.arange(256) / 255) ** self.gamma).astype(np.float32)
    grain = rng.standard_normal(canvas.shape[:2] + (1,), dtype=np.float32) * 0.8
    grain = grain + rng.standard_normal(canvas.shape, dtype=np.float32) * 0.6
    image = table[image.astype(np.uint8)]
    image += grain * (self.noise * (0.5 + np.sqrt(image / 255)))
    return np.clip(image, 0, 255).astype(np.uint8)


def make_scene(rng, height, width):
  """One image: (uint8 BGR image, its list of objects)."""
  unit = min(height, width) / 320
  scene = Scene(rng, height, width, unit)
  scale = float(np.exp(rng.uniform(np.log(36), np.log(96))))
  room = width * height / (320 * unit) ** 2
  most = int(np.clip(26 * (48 / scale) ** 1.3, 5, 22) * room)
  scene.fill(int(rng.integers(2, most + 1)), scale, int(rng.integers(0, 8) * room))
  image = Camera(rng, height, width, unit).shoot(rng, scene.canvas)
  return image, scene.labels()


def make_clip(seed, frames, height, width):
  """Yields (uint8 BGR frame, objects) of a belt moving left; `part` names the same part in every frame."""
  rng = np.random.default_rng([seed, 1])
  unit = min(height, width) / 320
  speed = 4.0 * unit
  length = int(width + frames * speed) + 8
  scene = Scene(rng, height, length, unit)
  room = length * height / (320 * unit) ** 2
  scene.fill(int(9 * room), 58, int(3 * room))
  camera = Camera(rng, height, width, unit, clip=True)
  for index in range(frames):
    offset = index * speed
    x = int(offset)
    canvas = scene.canvas[:, x:x + width + 1]
    part = np.float32(offset - x)
    canvas = canvas[:, :-1] * (1 - part) + canvas[:, 1:] * part
    flicker = np.float32(1 + 0.03 * np.sin(index * 0.21) + 0.01 * np.sin(index * 1.7))
    yield camera.shoot(rng, canvas, flicker), scene.labels((x, 0, x + width, height), 0.4)


def _write_one(job):
  index, seed, height, width, folder, quality = job
  cv2.setNumThreads(1)
  image, objects = make_scene(np.random.default_rng([seed, 0, index]), height, width)
  name = f'{index:05d}.jpg'
  cv2.imwrite(os.path.join(folder, name), image, [cv2.IMWRITE_JPEG_QUALITY, quality])
  for item in objects:
    del item['part']
  return {'image': name, 'width': width, 'height': height, 'objects': objects}


def write_images(folder, count, seed, height, width, quality=88, workers=None):
  """Writes `count` JPEGs and labels.json; the same arguments give the same files on any number of workers."""
  os.makedirs(folder, exist_ok=True)
  jobs = [(i, seed, height, width, folder, quality) for i in range(count)]
  with multiprocessing.Pool(workers or os.cpu_count()) as pool:
    records = pool.map(_write_one, jobs, chunksize=4)
  write_records(os.path.join(folder, 'labels.json'), records)
  return records


def write_records(path, records):
  """One record a line, so that a change shows in a diff."""
  with open(path, 'w') as out:
    out.write('[\n' + ',\n'.join(json.dumps(r, separators=(',', ':')) for r in records) + '\n]\n')


class ClipWriter:
  """Writes BGR frames as H.264 with the ffmpeg command where there is one, otherwise as MPEG-4 with OpenCV."""

  def __init__(self, path, width, height, fps):
    self.process = None
    if shutil.which('ffmpeg'):
      self.process = subprocess.Popen(
          ['ffmpeg', '-y', '-loglevel', 'error', '-f', 'rawvideo', '-pix_fmt', 'bgr24', '-s', f'{width}x{height}',
           '-r', str(fps), '-i', '-', '-c:v', 'libx264', '-preset', 'slow', '-crf', '18', '-pix_fmt', 'yuv420p',
           '-movflags', '+faststart', path], stdin=subprocess.PIPE)
      return
    self.writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*'mp4v'), fps, (width, height))
    if not self.writer.isOpened():
      raise SystemExit(f'cannot write {path}: no ffmpeg command, and this OpenCV has no MPEG-4 encoder')

  def write(self, frame):
    if self.process:
      self.process.stdin.write(frame.tobytes())
    else:
      self.writer.write(frame)

  def close(self):
    if not self.process:
      self.writer.release()
      return
    self.process.stdin.close()
    if self.process.wait():
      raise SystemExit('ffmpeg could not write the clip')


def write_clip(path, frames, seed, height, width, fps=25):
  """Writes a clip and, beside it, its ground truth per frame."""
  if width % 2 or height % 2:
    raise SystemExit(f'a clip needs even sides, not {width}x{height}')
  writer = ClipWriter(path, width, height, fps)
  records = []
  for index, (frame, objects) in enumerate(make_clip(seed, frames, height, width)):
    writer.write(frame)
    records.append({'frame': index, 'width': width, 'height': height, 'objects': objects})
  writer.close()
  write_records(os.path.splitext(path)[0] + '.json', records)


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--count', type=int, default=24, help='images to write')
  parser.add_argument('--clip', type=int, default=0, help='frames of a clip to write instead of images')
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--size', default='320x320', help='WIDTHxHEIGHT')
  parser.add_argument('--quality', type=int, default=88, help='JPEG quality')
  parser.add_argument('--workers', type=int, default=0, help='processes (0: one a core)')
  parser.add_argument('-o', '--output', required=True, help='folder, or the clip\'s path')
  args = parser.parse_args()
  width, height = (int(v) for v in args.size.lower().split('x'))
  if args.clip:
    write_clip(args.output, args.clip, args.seed, height, width)
  else:
    write_images(args.output, args.count, args.seed, height, width, args.quality, args.workers)


if __name__ == '__main__':
  main()
