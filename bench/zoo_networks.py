# SPDX-License-Identifier: Apache-2.0
"""The networks of zoo.py: a list of names, families and functions that give a module and its example inputs.

Definitions come from torchvision, timm and transformers, a few small ones from zoo_modules.py; all weights are random.
"""

import dataclasses
import typing

import torch

import zoo_modules as own


@dataclasses.dataclass
class Network:
    name: str
    family: str
    make: typing.Callable  # of a batch: (module, tuple of inputs)


NETWORKS = []


def image(batch, height, width=None, channels=3):
    return torch.rand(batch, channels, height, width or height)


def tokens(batch, count, vocabulary=1000):
    return torch.randint(1, vocabulary, (batch, count))


def add(family, name, make):
    NETWORKS.append(Network(name, family, make))


def vision(family, *names, size=224):
    """Networks of torchvision.models for images."""
    def maker(name):
        def make(batch):
            import torchvision
            none = {'weights_backbone': None} if family == 'segmentation' else {}
            return torchvision.models.get_model(name, weights=None, **none), (image(batch, size),)
        return make
    for name in names:
        add(family, name, maker(name))


def timm_(family, *names, size=224):
    def maker(name):
        def make(batch):
            import timm
            return timm.create_model(name, pretrained=False, exportable=True), (image(batch, size),)
        return make
    for name in names:
        add(family, name, maker(name))


def detection(*names, size=320):
    """Two stages and one, of one image each; sizes in the middle depend on the image."""
    def maker(name):
        def make(_):
            import torchvision
            sizes = {} if 'ssd' in name else {'min_size': size, 'max_size': size}
            module = torchvision.models.get_model(name, weights=None, weights_backbone=None, **sizes)
            return own.Detector(module), (torch.rand(3, size, size),)
        return make
    for name in names:
        add('detection', name, maker(name))


def transformer(family, name, model, config, inputs, result='last_hidden_state', **sizes):
    """A network of transformers by the names of its class and of its sizes' class."""
    def make(batch):
        import transformers
        made = getattr(transformers, config)(attn_implementation='eager', **sizes)
        return own.Wrapped(getattr(transformers, model)(made), result), inputs(batch)
    add(family, name, make)


def small(family, name, module, *inputs):
    add(family, name, lambda batch: (module(), tuple(make(batch) for make in inputs)))


def whisper():
    sizes = dict(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, decoder_layers=4,
                 decoder_attention_heads=6, decoder_ffn_dim=1536)

    def make(batch):
        import transformers
        made = transformers.WhisperConfig(attn_implementation='eager', **sizes)
        return own.Wrapped(transformers.WhisperModel(made).encoder), (torch.randn(batch, 80, 3000),)
    add('speech', 'whisper_tiny_encoder', make)


def t5():
    def make(batch):
        import transformers
        made = transformers.T5Config(d_model=512, d_ff=1024, num_layers=4, num_heads=8, d_kv=64)
        return own.Wrapped(transformers.T5EncoderModel(made)), (tokens(batch, 128),)
    add('language encoder', 't5_encoder', make)


def clip():
    def make(batch):
        import transformers
        text = dict(num_hidden_layers=4, hidden_size=256, intermediate_size=1024, num_attention_heads=4)
        sight = dict(num_hidden_layers=4, hidden_size=384, intermediate_size=1536, num_attention_heads=6)
        made = transformers.CLIPConfig(text_config=text, vision_config=sight, attn_implementation='eager')
        return own.Clip(transformers.CLIPModel(made)), (tokens(batch, 32, 40000), image(batch, 224))
    add('text and images', 'clip', make)


def flow():
    def make(batch):
        import torchvision
        return torchvision.models.optical_flow.raft_small(weights=None), (image(batch, 128), image(batch, 128))
    add('flow and video', 'raft_small', make)
    for name in ('r3d_18', 'mc3_18', 's3d'):
        def video(batch, name=name):
            import torchvision
            frames = 16 if name == 's3d' else 8
            side = 224 if name == 's3d' else 112
            return torchvision.models.get_model(name, weights=None), (torch.rand(batch, 3, frames, side, side),)
        add('flow and video', name, video)


vision('plain', 'alexnet', 'vgg11', 'squeezenet1_1')
vision('residual', 'resnet18', 'resnet50', 'resnext50_32x4d')
vision('mobile', 'mobilenet_v2', 'mobilenet_v3_large', 'mnasnet1_0', 'shufflenet_v2_x1_0')
timm_('mobile', 'ghostnet_100', 'lcnet_100', 'mixnet_s', 'tinynet_a')
vision('searched', 'efficientnet_b0', 'regnet_y_400mf', 'regnet_x_800mf')
timm_('searched', 'efficientnet_lite0', 'fbnetc_100', 'eca_nfnet_l0')
vision('dense and inception', 'densenet121', 'googlenet')
vision('dense and inception', 'inception_v3', size=299)
timm_('dense and inception', 'dla34', 'hrnet_w18_small', 'res2net50_14w_8s')
vision('convnext', 'convnext_tiny')
timm_('convnext', 'convnextv2_atto', 'repvgg_a0', 'edgenext_xx_small')
vision('vision transformer', 'swin_t')
timm_('vision transformer', 'vit_small_patch16_224', 'deit_tiny_patch16_224', 'levit_128', 'xcit_nano_12_p16_224',
      'pvt_v2_b0', 'mixer_s32_224', 'poolformer_s12')
