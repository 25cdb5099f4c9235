# SPDX-License-Identifier: Apache-2.0
"""Networks that PyTorch's companions define, as modules and as ONNX files; weights are random.

Names: those of torchvision.models ("vit_b_16", "efficientnet_b0", "swin_t", "r3d_18", …), "vit_tiny" (192 channels, 3
heads), "unet" (256x256, 64 to 512 channels), and of transformers "bert" (base, 128 tokens), "gpt2" and "llama_100m"
(with the scores of all words, 128 tokens) and "clip_vit_b32" (what it makes of images).
"""

import pathlib

import torch


class Bert(torch.nn.Module):
    def __init__(self, **sizes):
        super().__init__()
        import transformers
        self.bert = transformers.BertModel(transformers.BertConfig(**sizes))

    def forward(self, ids):
        return self.bert(ids).last_hidden_state


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv = heads, torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)

    def forward(self, x):
        batch, count, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(batch, count, width))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width, 1e-6), torch.nn.LayerNorm(width, 1e-6)
        self.attention = Attention(width, heads)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                       torch.nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(torch.nn.Module):
    """As timm spells it."""

    def __init__(self, width, heads, depth=12):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, width, 16, 16)
        self.token = torch.nn.Parameter(torch.zeros(1, 1, width))
        self.places = torch.nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.blocks = torch.nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = torch.nn.LayerNorm(width, 1e-6), torch.nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Part(torch.nn.Module):
    """One tensor of what a network gives of one input."""

    def __init__(self, network, result, **options):
        super().__init__()
        self.network, self.result, self.options = network, result, options

    def forward(self, x):
        return getattr(self.network(x, **self.options), self.result)


def double(inputs, outputs):
    parts = []
    for before in (inputs, outputs):
        parts += [torch.nn.Conv2d(before, outputs, 3, padding=1), torch.nn.BatchNorm2d(outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


class Unet(torch.nn.Module):
    def __init__(self, widths=(64, 128, 256, 512), classes=2):
        super().__init__()
        self.down = torch.nn.ModuleList(double(i, o) for i, o in zip((3,) + widths, widths))
        turned = widths[::-1]
        self.up = torch.nn.ModuleList(torch.nn.ConvTranspose2d(i, o, 2, 2) for i, o in zip(turned, turned[1:]))
        self.join = torch.nn.ModuleList(double(i, o) for i, o in zip(turned, turned[1:]))
        self.last = torch.nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        kept = []
        for part in self.down:
            x = part(torch.nn.functional.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, join, low in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([low, up(x)], 1))
        return self.last(x)


def of_transformers(name):
    import transformers
    if name == 'gpt2':
        return Part(transformers.GPT2LMHeadModel(transformers.GPT2Config()), 'logits', use_cache=False)
    if name == 'llama_100m':
        sizes = dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
                     num_key_value_heads=12, vocab_size=32000, tie_word_embeddings=True)
        return Part(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)), 'logits', use_cache=False)
    if name == 'clip_vit_b32':
        return Part(transformers.CLIPVisionModel(transformers.CLIPVisionConfig()), 'last_hidden_state')
    return None


def module(name):
    torch.manual_seed(1)
    if name == 'vit_tiny':
        return Vit(192, 3).eval()
    if name == 'bert':
        return Bert().eval()
    if name == 'unet':
        return Unet().eval()
    if name in TOKENS or name == 'clip_vit_b32':
        return of_transformers(name).eval()
    import torchvision
    return torchvision.models.get_model(name, weights=None).eval()


TOKENS = ('bert', 'gpt2', 'llama_100m')
BY_DYNAMO = ('gpt2', 'llama_100m')  # the older exporter has no form for parts of these


def example(name, batch):
    if name in TOKENS:
        return torch.randint(1, 1000, (batch, 128))
    if name == 'r3d_18':
        return torch.rand(batch, 3, 16, 112, 112)
    if name == 'unet':
        return torch.rand(batch, 3, 256, 256)
    return torch.rand(batch, 3, 224, 224)


def exported(name, batch, folder, dynamo=False):
    """The module and its ONNX file."""
    network = module(name)
    dynamo |= name in BY_DYNAMO
    # The exporter knows the parts of attention, not PyTorch's fused form.
    torch.backends.mha.set_fastpath_enabled(False)
    path = str(pathlib.Path(folder) / ('%s_%d.onnx' % (name, batch)))
    with torch.no_grad():
        torch.onnx.export(network, (example(name, batch),), path, opset_version=18 if dynamo else 17, dynamo=dynamo,
                          input_names=['input'])
    torch.backends.mha.set_fastpath_enabled(True)
    return network, path
