"""Decompositions that PyTorch does not have: operators that it runs as one where nothing is differentiated."""
from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor
from torch.nn import functional

_AS_IT_IS, _OF_KEYS = 0, 1  # kinds of masks: [L, L] and [batch, L]; true hides


def _attended(x: Tensor, heads: int, weights: tuple[Tensor, Tensor, Tensor, Tensor], mask: Optional[Tensor],
              kind: Optional[int]) -> Tensor:
    batch, length, width = x.shape
    qkv = functional.linear(x, weights[0], weights[1]).reshape(batch, length, 3, heads, width // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    if mask is not None:
        if kind == _OF_KEYS:
            mask = mask.reshape(batch, 1, 1, length)
        elif kind != _AS_IT_IS and mask.dim() == 3:
            mask = mask.reshape(batch, heads, length, length)
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=x.dtype).masked_fill(mask, float("-inf"))
    out = functional.scaled_dot_product_attention(q, k, v, mask)
    return functional.linear(out.transpose(1, 2).reshape(batch, length, width), weights[2], weights[3])


def _encoder_layer(src: Tensor, width: int, heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor,
                   proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor,
                   norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor,
                   ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor, mask: Optional[Tensor] = None,
                   mask_type: Optional[int] = None) -> Tensor:
    def attend(x: Tensor) -> Tensor:
        return _attended(x, heads, (qkv_weight, qkv_bias, proj_weight, proj_bias), mask, mask_type)

    def feed(x: Tensor) -> Tensor:
        hidden = functional.linear(x, ffn_weight_1, ffn_bias_1)
        return functional.linear(functional.gelu(hidden) if use_gelu else functional.relu(hidden), ffn_weight_2, ffn_bias_2)

    def first(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(first(src))
        return x + feed(second(x))
    x = first(src + attend(src))
    return second(x + feed(x))


def own_decompositions() -> dict[Any, Callable[..., Any]]:
    return {torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer}
