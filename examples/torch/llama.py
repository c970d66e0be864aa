"""Llama of Hugging Face transformers with Tegula's functions in place of its own: norms, rotary embedding, attention over
a cache, gated activation, and 4-bit or 8-bit weights.  Logits are held against the original's.

    python examples/torch/llama.py [--bench]

A model with random weights; `patch(model)` does the same to any that is built of Llama's classes with the default
rotary embedding.  --bench measures a prompt and a token after it, beside the original and torch.compile, as Markdown.
"""

import argparse
import copy
import time
import types

import torch
from tegula import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm


class KeyValues:
    """Keys and values of one layer, [B, L, G, D], and how many tokens of each sequence are in it."""

    def __init__(self, batch, most, groups, head, like):
        self.k = torch.zeros(batch, most, groups, head, device=like.device, dtype=like.dtype)
        self.v = torch.zeros_like(self.k)
        self.length = torch.zeros(batch, device=like.device, dtype=torch.int32)

    def add(self, k, v, position):
        """position[B, S] is the same for all sequences."""
        self.k.index_copy_(1, position[0], k)
        self.v.index_copy_(1, position[0], v)
        self.length.copy_(position[:, -1] + 1)
        return self.k, self.v, self.length


def _norm(self, x):
    return nn.rmsnorm(x, self.weight, self.variance_epsilon)


def _mlp(self, x):
    return self.down_proj(nn.silu_mul(self.gate_proj(x), self.up_proj(x)))


def _attention(self, hidden_states, position_ids=None, **unused):
    x = hidden_states
    b, s, _ = x.shape
    position = position_ids.expand(b, s)
    index = position.to(torch.int32)
    q = nn.rope(self.q_proj(x).view(b, s, -1, self.head_dim), index, self.rope_base)
    k = nn.rope(self.k_proj(x).view(b, s, -1, self.head_dim), index, self.rope_base)
    v = self.v_proj(x).view(b, s, -1, self.head_dim)
    if self.cache is None:
        length = torch.full((b,), s, device=x.device, dtype=torch.int32)
    else:
        k, v, length = self.cache.add(k, v, position)
    y = nn.attention(q, k, v, length, self.scaling)
    return self.o_proj(y.view(b, s, -1)), None


def patch(model):
    base = getattr(model.config, "rope_parameters", None) or {"rope_theta": model.config.rope_theta}
    if base.get("rope_type", "default") != "default":
        raise ValueError(f"rotary embedding of type {base['rope_type']}")
    for m in model.modules():
        if isinstance(m, LlamaRMSNorm):
            m.forward = types.MethodType(_norm, m)
        elif isinstance(m, LlamaMLP):
            m.forward = types.MethodType(_mlp, m)
        elif isinstance(m, LlamaAttention):
            m.rope_base, m.cache = float(base["rope_theta"]), None
            m.forward = types.MethodType(_attention, m)
    return model


def give_cache(model, batch, most):
    for m in model.modules():
        if isinstance(m, LlamaAttention):
            like = model.model.embed_tokens.weight
            m.cache = KeyValues(batch, most, model.config.num_key_value_heads, m.head_dim, like)


