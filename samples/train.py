#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the sample detector on images generated beside the training; writes detector.pt and detector.onnx.

    train.py --out DIR --minutes 8          a GPU and a dozen cores
    train.py --out DIR --minutes 0.3 --images 512 --batch 32      a smoke run

The schedule follows the clock, so that a run always ends with its learning rate spent.
"""
import argparse
import copy
import math
import mmap
import multiprocessing
import os
import time

import cv2
import numpy as np

import generate

SIZE = 320
MOST = 40  # objects kept of one image


def training_image(seed, index):
  """(RGB uint8 [SIZE,SIZE,3], objects): square or letterboxed, sometimes as JPEG would leave it."""
  rng = np.random.default_rng([seed, 3, index])
  width, height = SIZE, SIZE
  if rng.random() < 0.35:
    height = int(rng.choice((180, 214, 240, 270)))
  image, objects = generate.make_scene(rng, height, width)
  if rng.random() < 0.5:
    quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(70, 96))]
    image = cv2.imdecode(cv2.imencode('.jpg', image, quality)[1], cv2.IMREAD_COLOR)
  top = (SIZE - height) // 2
  whole = np.full((SIZE, SIZE, 3), 114, np.uint8)
  whole[top:top + height] = image[..., ::-1]
  return whole, [(o['class'], o['box'][0], o['box'][1] + top, o['box'][2], o['box'][3] + top) for o in objects]


class Stock:
  """Images made by worker processes into shared memory; `ready[w]` of worker w's share are finished."""

  def __init__(self, count, workers, seed):
    self.share = -(-count // workers)
    self.workers = workers
    rows = self.share * workers
    self.images = np.frombuffer(mmap.mmap(-1, rows * SIZE * SIZE * 3), np.uint8).reshape(rows, SIZE, SIZE, 3)
    self.objects = np.frombuffer(mmap.mmap(-1, rows * MOST * 5 * 4), np.float32).reshape(rows, MOST, 5)
    self.ready = np.frombuffer(mmap.mmap(-1, workers * 8), np.int64)
    self.processes = [multiprocessing.get_context('fork').Process(target=self._work, args=(w, seed), daemon=True)
                      for w in range(workers)]
    for process in self.processes:
      process.start()

  def _work(self, worker, seed):
    cv2.setNumThreads(1)
    for k in range(self.share):
      row = worker * self.share + k
      image, objects = training_image(seed, row)
      self.images[row] = image
      self.objects[row] = -1
      if objects:
        self.objects[row, :min(len(objects), MOST)] = objects[:MOST]
      self.ready[worker] = k + 1


def turned(torch, images, boxes, way):
  """One of the eight symmetries of the square; images [n,h,w,3], boxes [n,m,4]."""
  x1, y1, x2, y2 = boxes.unbind(-1)
  if way & 1:
    images, x1, x2 = images.flip(2), SIZE - x2, SIZE - x1
  if way & 2:
    images, y1, y2 = images.flip(1), SIZE - y2, SIZE - y1
  if way & 4:
    images, x1, y1, x2, y2 = images.transpose(1, 2), y1, x1, y2, x2
  return images, torch.stack((x1, y1, x2, y2), -1)


def follow(torch, average, model, keep):
  """Moves the running average of the weights towards those of now."""
  with torch.no_grad():
    mine, theirs = list(average.state_dict().values()), list(model.state_dict().values())
    floats = [(m, t) for m, t in zip(mine, theirs) if m.is_floating_point()]
    torch._foreach_lerp_([m for m, _ in floats], [t.to(m.dtype) for m, t in floats], 1 - keep)


def train(args, stock):
  import torch
  from loss import detection_loss
  from model import Detector
  device = 'cuda' if torch.cuda.is_available() else 'cpu'
  torch.manual_seed(args.seed)
  torch.backends.cudnn.benchmark = True
  torch.set_float32_matmul_precision('high')
  model = Detector(len(generate.NAMES), SIZE).to(device, memory_format=torch.channels_last).train()
  if args.init:
    model.load_state_dict(torch.load(args.init, map_location=device))
  average = copy.deepcopy(model).eval().requires_grad_(False)
  print(f'{sum(p.numel() for p in model.parameters()) / 1e6:.3f} M parameters on {device}')
  decay = [p for p in model.parameters() if p.ndim > 1 and p.requires_grad]
  plain = [p for p in model.parameters() if p.ndim <= 1 and p.requires_grad]
  optimiser = torch.optim.AdamW([{'params': decay, 'weight_decay': 0.02}, {'params': plain, 'weight_decay': 0.0}],
                                lr=args.lr, betas=(0.9, 0.99), fused=device == 'cuda')
  images = torch.zeros(stock.images.shape, dtype=torch.uint8, device=device)
  objects = torch.full(stock.objects.shape, -1.0, device=device)
  have = np.zeros(stock.workers, np.int64)
  rows = torch.zeros(0, dtype=torch.long, device=device)

  def restock():
    nonlocal rows
    fresh = []
    for w, upto in enumerate(stock.ready.copy()):
      span = slice(w * stock.share + int(have[w]), w * stock.share + int(upto))
      if span.stop > span.start:
        images[span] = torch.from_numpy(stock.images[span]).to(device)
        objects[span] = torch.from_numpy(stock.objects[span]).to(device)
        fresh.append(torch.arange(span.start, span.stop, device=device))
      have[w] = upto
    rows = torch.cat([rows] + fresh)

  began = time.time()
  while len(rows) < min(args.head_start, stock.share * stock.workers):
    time.sleep(0.3)
    restock()
  print(f'{len(rows)} images after {time.time() - began:.0f} s')
  start = time.time()
  length = args.minutes * 60 - (start - began)
  step, seen, sums, restocked = 0, 0, 0, start
  while True:
    now = time.time()
    done = (now - start) / length
    if done >= 1:
      break
    if now - restocked > 4 and len(rows) < len(images):
      restock()
      restocked = time.time()
    warm = min(1.0, (step + 1) / 300)
    for group in optimiser.param_groups:
      group['lr'] = args.lr * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
    pick = rows[torch.randint(len(rows), (args.batch,), device=device)]
    images, found = images[pick], objects[pick]
    found = found[:, :int((found[..., 0] >= 0).sum(1).max().clamp(1))]
    halves = [turned(torch, i, t[..., 1:], way)
              for way, (i, t) in enumerate(zip(images.chunk(8), found.chunk(8)))]
    images = torch.cat([h[0] for h in halves]).permute(0, 3, 1, 2).to(torch.float32).div_(255)
    boxes = torch.cat([h[1] for h in halves])
    images = images.contiguous(memory_format=torch.channels_last)
    with torch.autocast(device, dtype=torch.bfloat16):
      raw = model(images)
    loss, terms = detection_loss(raw, model.head, found[..., 0].clamp(0).long(), boxes, found[..., 0] >= 0)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimiser.step()
    follow(torch, average, model, 0.9995 * (1 - math.exp(-(step + 1) / 800)))
    step, seen, sums = step + 1, seen + args.batch, sums + torch.stack(terms)
    if step % args.report == 0:
      box, score, dfl = (sums / args.report).tolist()
      sums = 0
      print(f'{time.time() - start:5.0f} s  step {step:6d}  {seen / (time.time() - start):6.0f} img/s  '
            f'{len(rows)} images  box {box:.4f}  score {score:.4f}  dfl {dfl:.4f}')
    if step % (args.report * 10) == 0:
      torch.save(average.state_dict(), os.path.join(args.out, 'detector.pt'))
  torch.save(average.state_dict(), os.path.join(args.out, 'detector.pt'))


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--out', required=True)
  parser.add_argument('--minutes', type=float, default=8.0, help='of training, the wait for images included')
  parser.add_argument('--images', type=int, default=120000, help='to generate at most')
  parser.add_argument('--head-start', type=int, default=6000, help='images to wait for before the first step')
  parser.add_argument('--workers', type=int, default=max(1, (os.cpu_count() or 2) - 1))
  parser.add_argument('--batch', type=int, default=256, help='a multiple of 8')
  parser.add_argument('--lr', type=float, default=3e-3)
  parser.add_argument('--seed', type=int, default=1)
  parser.add_argument('--init', help='a detector.pt to go on from')
  parser.add_argument('--report', type=int, default=100)
  args = parser.parse_args()
  os.makedirs(args.out, exist_ok=True)
  stock = Stock(args.images, args.workers, args.seed)
  try:
    train(args, stock)
  finally:
    for process in stock.processes:
      process.terminate()
  import export
  export.export(os.path.join(args.out, 'detector.pt'), os.path.join(args.out, 'detector.onnx'))


if __name__ == '__main__':
  main()
