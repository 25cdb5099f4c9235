# SPDX-License-Identifier: Apache-2.0
"""More small networks for int8_networks.py: lines of text, speech and speakers, and text by transformers' classes."""

import torch
from torch import nn
from torch.nn import functional as F

from zoo_modules import conv


class Svtr(nn.Module):
    """Lines of text: patches mixed by attention, heights merged on the way."""

    class Mixer(nn.Module):
        def __init__(self, size, heads):
            super().__init__()
            self.heads = heads
            self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
            self.qkv, self.last = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.wide = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

        def forward(self, x):
            n, t, c = x.shape
            q, k, v = self.qkv(self.norms[0](x)).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            share = (q @ k.transpose(2, 3) * (c // self.heads) ** -0.5).softmax(-1)
            x = x + self.last((share @ v).transpose(1, 2).reshape(n, t, c))
            return x + self.wide(self.norms[1](x))

    def __init__(self, sizes=(64, 128, 192), classes=97):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 32, 3, 2, act=nn.GELU), conv(32, sizes[0], 3, 2, act=nn.GELU))
        self.parts = nn.ModuleList(nn.Sequential(*[self.Mixer(size, size // 32) for _ in range(2)]) for size in sizes)
        self.merge = nn.ModuleList(nn.Conv2d(a, b, 3, (2, 1), 1) for a, b in zip(sizes, (*sizes[1:], sizes[-1])))
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, x):
        x = self.stem(x)
        for part, merge in zip(self.parts, self.merge):
            n, c, h, w = x.shape
            x = part(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, c, h, w)
            x = merge(x)
        return self.head(x.mean(2).transpose(1, 2))


class Conformer(nn.Module):
    """Speech: attention between halves of wide layers, then a gated convolution along time."""

    class Block(nn.Module):
        def __init__(self, size, kernel):
            super().__init__()
            def wide():
                return nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.SiLU(),
                                     nn.Linear(4 * size, size))
            self.wide = nn.ModuleList([wide(), wide()])
            self.mix, self.norms = Svtr.Mixer(size, 4), nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
            self.gate = nn.Conv1d(size, 2 * size, 1)
            self.along = nn.Sequential(nn.Conv1d(size, size, kernel, padding=kernel // 2, groups=size),
                                       nn.BatchNorm1d(size), nn.SiLU(), nn.Conv1d(size, size, 1))

        def forward(self, x):
            x = self.mix(x + 0.5 * self.wide[0](x))
            x = x + self.along(F.glu(self.gate(self.norms[0](x).transpose(1, 2)), 1)).transpose(1, 2)
            return self.norms[1](x + 0.5 * self.wide[1](x))

    def __init__(self, size=144, count=3):
        super().__init__()
        self.stem = nn.Sequential(conv(1, 48, 3, 2), conv(48, 48, 3, 2))
        self.even = nn.Linear(48 * 20, size)
        self.body = nn.Sequential(*[self.Block(size, 31) for _ in range(count)])
        self.head = nn.Linear(size, 128)

    def forward(self, x):
        x = self.stem(x[:, None])
        x = self.even(x.permute(0, 3, 1, 2).flatten(2))
        return self.head(self.body(x)).log_softmax(-1)


class Ecapa(nn.Module):
    """Speakers: parts of the channels one behind the other along time, gates, statistics under attention."""

    class Block(nn.Module):
        def __init__(self, size, dilation, scale=8):
            super().__init__()
            part = size // scale
            def layer(a, b, kernel=1):
                pad = dilation * (kernel - 1) // 2
                return nn.Sequential(nn.Conv1d(a, b, kernel, padding=pad, dilation=dilation if kernel > 1 else 1),
                                     nn.ReLU(), nn.BatchNorm1d(b))
            self.scale = scale
            self.first, self.last = layer(size, size), layer(size, size)
            self.parts = nn.ModuleList(layer(part, part, 3) for _ in range(scale - 1))
            self.gate = nn.Sequential(nn.Conv1d(size, 64, 1), nn.ReLU(), nn.Conv1d(64, size, 1), nn.Sigmoid())

        def forward(self, x):
            pieces = self.first(x).chunk(self.scale, 1)
            found = [pieces[0]]
            for at, part in enumerate(self.parts):
                found.append(part(pieces[at + 1] if at == 0 else pieces[at + 1] + found[-1]))
            y = self.last(torch.cat(found, 1))
            return x + y * self.gate(y.mean(2, keepdim=True))

    def __init__(self, size=256):
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(80, size, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(size))
        self.parts = nn.ModuleList(self.Block(size, dilation) for dilation in (2, 3, 4))
        self.join = nn.Sequential(nn.Conv1d(3 * size, 768, 1), nn.ReLU())
        self.attend = nn.Sequential(nn.Conv1d(768, 128, 1), nn.Tanh(), nn.Conv1d(128, 768, 1))
        self.head = nn.Linear(2 * 768, 192)

    def forward(self, x):
        x, found = self.first(x), []
        for part in self.parts:
            x = part(x)
            found.append(x)
        x = self.join(torch.cat(found, 1))
        share = self.attend(x).softmax(2)
        mean = (x * share).sum(2)
        spread = ((x * x * share).sum(2) - mean * mean).clamp(1e-4).sqrt()
        return self.head(torch.cat([mean, spread], 1))


class QuartzNet(nn.Module):
    """Speech: separable layers along time that grow longer, with residuals."""

    class Block(nn.Module):
        def __init__(self, inputs, size, kernel, count=3):
            super().__init__()
            def layer(a):
                return [nn.Conv1d(a, a, kernel, padding=kernel // 2, groups=a, bias=False),
                        nn.Conv1d(a, size, 1, bias=False), nn.BatchNorm1d(size)]
            parts = [one for at in range(count) for one in (*layer(inputs if at == 0 else size), nn.ReLU())]
            self.body = nn.Sequential(*parts[:-1])
            self.past = nn.Sequential(nn.Conv1d(inputs, size, 1, bias=False), nn.BatchNorm1d(size))

        def forward(self, x):
            return F.relu(self.body(x) + self.past(x))

    def __init__(self):
        super().__init__()
        first = [nn.Conv1d(64, 64, 33, 2, 16, groups=64, bias=False), nn.Conv1d(64, 256, 1, bias=False)]
        blocks = [(256, 256, 33), (256, 256, 39), (256, 512, 51), (512, 512, 63)]
        self.body = nn.Sequential(*first, nn.BatchNorm1d(256), nn.ReLU(), *[self.Block(*one) for one in blocks])
        self.head = nn.Conv1d(512, 29, 1)

    def forward(self, x):
        return self.head(self.body(x)).log_softmax(1)


class Text(nn.Module):
    """What a class of transformers makes of vectors of tokens: embeddings are looked up by the caller."""

    def __init__(self, name, **sizes):
        super().__init__()
        import transformers
        config = getattr(transformers, f'{name}Config')(attn_implementation='eager', vocab_size=1000, **sizes)
        self.net = getattr(transformers, f'{name}Model')(config)

    def forward(self, x):
        return self.net(inputs_embeds=x).last_hidden_state


def tiny_bert():
    return Text('Bert', hidden_size=312, num_hidden_layers=4, num_attention_heads=12, intermediate_size=1200)


def small_bert():
    return Text('Bert', hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)


def distil_bert():
    return Text('DistilBert', dim=768, n_layers=2, n_heads=12, hidden_dim=3072)


def mobile_bert():
    return Text('MobileBert', num_hidden_layers=4, embedding_size=128)


class Tagger(nn.Module):
    """Kinds of words, by an LSTM in both directions over their vectors."""

    def __init__(self):
        super().__init__()
        self.past = nn.LSTM(128, 128, bidirectional=True, batch_first=True)
        self.head = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 20))

    def forward(self, x):
        return self.head(self.past(x)[0])


class Segformer(nn.Module):
    def __init__(self):
        super().__init__()
        import transformers
        self.net = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=19))

    def forward(self, x):
        return self.net(x).logits
