"""Tokens per second of text generation beside PyTorch, on the same weights; above 1 tdt is faster.

    python -m benchmarks.generate                 # one thread, in processor time
    python -m benchmarks.generate --threads 2     # by the wall clock: the machine must be idle

PyTorch samples as nanoGPT does: the last tokens of the context, at most its window, are read again for each new token. A
second line has PyTorch keep keys and values, too. A block is 500 tokens, as nanoGPT's default, after a prompt of one token;
blocks alternate, and a line is the median of the ratios with its 95 % interval. Greedy tokens of all three must be the same
within the window.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from benchmarks._pairs import interval, ratios, settings

TOKENS = 500
TOP_K = 200
SIZES = {  # as bundled in char-gpt; nanoGPT's train_shakespeare_char; half of GPT-2
    "4 layers of 128": {"vocab_size": 256, "n_positions": 128, "n_embd": 128, "n_layer": 4, "n_head": 4},
    "6 layers of 384": {"vocab_size": 65, "n_positions": 256, "n_embd": 384, "n_layer": 6, "n_head": 6},
    "6 layers of 768": {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 6, "n_head": 12},
}


def torch_model(torch: Any, sizes: dict[str, int]) -> Any:
    """GPT-2 written with PyTorch's layers, which computes the logits of the last token alone, as nanoGPT does."""
    nn, F = torch.nn, torch.nn.functional
    width, heads = sizes["n_embd"], sizes["n_head"]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
            self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

        def forward(self, x: Any, past: list[Any] | None) -> Any:
            n, length, _ = x.shape
            parts = self.attn["c_attn"](self.ln_1(x)).split(width, dim=2)
            q, k, v = (part.view(n, length, heads, -1).transpose(1, 2) for part in parts)
            if past is not None:
                if past:
                    k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
                past[:] = k, v
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
            x = x + self.attn["c_proj"](attended.transpose(1, 2).reshape(n, length, width))
            return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(sizes["vocab_size"], width), nn.Embedding(sizes["n_positions"], width)
            self.h = nn.ModuleList([Block() for _ in range(sizes["n_layer"])])
            self.ln_f = nn.LayerNorm(width)

        def forward(self, tokens: Any, past: list[list[Any]] | None = None) -> Any:
            start = past[0][0].shape[2] if past and past[0] else 0
            x = self.wte(tokens) + self.wpe(torch.arange(start, start + tokens.shape[1]))
            for i, block in enumerate(self.h):
                x = block(x, None if past is None else past[i])
            return F.linear(self.ln_f(x[:, -1:]), self.wte.weight)[:, -1]

    return GPT().eval()


def torch_tokens(torch: Any, model: Any, window: int, layers: int, cached: bool, greedy: bool) -> Iterator[int]:
    """Tokens after the token 0, without end. cached: read half of a full window again, as tdt does."""
    tokens, past = torch.zeros(1, 1, dtype=torch.long), None
    while True:
        with torch.no_grad():
            if not cached:
                logits = model(tokens[:, -window:])
            else:
                full = past is not None and past[0][0].shape[2] == window
                unread = tokens if past is None else tokens[:, -(window // 2 + 1) :] if full else tokens[:, -1:]
                past = [[] for _ in range(layers)] if past is None or full else past
                logits = model(unread, past)
            if greedy:
                token = logits.argmax(-1, keepdim=True)
            else:
                best = torch.topk(logits, min(TOP_K, logits.shape[-1])).values
                logits[logits < best[:, [-1]]] = -float("inf")
                token = torch.multinomial(torch.softmax(logits, dim=-1), 1)
            tokens = torch.cat((tokens, token), dim=1)
        yield int(token)


def sides(sizes: dict[str, int]) -> dict[str, Callable[[bool], Iterator[int]]]:
    """For each side, a function of `greedy` that generates tokens."""
    import torch

    import tdt
    from tdt.text.generation import Sampling, generate
    from tdt.text.models import GPT2LMHeadModel

    ours, theirs, window = GPT2LMHeadModel(**sizes).eval(), torch_model(torch, sizes), sizes["n_positions"]
    weights = {}
    for name, value in ours.transformer.state_dict().items():
        array = torch.from_numpy(value.numpy().copy())
        weights[name] = array.t() if array.ndim == 2 and ".c_" in name else array
    theirs.load_state_dict(weights)

    def of_tdt(greedy: bool) -> Iterator[int]:
        sampling = Sampling(temperature=0.0 if greedy else 1.0, top_k=TOP_K)
        return generate(ours, lambda tokens: ours(tokens)[0, -1], [0], sampling, cached=True, window=window)

    def of_torch(cached: bool) -> Callable[[bool], Iterator[int]]:
        return lambda greedy: torch_tokens(torch, theirs, window, sizes["n_layer"], cached, greedy)

    tdt.manual_seed(0)
    return {"tdt": of_tdt, "as nanoGPT": of_torch(False), "with a cache": of_torch(True)}


def main() -> None:
    """Print a line for each size and way of PyTorch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="number of threads (1)")
    parser.add_argument("--pairs", type=int, default=9, help="alternating blocks of each (9)")
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"tokens of a block ({TOKENS})")
    parser.add_argument("--only", default="", help="sizes whose name contains this text")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch

    import tdt

    torch.set_num_threads(args.threads)
    tdt.set_num_threads(args.threads)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    print(f"{args.threads} threads, {settings()}, PyTorch {torch.__version__}")
    for name, sizes in SIZES.items():
        if args.only not in name:
            continue
        found = sides(sizes)
        greedy = [list(islice(run(True), min(args.tokens, sizes["n_positions"]))) for run in found.values()]
        if any(tokens != greedy[0] for tokens in greedy):
            raise SystemExit(f"{name}: the greedy tokens differ")

        def rate(side: str, found: dict[str, Callable[[bool], Iterator[int]]] = found) -> float:
            start = clock()
            for _ in islice(found[side](False), args.tokens):
                pass
            return args.tokens / (clock() - start)

        for side in ("as nanoGPT", "with a cache"):
            median, low, high = interval(ratios(lambda: rate("tdt"), lambda side=side: rate(side), args.pairs))
            print(f"{name}, PyTorch {side:<14} {median:6.2f}   [{low:.2f}, {high:.2f}]   "
                  f"{rate('tdt'):7,.0f} tokens/s of {rate(side):,.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
