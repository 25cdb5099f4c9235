# SPDX-License-Identifier: Apache-2.0
"""The parts on the line: outlines and height maps in part coordinates (-1..1), lit to colour patches."""
import cv2
import numpy as np

NAMES = ('bolt', 'nut', 'washer', 'gear', 'bracket', 'spring', 'cap', 'broken_gear', 'cracked_washer')
CLUTTER = ('rod', 'plate', 'wire', 'chip', 'sticker', 'rod', 'chip')
# How large each class is against its neighbours on the belt.
SPREAD = (1.15, 0.75, 0.8, 1.1, 1.15, 1.1, 0.9, 1.2, 0.95)

STEEL = ((176, 174, 170), (150, 150, 152), (196, 196, 196), (120, 122, 126), (96, 96, 100))
BRASS = ((84, 168, 204), (70, 140, 190), (110, 150, 196))
PAINT = ((40, 44, 190), (180, 90, 30), (40, 180, 220), (70, 150, 60), (215, 215, 215), (38, 38, 40), (30, 110, 230))


def ring(radius, count=40, start=0.0, sweep=2 * np.pi):
  angle = start + np.linspace(0, sweep, count, endpoint=sweep < 6.28)
  return np.stack([np.cos(angle), np.sin(angle)], 1) * radius


def rectangle(x1, y1, x2, y2):
  return np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], np.float64)


