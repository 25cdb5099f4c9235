# SPDX-License-Identifier: Apache-2.0
"""Networks that PyTorch's companions define, as modules and as ONNX files; weights are random.

Names: those of torchvision.models ("vit_b_16", "efficientnet_b0", "swin_t", …), "vit_tiny" (192 channels, 3 heads),
and "bert" (base, 128 tokens, of transformers).
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


def module(name):
    torch.manual_seed(1)
    if name == 'vit_tiny':
        return Vit(192, 3).eval()
    if name == 'bert':
        return Bert().eval()
    import torchvision
    return torchvision.models.get_model(name, weights=None).eval()


def example(name, batch):
    if name == 'bert':
        return torch.randint(1, 1000, (batch, 128))
    return torch.rand(batch, 3, 224, 224)


def exported(name, batch, folder, dynamo=False):
    """The module and its ONNX file."""
    network = module(name)
    # The exporter knows the parts of attention, not PyTorch's fused form.
    torch.backends.mha.set_fastpath_enabled(False)
    path = str(pathlib.Path(folder) / ('%s_%d.onnx' % (name, batch)))
    with torch.no_grad():
        torch.onnx.export(network, (example(name, batch),), path, opset_version=18 if dynamo else 17, dynamo=dynamo,
                          input_names=['input'])
    torch.backends.mha.set_fastpath_enabled(True)
    return network, path