timm_('hybrid', 'coatnet_nano_rw_224', 'efficientformerv2_s0', 'efficientvit_b0')
timm_('hybrid', 'mobilevit_s', 'fastvit_t8', 'maxvit_nano_rw_256', size=256)
vision('segmentation', 'deeplabv3_mobilenet_v3_large', 'lraspp_mobilenet_v3_large', 'fcn_resnet50')
small('segmentation', 'dilated_segmenter', own.DilatedSegmenter, lambda batch: image(batch, 256, 512))
transformer('segmentation', 'segformer_b0', 'SegformerForSemanticSegmentation', 'SegformerConfig',
            lambda batch: (image(batch, 256),), 'logits')
small('enhancement', 'curve_enhancer', own.CurveEnhancer, lambda batch: image(batch, 240, 320))
small('enhancement', 'unet_enhancer', own.UnetEnhancer, lambda batch: image(batch, 240, 320))
small('enhancement', 'super_resolution', own.SuperResolution, lambda batch: image(batch, 160, 160))
small('enhancement', 'compact_super_resolution', own.CompactSuperResolution, lambda batch: image(batch, 64))
small('residual', 'face_resnet', own.FaceResNet, lambda batch: image(batch, 112))
small('segmentation', 'segnet', own.SegNet, lambda batch: image(batch, 64))
for kind, norm in (('batch', torch.nn.BatchNorm3d), ('group', lambda width: torch.nn.GroupNorm(4, width)),
                   ('instance', lambda width: torch.nn.InstanceNorm3d(width, affine=True))):
    small('volumes', f'unet3d_{kind}_norm', lambda norm=norm: own.Volumes(norm),
          lambda batch: torch.randn(batch, 1, 32, 48, 48))
small('volumes', 'vnet_small', own.ResidualVolumes, lambda batch: torch.randn(batch, 1, 32, 48, 48))
detection('fasterrcnn_resnet50_fpn', 'fasterrcnn_mobilenet_v3_large_320_fpn', 'retinanet_resnet50_fpn',
          'fcos_resnet50_fpn', 'ssdlite320_mobilenet_v3_large')
flow()
transformer('language encoder', 'bert', 'BertModel', 'BertConfig', lambda batch: (tokens(batch, 128),),
            num_hidden_layers=4)
transformer('language encoder', 'distilbert', 'DistilBertModel', 'DistilBertConfig',
            lambda batch: (tokens(batch, 64),), n_layers=3)
transformer('language encoder', 'deberta_v2', 'DebertaV2Model', 'DebertaV2Config', lambda batch: (tokens(batch, 64),),
            num_hidden_layers=3, hidden_size=384, intermediate_size=1536, num_attention_heads=6, vocab_size=8000,
            relative_attention=True, pos_att_type=['p2c', 'c2p'], max_relative_positions=-1)
t5()
transformer('language decoder', 'gpt2', 'GPT2Model', 'GPT2Config', lambda batch: (tokens(batch, 64),), n_layer=4,
            use_cache=False)
transformer('language decoder', 'llama', 'LlamaModel', 'LlamaConfig', lambda batch: (tokens(batch, 64),),
            hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8,
            num_key_value_heads=4, vocab_size=8000, use_cache=False)
transformer('language decoder', 'qwen3', 'Qwen3Model', 'Qwen3Config', lambda batch: (tokens(batch, 64),),
            hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8, head_dim=64,
            num_key_value_heads=4, vocab_size=8000, use_cache=False)
whisper()
transformer('speech', 'wav2vec2', 'Wav2Vec2Model', 'Wav2Vec2Config', lambda batch: (torch.randn(batch, 16000),),
            num_hidden_layers=3)
clip()
small('recurrent', 'lstm', own.Lstm, lambda batch: torch.randn(batch, 64, 80))
small('recurrent', 'gru', own.Gru, lambda batch: torch.randn(batch, 64, 80))

# The networks of the table in results/: some of every family.
TABLE = set("""
    alexnet squeezenet1_1 resnet18 resnet50 resnext50_32x4d mobilenet_v2 mobilenet_v3_large shufflenet_v2_x1_0
    ghostnet_100 mixnet_s efficientnet_b0 regnet_y_400mf efficientnet_lite0 densenet121 googlenet inception_v3
    convnext_tiny repvgg_a0 edgenext_xx_small swin_t vit_small_patch16_224 levit_128 xcit_nano_12_p16_224
    poolformer_s12 mobilevit_s fastvit_t8 efficientvit_b0 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large
    dilated_segmenter segformer_b0 curve_enhancer unet_enhancer fasterrcnn_resnet50_fpn
    fasterrcnn_mobilenet_v3_large_320_fpn unet3d_batch_norm ssdlite320_mobilenet_v3_large raft_small r3d_18 bert
    distilbert deberta_v2 t5_encoder gpt2 llama whisper_tiny_encoder wav2vec2 clip lstm gru
""".split())
