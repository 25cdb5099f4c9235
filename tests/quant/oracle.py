#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thresholds and ranges of the calibrators, computed the long way with NumPy: oracle.py > calibrators.golden
Each line: data set, method, low, high, and the mean squared error of the 256 levels on the values themselves."""
import numpy as np

BINS, MERGED, LEVELS, COUNT = 4096, 4, 256, 20000


def uniforms(count):
  state, result = 1, np.empty(count)
  for at in range(count):
    state = (state * 1664525 + 1013904223) % 2**32
    result[at] = (state >> 8) / 2**24
  return result


def data(name):
  bell = uniforms(4 * COUNT).reshape(COUNT, 4).sum(1) - 2
  if name == 'bell':
    values = bell * 3
  elif name == 'relu':
    values = np.maximum(bell, 0)
  elif name == 'tail':
    values = bell * bell * bell * 40
  elif name == 'lean':
    values = np.where(bell < 0, bell * 0.125, bell * 2)
  elif name == 'spike':
    values = np.where(np.arange(COUNT) % 5000 == 7, 50.0, bell)
  elif name == 'swish':  # most values small and of both signs, as in front of a detector's convolutions
    wide = 4 * bell * bell * bell - 2
    values = wide / (1 + np.exp(-wide))
  elif name == 'mask':
    values = np.where(bell < 0.5, 0.0, 1.0)
  return values.astype(np.float32)


def histogram(values):
  """Counts of |x|, and the width of a bin."""
  reach = 2.0**-60
  while reach <= np.abs(values).max():
    reach *= 2
  width = reach / BINS
  counts = np.bincount(np.floor(np.abs(values).astype(np.float64) / width).astype(int), minlength=BINS)
  return counts[:np.flatnonzero(counts).max() + 1].astype(np.float64), width


def signed(values, width):
  """Counts by floor(x / width), and the least of these."""
  places = np.where(values < 0, -1 - np.floor(-values / width), np.floor(values / width)).astype(int)
  return np.bincount(places - places.min()).astype(np.float64), int(places.min())


def grid(low, high):
  low, high = min(float(low), 0), max(float(high), 0)
  scale = np.float32((high - low) / 255)
  return float(scale), np.clip(np.round(-low / scale), 0, 255)


def quantised(bins, levels):
  spread = np.zeros_like(bins)
  for level in np.unique(levels):
    part = (levels == level) & (bins > 0)
    spread[part] = bins[part].mean() if part.any() else 0
  return spread


def entropy(values, legacy):
  width = histogram(values)[1] * MERGED
  values = values.astype(np.float64)
  counts, first = signed(values, width)
  if not legacy:
    counts[-first] -= (values == 0).sum()
  largest = int(np.abs(values).max() / width) + 1
  least, best = np.inf, 0
  for size in range(LEVELS, largest + 1):
    at = np.arange(-size, size)
    p = np.zeros(2 * size)
    held = (at >= first) & (at < first + len(counts))
    p[held] = counts[at[held] - first]
    threshold = (size + 0.5) * width
    scale, zero = grid(max(values.min(), -threshold), min(values.max(), threshold))
    q = quantised(p, np.clip(np.round((at + 0.5) * width / scale) + zero, 0, 255))
    if q.sum() == 0:
      continue
    p[0] += counts[:max(-size - first, 0)].sum()
    p[-1] += counts[max(size - first, 0):].sum()
    q[(p > 0) & (q == 0)] = 1e-4
    p, q = p / p.sum(), q / q.sum()
    held = p > 0
    found = np.sum(p[held] * np.log(p[held] / q[held]))
    if found < least - 1e-12:
      least, best = found, threshold
  return best


def percentile(values, percent):
  counts, width = histogram(values)
  return (int(np.searchsorted(np.cumsum(counts), percent / 100 * len(values))) + 1) * width


def error(values, low, high):
  low, high = min(low, 0), max(high, 0)
  scale = np.float32((float(high) - float(low)) / 255)
  zero = np.clip(np.round(-low / scale), 0, 255)
  stored = np.clip(np.round(values / scale) + zero, 0, 255)
  return float(np.mean((values.astype(np.float64) - (stored - zero) * scale)**2))


def best_range(values):
  """The error of the best pair of ends on a grid."""
  low, high = min(values.min(), 0), max(values.max(), 0)
  pairs = [(low * a / 100, high * b / 100) for a in (range(2, 101, 2) if low < 0 else [0]) for b in range(2, 101, 2)]
  return min(error(values, *pair) for pair in pairs)


for name in ('bell', 'relu', 'tail', 'lean', 'spike', 'swish', 'mask'):
  values = data(name)
  for method, threshold in (('minmax', np.inf), ('percentile', percentile(values, 99.9)),
                            ('entropy', entropy(values, False)), ('entropy-legacy', entropy(values, True))):
    low, high = max(values.min(), -threshold), min(values.max(), threshold)
    print(name, method, '%.9g %.9g %.6g' % (low, high, error(values, low, high)))
  print(name, 'mse', '0 0 %.6g' % best_range(values))