class LinearInt4(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        q, scale = nn.quantize_int4(linear.weight.detach())
        self.register_buffer("q", q)
        self.register_buffer("scale", scale)

    def forward(self, x):
        return nn.linear_int4(x, self.q, self.scale)

    def weight(self):
        """What the four bits stand for."""
        q = torch.stack([self.q & 15, self.q >> 4], -1).to(torch.int8).reshape(self.q.shape[0], -1)
        q = torch.where(q > 7, q - 16, q).to(self.scale.dtype)
        return q * self.scale.repeat_interleave(64, 1)


class LinearFp8(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        q, scale = nn.quantize_fp8(linear.weight.detach())
        self.register_buffer("q", q)
        self.register_buffer("scale", scale)

    def forward(self, x):
        return nn.linear_fp8(x, self.q, self.scale)

    def weight(self):
        return (self.q.float() * self.scale[:, None]).bfloat16()


def quantise(model, kind):
    """Products of the layers, with weights of fewer bits."""
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, m in list(part.named_children()):
                if isinstance(m, torch.nn.Linear):
                    setattr(part, name, kind(m))
    return model


def rounded(model, kind):
    """The original's layers, with weights as `kind` keeps them."""
    for layer in model.model.layers:
        for m in layer.modules():
            if isinstance(m, torch.nn.Linear):
                m.weight.copy_(kind(m).weight())
    return model


# ---- what is compared, and measured ----


def make(device, dtype, layers, wide, heads, groups):
    config = LlamaConfig(hidden_size=wide, intermediate_size=wide * 7 // 2, num_hidden_layers=layers,
                         num_attention_heads=heads, num_key_value_heads=groups, vocab_size=512,
                         max_position_embeddings=8192)
    torch.manual_seed(0)
    with torch.device(device):
        return LlamaForCausalLM(config).to(dtype).eval()


def far(got, want):
    return (got - want).abs().max().item() / want.abs().max().item()


def one_by_one(model, tokens, first):
    """Logits of a prompt of `first` tokens, then of each token after it, over a cache."""
    b, n = tokens.shape
    give_cache(model, b, n)
    at = torch.arange(n, device=tokens.device)[None]
    parts = [model(tokens[:, :first], position_ids=at[:, :first], use_cache=False).logits]
    parts += [model(tokens[:, i:i + 1], position_ids=at[:, i:i + 1], use_cache=False).logits for i in range(first, n)]
    for m in model.modules():
        if isinstance(m, LlamaAttention):
            m.cache = None
    return torch.cat(parts, 1)


def compare(device, dtype, wide, heads, groups):
    """The largest differences of logits, over the largest logit: of a prompt, of tokens over a cache, and of weights
    with fewer bits from the same weights rounded."""
    model = make(device, dtype, 2, wide, heads, groups)
    tokens = torch.randint(0, 512, (2, 40), device=device)
    want = model(tokens, use_cache=False).logits
    ours = patch(copy.deepcopy(model))
    result = {"prompt": far(ours(tokens, use_cache=False).logits, want), "cache": far(one_by_one(ours, tokens, 33), want)}
    kinds = {"int4": LinearInt4, "fp8": LinearFp8} if device == "cuda" else {"int4": LinearInt4}
    for name, kind in kinds.items():
        want = rounded(copy.deepcopy(model), kind)(tokens, use_cache=False).logits
        result[name] = far(quantise(copy.deepcopy(ours), kind)(tokens, use_cache=False).logits, want)
    return result


def milliseconds(f, seconds=0.4):
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begun = time.perf_counter()
        f()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return sorted(times)[len(times) // 2] * 1e3


def graph_of(f):
    """f recorded as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        f()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f()
    return graph.replay


def caches(model):
    return [m for m in model.modules() if isinstance(m, LlamaAttention)]


def steps(model, ours, tokens, compiled):
    """Functions of a prompt, and of the token after it.  torch.compile takes the model as a whole; what a step begins
    with is set before it."""
    b, n = tokens.shape
    at = torch.arange(n + 1, device=tokens.device)[None]
    last, step = tokens[:, :1].contiguous(), at[:, n:].contiguous()
    call = torch.compile(model, fullgraph=True, dynamic=False) if compiled else model
    if ours:
        give_cache(model, b, n + 64)
        model(tokens, position_ids=at[:, :n], use_cache=False)
        kept = [m.cache for m in caches(model)]
    else:
        from transformers import StaticCache

        cache = StaticCache(config=model.config, max_cache_len=n + 64)
        model(tokens, past_key_values=cache, use_cache=True)

    def prompt():
        for m in caches(model) if ours else ():
            m.cache = None
        return call(tokens, position_ids=at[:, :n], use_cache=False).logits

    def token():
        if ours:
            for m, c in zip(caches(model), kept):
                m.cache = c
            return call(last, position_ids=step, use_cache=False).logits
        for layer in cache.layers:
            layer.cumulative_length.fill_(n) if torch.is_tensor(layer.cumulative_length) else setattr(layer, "cumulative_length", n)
        return call(last, past_key_values=cache, position_ids=step, use_cache=True).logits

    return prompt, token


def bench(only):
    """Llama 3 8B's layer, two of them."""
    dtype, layers = torch.bfloat16, 2
    model = make("cuda", dtype, layers, 4096, 32, 8)
    ours = patch(copy.deepcopy(model))
    quarter = quantise(copy.deepcopy(ours), LinearInt4)
    tokens = torch.randint(0, 512, (1, 2048), device="cuda")
    rows = [("transformers", model, False, False), ("transformers, torch.compile", model, False, True),
            ("with tegula.nn", ours, True, False), ("with tegula.nn, torch.compile", ours, True, True),
            ("with tegula.nn and 4-bit weights", quarter, True, False)]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; {layers} layers, 4096 wide, bf16, 2048 tokens\n")
    print("| ms | prompt | a token | a token, CUDA graph | first calls, s |\n| --- | ---: | ---: | ---: | ---: |")
    for name, m, is_ours, compiled in [r for i, r in enumerate(rows) if not only or i in only]:
        prompt, token = steps(m, is_ours, tokens, compiled)
        begun = time.perf_counter()
        prompt(), token(), torch.cuda.synchronize()
        first = time.perf_counter() - begun
        cells = [milliseconds(prompt), milliseconds(token), milliseconds(graph_of(token))]
        print(f"| {name} | " + " | ".join(f"{c:.3f}" for c in cells) + f" | {first:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", type=int, nargs="*", help="numbers of rows, from 0; without one all")
    cuda = torch.cuda.is_available()
    device, dtype = ("cuda", torch.bfloat16) if cuda else ("cpu", torch.float32)
    with torch.no_grad():
        rows = parser.parse_args().bench
        if rows is not None:
            return bench(rows)
        result = compare(device, dtype, *((2048, 16, 4) if cuda else (128, 4, 2)))
    print(f"{device}: largest difference of logits:", ", ".join(f"{k} {v:.2g}" for k, v in result.items()))
    bound = 0.03 if cuda else 1e-4
    fp8 = result.pop("fp8", 0)              # its activations are rounded, too
    assert all(v < bound for v in result.values()) and fp8 < 0.2


if __name__ == "__main__":
    main()
