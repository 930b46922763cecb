"""x-transformers: training loops of small models, their gradients, and generation; from one seed on both."""

from __future__ import annotations

import os
import runpy

import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper

results = runpy.run_path(os.path.join(os.path.dirname(__file__), "_models.py"))["results"]

WORDS = 30


def gpt(**options: object) -> AutoregressiveWrapper:
    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)
    return AutoregressiveWrapper(TransformerWrapper(num_tokens=WORDS, max_seq_len=24, attn_layers=layers))


def passed(**options: object) -> dict[str, object]:
    model = gpt(**options)
    ids = torch.randint(0, WORDS, (2, 16))
    logits = model.net(ids)
    return results(model, {"logits": logits}, model(ids))


def trained(steps: int = 10, **options: object) -> list[float]:
    """Losses of a training on sequences that repeat."""
    model = gpt(**options)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        start = torch.randint(0, WORDS, (8, 1))
        ids = (start + torch.arange(17)) % WORDS
        loss = model(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def generated(**options: object) -> torch.Tensor:
    model = gpt(rotary_pos_emb=True).eval()
    return model.generate(torch.randint(0, WORDS, (2, 4)), 8, **options)


def encoder() -> dict[str, object]:
    model = TransformerWrapper(num_tokens=WORDS, max_seq_len=24, attn_layers=Encoder(dim=32, depth=2, heads=4))
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, 9:] = False
    logits = model(torch.randint(0, WORDS, (2, 12)), mask=mask)
    return results(model, {"logits": logits}, logits.square().mean())


def vision() -> dict[str, object]:
    layers = Encoder(dim=32, depth=2, heads=4)
    model = ViTransformerWrapper(image_size=16, patch_size=8, num_classes=5, attn_layers=layers)
    logits = model(torch.randn(2, 3, 16, 16))
    return results(model, {"logits": logits}, logits.square().mean())


CASES = {
    "GPT": lambda: passed(),
    "GPT, rotary, RMS norm, GLU": lambda: passed(rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True),
    "GPT, ALiBi, grouped keys": lambda: passed(alibi_pos_bias=True, attn_kv_heads=2),
    "GPT, flash": lambda: passed(attn_flash=True, rotary_pos_emb=True),
    "encoder": lambda: encoder(),
    "vision": lambda: vision(),
    "training": lambda: trained(),
    "training, rotary": lambda: trained(rotary_pos_emb=True, ff_swish=True, ff_glu=True),
    "training, dropout": lambda: trained(attn_dropout=0.1, ff_dropout=0.1),
    "generates": lambda: generated(temperature=0.0),
    "samples": lambda: generated(temperature=1.0),
}
