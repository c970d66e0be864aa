"""Llama of Hugging Face transformers with Tegula's norms and gated activation in place of its own, and the logits of both.

    python examples/torch/llama.py

A small model with random weights; `patch(model)` does the same to any that is built of LlamaRMSNorm and LlamaMLP.
"""

import time
import types

import torch
from tegula import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm


def _norm(self, x):
    return nn.rmsnorm(x, self.weight, self.variance_epsilon)


def _mlp(self, x):
    return self.down_proj(nn.silu_mul(self.gate_proj(x), self.up_proj(x)))


def patch(model):
    for m in model.modules():
        if isinstance(m, LlamaRMSNorm):
            m.forward = types.MethodType(_norm, m)
        elif isinstance(m, LlamaMLP):
            m.forward = types.MethodType(_mlp, m)
    return model


def seconds(f, device):
    for _ in range(3):
        f()
    if device == "cuda":
        torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(10):
        f()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - begun) / 10


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    wide = 4096 if device == "cuda" else 128
    config = LlamaConfig(hidden_size=wide, intermediate_size=wide * 11 // 4, num_hidden_layers=2,
                         num_attention_heads=wide // 32, num_key_value_heads=wide // 64, vocab_size=512)
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(device, dtype).eval()
    tokens = torch.randint(0, 512, (2, 64), device=device)
    with torch.no_grad():
        want = model(tokens).logits
        before = seconds(lambda: model(tokens), device)
        patch(model)
        got = model(tokens).logits
        after = seconds(lambda: model(tokens), device)
        error = (got - want).abs().max().item() / want.abs().max().item()
    print(f"{device}: largest difference of logits {error:.2g}; {before * 1e3:.2f} ms before, {after * 1e3:.2f} ms after")
    assert error < (0.03 if device == "cuda" else 1e-4)


if __name__ == "__main__":
    main()
