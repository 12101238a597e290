"""The model that is trained: Qwen3's block, as small as it can be and still reason."""
import math

import torch
import torch.nn.functional as F
from layout import Shape
from torch import Tensor, nn


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rotary_tables(shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosines and sines [position, element]; element i turns with element i + half."""
    frequencies = shape.rope_base ** -(torch.arange(0, shape.head_dim, 2) / shape.head_dim)
    angles = torch.arange(shape.context)[:, None] * frequencies[None, :]
    angles = torch.cat((angles, angles), dim=1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.attn_norm = nn.Parameter(torch.ones(shape.embed))
        self.attn_q = matrix(queries, shape.embed)
        self.attn_k = matrix(keys, shape.embed)
        self.attn_v = matrix(keys, shape.embed)
        self.attn_q_norm = nn.Parameter(torch.ones(shape.head_dim))
        self.attn_k_norm = nn.Parameter(torch.ones(shape.head_dim))
        # What is added to the stream begins small, or its variance would grow with the depth.
        self.attn_output = matrix(shape.embed, queries, 1 / math.sqrt(2 * shape.layers))
        self.ffn_norm = nn.Parameter(torch.ones(shape.embed))
        self.ffn_gate = matrix(shape.ffn, shape.embed)
        self.ffn_up = matrix(shape.ffn, shape.embed)
        self.ffn_down = matrix(shape.embed, shape.ffn, 1 / math.sqrt(2 * shape.layers))

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rows, length, _ = x.shape
        eps, head_dim = self.shape.rms_eps, self.shape.head_dim

        def heads(weight: Tensor) -> Tensor:
            return F.linear(x, weight).view(rows, length, -1, head_dim).transpose(1, 2)

        q = rotate(rms_norm(heads(self.attn_q), self.attn_q_norm, eps), cos, sin)
        k = rotate(rms_norm(heads(self.attn_k), self.attn_k_norm, eps), cos, sin)
        v = heads(self.attn_v)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return F.linear(out.transpose(1, 2).reshape(rows, length, -1), self.attn_output)

    def feed_forward(self, x: Tensor) -> Tensor:
        gate = F.silu(F.linear(x, self.ffn_gate)) * F.linear(x, self.ffn_up)
        return F.linear(gate, self.ffn_down)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        eps = self.shape.rms_eps
        x = x + self.attend(rms_norm(x, self.attn_norm, eps), cos, sin)
        return x + self.feed_forward(rms_norm(x, self.ffn_norm, eps))


def matrix(rows: int, columns: int, gain: float = 1.0) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * (gain / math.sqrt(columns)))


class Reasoner(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Parameter(torch.randn(shape.vocab, shape.embed) * 0.02)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.Parameter(torch.ones(shape.embed))
        cos, sin = rotary_tables(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens: Tensor, places: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and correctness of the greedy guess at some places of the flattened tokens.

        Only the places that are learned from get logits: neither prompts nor padding do.
        """
        length = tokens.shape[1]
        cos, sin = self.cos[:length], self.sin[:length]
        x = F.embedding(tokens, self.token_embd)
        for block in self.blk:
            x = block(x, cos, sin)
        x = rms_norm(x.flatten(0, 1)[places], self.output_norm, self.shape.rms_eps)
        logits = F.linear(x, self.token_embd)
        losses = F.cross_entropy(logits, targets, reduction="none")
        return losses, logits.detach().argmax(-1) == targets

    def gguf_names(self) -> dict[str, nn.Parameter]:
        """The parameters under the names that they have in a GGUF file."""
        return {f"{name}.weight": p for name, p in self.named_parameters()}
