#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes networks of 90 families as ONNX, with random weights, and samples to calibrate INT8 on: for cpu_time.py.

MODEL.npz has the inputs that are timed, MODEL.data/ eight more samples. Weights are random but for BatchNorm, whose
statistics are those of the inputs (zoo.py); images are smooth noise. A race of them says nothing of accuracy by labels.

  pip install torch torchvision timm onnx numpy
  bench/int8_networks.py nets [--only crnn,swin]
  PYTHONPATH=build/release/python bench/cpu_time.py nets/*.onnx --precision int8 --tenon build/release/bin/tenon
"""

import argparse
import pathlib
import warnings

import numpy as np
import torch
from torch.nn import functional as F

from int8_box_modules import Anchorless, LiteHrNet, Nano, Queries
from int8_dense_modules import Edsr, Enet, ErfNet, Espcn, IbnNet, Imdn, PidNet
from int8_field_modules import Areas, Depth, Dilated, Matting, RawSound, Rcan
from int8_modules import (Audio, BiFpn, BiSeNet, Clip3d, Crnn, DbNet, Hourglass, LiteSeg, OsNet, Shuffled, UNet)
from int8_small_modules import Coordinates, Distributions, FastScnn, Keywords
from int8_text_modules import (Conformer, Ecapa, QuartzNet, Segformer, Svtr, Tagger, distil_bert, mobile_bert,
                               small_bert, tiny_bert)
import zoo

SAMPLES = 8


def of_timm(name, size=224, fused=False):
    def make():
        import timm
        model = timm.create_model(name, pretrained=False, exportable=True)
        return timm.utils.model.reparameterize_model(model.eval()) if fused else model
    return make, (3, size, size)


class Lraspp(torch.nn.Module):
    """Segmentation on MobileNetV3, of torchvision."""

    def __init__(self):
        super().__init__()
        from torchvision.models import segmentation
        self.net = segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=21)

    def forward(self, x):
        return self.net(x)['out']


NETWORKS = {
    'regnety_004': of_timm('regnety_004'), 'regnetx_008': of_timm('regnetx_008'),
    'repvgg_a0': of_timm('repvgg_a0', fused=True), 'mobileone_s0': of_timm('mobileone_s0', fused=True),
    'ghostnet_100': of_timm('ghostnet_100'), 'lcnet_100': of_timm('lcnet_100'),
    'mobilenetv3_large': of_timm('mobilenetv3_large_100'), 'mobilenetv4_small': of_timm('mobilenetv4_conv_small'),
    'resnext50_32x4d': of_timm('resnext50_32x4d'), 'densenet121': of_timm('densenet121'),
    'hrnet_w18_small': of_timm('hrnet_w18_small'), 'dla34': of_timm('dla34'),
    'vovnet19b_dw': of_timm('ese_vovnet19b_dw'), 'cspresnet50': of_timm('cspresnet50'),
    'efficientnet_b0': of_timm('efficientnet_b0'), 'res2net50': of_timm('res2net50_14w_8s'),
    'convnext_atto': of_timm('convnext_atto'), 'deit_tiny': of_timm('deit_tiny_patch16_224'),
    'swin_tiny': of_timm('swin_tiny_patch4_window7_224'), 'poolformer_s12': of_timm('poolformer_s12'),
    'edgenext_xx_small': of_timm('edgenext_xx_small'),
    'bisenet': (BiSeNet, (3, 256, 512)), 'pp_liteseg': (LiteSeg, (3, 256, 512)), 'bifpn': (BiFpn, (3, 256, 256)),
    'dbnet': (DbNet, (3, 320, 320)), 'hourglass': (Hourglass, (3, 256, 192)), 'osnet': (OsNet, (3, 256, 128)),
    'crnn': (Crnn, (1, 32, 160)), 'pixel_shuffle': (Shuffled, (3, 96, 96)), 'audio': (Audio, (64, 400)),
    'unet': (lambda: UNet(2, 3, (24, 48, 96, 160)), (3, 160, 160)),
    'repvit_m0_9': of_timm('repvit_m0_9', fused=True), 'fastvit_t8': of_timm('fastvit_t8', 256, fused=True),
    'mobilevitv2_050': of_timm('mobilevitv2_050', 256), 'pvt_v2_b0': of_timm('pvt_v2_b0'),
    'levit_128s': of_timm('levit_128s'), 'selecsls42b': of_timm('selecsls42b'), 'mixer_s32': of_timm('mixer_s32_224'),
    'resnest14d': of_timm('resnest14d'), 'efficientformerv2_s0': of_timm('efficientformerv2_s0'),
    'starnet_s1': of_timm('starnet_s1'), 'vgg11_bn': of_timm('vgg11_bn'), 'lraspp': (Lraspp, (3, 320, 320)),
    'lite_hrnet': (LiteHrNet, (3, 256, 192)), 'ibn_net': (IbnNet, (3, 256, 128)), 'pidnet': (PidNet, (3, 256, 512)),
    'erfnet': (ErfNet, (3, 128, 256)), 'enet': (Enet, (3, 256, 512)), 'segformer_b0': (Segformer, (3, 256, 256)),
    'anchorless': (Anchorless, (3, 320, 320)), 'nano': (Nano, (3, 320, 320)), 'queries': (Queries, (3, 320, 320)),
    'espcn': (Espcn, (1, 128, 128)), 'edsr': (Edsr, (3, 64, 64)), 'imdn': (Imdn, (3, 96, 96)),
    'svtr': (Svtr, (3, 32, 256)), 'quartznet': (QuartzNet, (64, 400)), 'conformer': (Conformer, (80, 400)),
    'ecapa': (Ecapa, (80, 300)), 'tiny_bert': (tiny_bert, (64, 312)), 'distil_bert': (distil_bert, (64, 768)),
    'mobile_bert': (mobile_bert, (64, 128)), 'small_bert': (small_bert, (64, 512)), 'tagger': (Tagger, (48, 128)),
    'resnet18': of_timm('resnet18'), 'mobilenetv2_100': of_timm('mobilenetv2_100'),
    'repghostnet_050': of_timm('repghostnet_050', fused=True), 'fbnetc_100': of_timm('fbnetc_100'),
    'rexnet_100': of_timm('rexnet_100'), 'gernet_s': of_timm('gernet_s'),
    'mobilevit_xxs': of_timm('mobilevit_xxs', 256), 'efficientvit_b0': of_timm('efficientvit_b0'),
    'visformer_tiny': of_timm('visformer_tiny'),
    'distributions': (Distributions, (3, 320, 320)),
    'fast_scnn': (FastScnn, (3, 256, 512)), 'coordinates': (Coordinates, (3, 192, 192)),
    'keywords': (Keywords, (40, 200)),
    'matting': (Matting, (3, 256, 256)), 'depth': (Depth, (3, 128, 256)), 'rcan': (Rcan, (3, 64, 64)),
    'dilated': (Dilated, (3, 256, 256)), 'raw_sound': (RawSound, (1, 8000)), 'areas': (Areas, (3, 256, 256)),
    'hgnetv2_b0': of_timm('hgnetv2_b0'), 'mambaout_femto': of_timm('mambaout_femto'),
    'tiny_vit_5m': of_timm('tiny_vit_5m_224'), 'inception_next_atto': of_timm('inception_next_atto'),
    'resmlp_12': of_timm('resmlp_12_224'), 'semnasnet_075': of_timm('semnasnet_075'),
    'tinynet_c': of_timm('tinynet_c', 184), 'coat_lite_tiny': of_timm('coat_lite_tiny'),
    'swiftformer_xs': of_timm('swiftformer_xs'),
    'unet_3d': (lambda: UNet(3, 1, (16, 32, 64)), (1, 32, 48, 48)), 'video': (Clip3d, (3, 8, 96, 96)),
}


def sample(shape, generator):
    """Noise at several sizes, as images have it."""
    x = torch.zeros(1, *shape)
    kinds = {2: 'linear', 3: 'bilinear', 4: 'trilinear'}
    for part in (1, 4, 16):
        sizes = [max(1, size // part) for size in shape[1:]]
        noise = torch.randn(1, shape[0], *sizes, generator=generator)
        x += F.interpolate(noise, size=shape[1:], mode=kinds[len(shape)]) * part ** 0.5 * 0.2
    return x


def write(name, folder):
    torch.manual_seed(1)
    make, shape = NETWORKS[name]
    generator = torch.Generator().manual_seed(2)
    module = make().eval()
    samples = [sample(shape, generator) for _ in range(SAMPLES + 1)]
    zoo.enliven(module, (samples[0],))
    path = folder / f'{name}.onnx'
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        torch.onnx.export(module, (samples[0],), str(path), opset_version=17, dynamo=False, input_names=['input0'])
    data = path.with_suffix('.data')
    data.mkdir(exist_ok=True)
    for at, one in enumerate(samples[1:]):
        np.savez(data / f'{at}.npz', input0=one.numpy())
    np.savez(path.with_suffix('.npz'), input0=samples[0].numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--only', default='', help='parts of names, with commas between')
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    words = [word for word in options.only.split(',') if word]
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # the exporter knows the parts of attention alone
    for name in NETWORKS:
        if not words or any(word in name for word in words):
            try:
                write(name, options.folder)
                print(name, flush=True)
            except Exception as error:  # what a version of the exporter cannot write
                print(f'{name}: {str(error).splitlines()[0][:200]}', flush=True)


if __name__ == '__main__':
    main()