class Patch:
  """A part being drawn. u, v are part coordinates of each pixel; `height` is in part units."""

  def __init__(self, rng, size, tilt, extent):
    self.rng, self.half = rng, size / 2
    self.side = (int(size * extent) // 2) * 2 + 8
    turn = rng.uniform(0, 2 * np.pi)
    c, s = np.cos(turn), np.sin(turn)
    self.matrix = np.array([[1, 0], [0, tilt]]) @ np.array([[c, -s], [s, c]]) * self.half
    inverse = np.linalg.inv(self.matrix).astype(np.float32)
    axis = np.arange(self.side, dtype=np.float32) - self.side / 2 + 0.5
    self.u = inverse[0, 0] * axis[None] + inverse[0, 1] * axis[:, None]
    self.v = inverse[1, 0] * axis[None] + inverse[1, 1] * axis[:, None]
    self.mask = np.zeros((self.side, self.side), np.float32)
    self.height = np.zeros_like(self.mask)
    self.colour = np.zeros((self.side, self.side, 3), np.float32)
    self.gloss = np.zeros_like(self.mask)
    self.defect = None

  def pixels(self, points):
    return np.asarray(points) @ self.matrix.T + self.side / 2

  def outline(self, contours):
    """Coverage 0 or 1 of contours filled even-odd."""
    mask = np.zeros((self.side, self.side), np.uint8)
    fixed = [np.round((self.pixels(c) - 0.5) * 16).astype(np.int32) for c in contours]
    cv2.fillPoly(mask, fixed, 1, shift=4)
    return mask

  def rounded(self, mask, bevel):
    """Height of a flat thing whose rim is rounded over `bevel` part units."""
    distance = cv2.distanceTransform(mask, cv2.DIST_L2, 3) / (bevel * self.half)
    rest = 1 - np.minimum(distance, 1)
    return bevel * np.sqrt(1 - rest * rest)

  def add(self, mask, height, colour, gloss):
    """Puts a layer on top."""
    x, y, w, h = cv2.boundingRect(mask)
    part = np.s_[y:y + h, x:x + w]
    on = mask[part].astype(bool)
    self.mask[part][on] = 1
    self.height[part][on] = height[part][on]
    self.colour[part][on] = colour
    self.gloss[part][on] = gloss


def metal(rng):
  table = BRASS if rng.random() < 0.22 else STEEL
  return np.array(table[rng.integers(len(table))], np.float32) * rng.uniform(0.85, 1.15), rng.uniform(0.35, 1.0)


def draw_bolt(patch, rng):
  colour, gloss = metal(rng)
  head, shaft = rng.uniform(0.34, 0.46), rng.uniform(0.15, 0.22)
  seat = rng.uniform(-0.68, -0.56)
  u, v = patch.u, patch.v
  mask = patch.outline([np.array([(seat, -shaft), (0.94, -shaft), (1, -shaft * 0.7), (1, shaft * 0.7), (0.94, shaft),
                                  (seat, shaft)])])
  height = np.sqrt(np.maximum(shaft * shaft - v * v, 0))
  start = rng.uniform(-0.5, 0.25)
  pitch = rng.uniform(0.1, 0.15)
  height = height + np.where(u > start, 0.028 * np.sin((u + v * 0.25) * (2 * np.pi / pitch)), 0)
  patch.add(mask, height, colour * 0.95, gloss)
  mask = patch.outline([np.array([(-1, -head * 0.85), (-0.95, -head), (seat, -head), (seat, head), (-0.95, head),
                                  (-1, head * 0.85)])])
  facet = np.minimum(1.0, (head - np.abs(v)) / (head * 0.5)) * head * 0.8
  patch.add(mask, facet, colour, gloss)
  if rng.random() < 0.5:
    mask = patch.outline([rectangle(seat, -head * 1.1, seat + 0.07, head * 1.1)])
    patch.add(mask, 0.5 * head + 0 * v, colour * 1.05, gloss)


def draw_nut(patch, rng):
  colour, gloss = metal(rng)
  hole = rng.uniform(0.46, 0.58)
  mask = patch.outline([ring(1, 6), ring(hole)])
  radius = np.hypot(patch.u, patch.v)
  cone = 0.3 - np.maximum(radius - 0.82, 0) * 1.3
  height = np.minimum(cone, 0.2 + patch.rounded(mask, 0.12))
  patch.add(mask, height, colour, gloss)
  inside = patch.outline([ring(hole), ring(hole * 0.8)])
  patch.add(inside, 0.1 + 0.05 * np.sin(radius * 60), colour * 0.55, gloss * 0.3)


def draw_washer(patch, rng, cracked=False):
  colour, gloss = metal(rng)
  hole = rng.uniform(0.42, 0.66)
  if cracked:
    gap = rng.uniform(0.36, 0.62)
    start = rng.uniform(0, 6.28)
    outer = ring(1, 60, start + gap / 2, 6.2832 - gap - 0.0001)
    skew = rng.uniform(-0.12, 0.12)
    inner = ring(hole, 60, start + gap / 2 + skew, 6.2832 - gap - 0.0001)[::-1]
    mask = patch.outline([np.concatenate([outer, inner])])
    middle = (1 + hole) / 2
    patch.defect = patch.pixels([[np.cos(start) * middle, np.sin(start) * middle]])[0]
  else:
    mask = patch.outline([ring(1), ring(hole)])
  patch.add(mask, patch.rounded(mask, 0.07), colour, gloss)
  if rng.random() < 0.4:
    patch.height += 0.012 * np.sin(np.hypot(patch.u, patch.v) * rng.uniform(40, 70))


def draw_gear(patch, rng, broken=False):
  colour, gloss = metal(rng)
  teeth = int(rng.integers(9, 17))
  root = rng.uniform(0.74, 0.82)
  top, base = rng.uniform(0.2, 0.3), rng.uniform(0.32, 0.42)
  lost = ()
  if broken:
    run = int(np.ceil(teeth * rng.uniform(0.17, 0.3)))
    lost = range(run)
    angle = (run - 1) / 2 / teeth * 2 * np.pi
    patch.defect = patch.pixels([[np.cos(angle) * 0.9, np.sin(angle) * 0.9]])[0]
  points = []
  for tooth in range(teeth):
    for offset, radius in ((-base, root), (-top, 1), (top, 1), (base, root)):
      if tooth in lost:
        radius = root + (rng.uniform(-0.05, 0.03) if radius == 1 else 0)
      angle = (tooth + offset) / teeth * 2 * np.pi
      points.append((np.cos(angle) * radius, np.sin(angle) * radius))
  bore = rng.uniform(0.16, 0.3)
  contours = [np.array(points), ring(bore)]
  style = rng.integers(3)
  if style == 1:
    spokes = int(rng.integers(3, 7))
    for k in range(spokes):
      angle = k * 2 * np.pi / spokes
      contours.append(ring(0.13, 20) + np.array([np.cos(angle), np.sin(angle)]) * 0.52)
  mask = patch.outline(contours)
  height = 0.1 + patch.rounded(mask, 0.06)
  radius = np.hypot(patch.u, patch.v)
  if style == 2:
    height = height - 0.09 * (1 / (1 + np.exp(-(radius - 0.4) * 50)) - 1 / (1 + np.exp(-(radius - 0.64) * 50)))
  patch.add(mask, height, colour, gloss)
  hub = patch.outline([ring(bore + 0.13), ring(bore)])
  patch.add(hub, 0.2 + patch.rounded(hub, 0.05), colour * 1.02, gloss)


def draw_bracket(patch, rng):
  colour, gloss = metal(rng)
  if rng.random() < 0.35:
    colour, gloss = np.array(PAINT[rng.integers(len(PAINT))], np.float32), 0.3
  arm, wide, long = rng.uniform(0.36, 0.5), rng.uniform(0.6, 0.85), rng.uniform(0.75, 0.95)
  corner = 0.1
  body = np.array([(-wide + corner, -long), (-wide + arm - corner, -long), (-wide + arm, -long + corner),
                   (-wide + arm, long - arm), (wide - corner, long - arm), (wide, long - arm + corner),
                   (wide, long - corner), (wide - corner, long), (-wide + corner, long), (-wide, long - corner),
                   (-wide, -long + corner)])
  bore = arm * rng.uniform(0.2, 0.3)
  mid = -wide + arm / 2
  holes = [ring(bore, 20) + (mid, -long + arm * 0.6), ring(bore, 20) + (wide - arm * 0.6, long - arm / 2)]
  if rng.random() < 0.6:
    holes.append(ring(bore, 20) + (mid, long - arm / 2))
  mask = patch.outline([body] + holes)
  patch.add(mask, patch.rounded(mask, 0.06), colour, gloss)


def draw_spring(patch, rng):
  colour, gloss = metal(rng)
  coils = int(rng.integers(5, 10))
  radius = rng.uniform(0.26, 0.38)
  wire = rng.uniform(0.055, 0.085)
  pitch = 2 * (1 - wire) / coils
  def strand(a, b, shade, lift):
    a, b = np.array(a), np.array(b)
    along = (b - a) / np.linalg.norm(b - a)
    normal = np.array([-along[1], along[0]]) * wire
    cap = np.arctan2(along[1], along[0])
    shape = np.concatenate([ring(wire, 8, cap + np.pi / 2, np.pi) + a, ring(wire, 8, cap - np.pi / 2, np.pi) + b])
    mask = patch.outline([shape])
    across = ((patch.u - a[0]) * normal[0] + (patch.v - a[1]) * normal[1]) / wire
    patch.add(mask, lift + np.sqrt(np.maximum(wire * wire - across * across, 0)), colour * shade, gloss)
  lefts = [-1 + wire + k * pitch for k in range(coils + 1)]
  for k in range(coils):
    strand((lefts[k] + pitch * 0.5, radius), (lefts[k + 1], -radius), 0.45, 0.0)
  for k in range(coils):
    strand((lefts[k], -radius), (lefts[k] + pitch * 0.5, radius), 1.0, radius)
  strand((lefts[coils], -radius), (lefts[coils], radius), 1.0, radius)


def draw_cap(patch, rng):
  colour, gloss = np.array(PAINT[rng.integers(len(PAINT))], np.float32) * rng.uniform(0.8, 1.1), rng.uniform(0.2, 0.6)
  mask = patch.outline([ring(1, 48)])
  radius = np.hypot(patch.u, patch.v)
  ribs = int(rng.integers(18, 36))
  height = patch.rounded(mask, 0.22)
  height = height + np.where(radius > 0.8, 0.02 * np.sin(np.arctan2(patch.v, patch.u) * ribs), 0)
  patch.add(mask, height, colour, gloss)
  style = rng.integers(3)
  if style == 0:
    top = patch.outline([ring(0.62)])
    patch.add(top, 0.22 - patch.rounded(top, 0.08), colour * 0.92, gloss)
  elif style == 1:
    top = patch.outline([ring(0.68), ring(0.58)])
    patch.add(top, 0.22 + patch.rounded(top, 0.05), colour * 1.08, gloss)
  else:
    top = patch.outline([rectangle(-0.5, -0.1, 0.5, 0.1)])
    patch.add(top, 0.22 + patch.rounded(top, 0.08), colour * 1.1, gloss)


def draw_rod(patch, rng):
  colour, gloss = metal(rng)
  thick = rng.uniform(0.08, 0.2)
  mask = patch.outline([rectangle(-1, -thick, 1, thick)])
  patch.add(mask, np.sqrt(np.maximum(thick * thick - patch.v ** 2, 0)), colour, gloss)


def draw_plate(patch, rng):
  colour, gloss = metal(rng)
  wide, tall = rng.uniform(0.4, 0.95), rng.uniform(0.3, 0.7)
  mask = patch.outline([rectangle(-wide, -tall, wide, tall)])
  patch.add(mask, patch.rounded(mask, 0.08), colour * 0.9, gloss)


def draw_wire(patch, rng):
  colour = np.array(PAINT[rng.integers(len(PAINT))], np.float32)
  t = np.linspace(-1, 1, 40)
  path = np.stack([t * 0.95, rng.uniform(0.1, 0.5) * np.sin(t * rng.uniform(1.5, 5) + rng.uniform(0, 6))], 1)
  mask = np.zeros((patch.side, patch.side), np.uint8)
  width = max(2, int(patch.half * rng.uniform(0.06, 0.14)))
  cv2.polylines(mask, [np.round(patch.pixels(path)).astype(np.int32)], False, 1, width)
  patch.add(mask, patch.rounded(mask, 0.06), colour, 0.3)


def draw_chip(patch, rng):
  """A curl or flake of swarf."""
  colour, gloss = metal(rng)
  count = int(rng.integers(4, 8))
  angle = np.sort(rng.uniform(0, 2 * np.pi, count))
  radius = rng.uniform(0.3, 0.9, count)
  mask = patch.outline([np.stack([np.cos(angle) * radius, np.sin(angle) * radius * 0.6], 1)])
  patch.add(mask, patch.rounded(mask, 0.3) + 0.2 * patch.u, colour, gloss)


def draw_sticker(patch, rng):
  paper = np.array((225, 228, 230), np.float32) * rng.uniform(0.7, 1)
  mask = patch.outline([rectangle(-0.95, -0.5, 0.95, 0.5)])
  patch.add(mask, np.full_like(patch.u, 0.01), paper, 0.0)
  ink = mask.astype(bool) & (np.abs(patch.v) < 0.32) & (np.abs(patch.u) < 0.75)
  bars = np.sin(patch.u * 37 + 2 * np.sin(patch.u * 23)) > 0.1
  patch.colour[ink & bars] = 40


DRAW = {
    'bolt': draw_bolt, 'nut': draw_nut, 'washer': draw_washer, 'gear': draw_gear, 'bracket': draw_bracket,
    'spring': draw_spring, 'cap': draw_cap, 'broken_gear': lambda p, r: draw_gear(p, r, True),
    'cracked_washer': lambda p, r: draw_washer(p, r, True), 'rod': draw_rod, 'plate': draw_plate, 'wire': draw_wire,
    'chip': draw_chip, 'sticker': draw_sticker,
}
ROUND = ('nut', 'washer', 'gear', 'cap', 'broken_gear', 'cracked_washer')
LIFT = {'sticker': 0.01, 'wire': 0.08, 'washer': 0.06, 'cracked_washer': 0.06, 'chip': 0.08, 'bracket': 0.08}


def wear(patch, rng):
  """Scratches and rust that any part may carry; they do not change its class."""
  if rng.random() < 0.25:
    for _ in range(rng.integers(1, 4)):
      a = patch.pixels(rng.uniform(-0.9, 0.9, (1, 2)))[0]
      b = a + rng.normal(0, 0.5, 2) * patch.half
      shade = float(rng.uniform(-0.12, 0.06))
      cv2.line(patch.height, tuple(int(i) for i in a), tuple(int(i) for i in b), shade, 1)
  if rng.random() < 0.15:
    grid = rng.standard_normal((6, 6), dtype=np.float32)
    spots = cv2.resize(grid, (patch.side, patch.side), interpolation=cv2.INTER_CUBIC)
    patch.colour += (np.array((40, 72, 120), np.float32) - patch.colour) * (0.6 * np.clip(spots - 0.5, 0, 1))[..., None]


def render(rng, kind, size, tilt, light, ambient):
  """(colour float32 BGR, mask float32 0..1, height over the belt in pixels, defect's pixel or None)."""
  patch = Patch(rng, size, tilt, 1.03 if kind in ROUND else 1.4)
  DRAW[kind](patch, rng)
  wear(patch, rng)
  height = patch.height * np.float32(patch.half)
  if patch.half > 30:
    height = cv2.blur(height, (3, 3))
  gx = np.clip(cv2.Sobel(height, cv2.CV_32F, 1, 0, scale=0.125), -2.5, 2.5)
  gy = np.clip(cv2.Sobel(height, cv2.CV_32F, 0, 1, scale=0.125), -2.5, 2.5)
  norm = 1 / np.sqrt(gx * gx + gy * gy + 1)
  diffuse = np.maximum((-gx * light[0] - gy * light[1] + light[2]) * norm, 0)
  middle = light + np.array((0, 0, 1), np.float32)
  middle /= np.linalg.norm(middle)
  shine = np.maximum((-gx * middle[0] - gy * middle[1] + middle[2]) * norm, 0)
  for _ in range(4):
    shine *= shine
  grain = rng.standard_normal((patch.side // 4 + 1, patch.side // 2 + 1), dtype=np.float32)
  grain = cv2.resize(grain, (patch.side, patch.side), interpolation=cv2.INTER_LINEAR)
  lit = np.float32(ambient) + np.float32(1.1 * (1 - ambient)) * diffuse + np.float32(0.03) * grain
  colour = patch.colour * lit[..., None] + (shine * patch.gloss * np.float32(65))[..., None]
  return colour, patch.mask, LIFT.get(kind, 0.16) * patch.half, patch.defect
