"""A description of `random_configs` as a plain PyTorch program: what a user would write without tdt."""

from __future__ import annotations

import warnings
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from tests.helpers import require_torch
from tests.parity.random_configs import Description

torch = require_torch()
nn = torch.nn


class Residual(nn.Module):
    def __init__(self, body: Any):
        super().__init__()
        self.body = body

    def forward(self, x: Any) -> Any:
        return self.body(x) + x


class Branches(nn.Module):
    def __init__(self, kind: str, branches: Any):
        super().__init__()
        self.kind = kind
        named = branches.items() if isinstance(branches, dict) else enumerate(branches)
        for name, branch in named:
            self.add_module(str(name), build_torch(branch))

    def forward(self, x: Any) -> Any:
        outputs = {name: branch(x) for name, branch in self.named_children()}
        if self.kind == "Parallel":
            return outputs
        values = list(outputs.values())
        return torch.cat(values, 1) if self.kind == "Concat" else values[0] + values[1]


class Graph(nn.Module):
    def __init__(self, nodes: dict[str, Any]):
        super().__init__()
        self.sources = {name: sources for name, (_, sources) in nodes.items()}
        for name, (layer, _) in nodes.items():
            self.add_module(name, build_torch(layer))

    def forward(self, x: Any) -> Any:
        values = {"input": x}
        for name, sources in self.sources.items():
            values[name] = getattr(self, name)(*(values[source] for source in sources))
        return values[name]


class Pick(nn.Module):
    def __init__(self, key: Any):
        super().__init__()
        self.key = key

    def forward(self, x: Any) -> Any:
        return x[self.key]


class Transpose(nn.Module):
    def __init__(self, dim0: int, dim1: int):
        super().__init__()
        self.dims = dim0, dim1

    def forward(self, x: Any) -> Any:
        return x.transpose(*self.dims)


class Positions(nn.Module):
    def __init__(self, max_length: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, width).normal_(0, 0.02))

    def forward(self, x: Any) -> Any:
        return x + self.weight[: x.shape[1]]


class CausalSelfAttention(nn.Module):
    def __init__(self, embed_dim: int, num_heads: int, dropout: float, bias: bool = True):
        super().__init__()
        self.heads, self.dropout = num_heads, dropout
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim, bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias)

    def forward(self, x: Any) -> Any:
        n, length, width = x.shape
        q, k, v = self.in_proj(x).reshape(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        drop = self.dropout if self.training else 0.0
        attended = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=True)
        return self.out_proj(attended.transpose(1, 2).reshape(n, length, width))


OWN = {"Pick": Pick, "Transpose": Transpose, "Positions": Positions, "CausalSelfAttention": CausalSelfAttention}


def build_torch(described: Any) -> Any:
    """The module that a layer, or a list of them in a chain, describes."""
    if isinstance(described, list):
        return nn.Sequential(*map(build_torch, described))
    kind, rest = described["type"], {key: value for key, value in described.items() if key != "type"}
    if kind == "Graph":
        return Graph(rest["nodes"])
    if kind == "Residual":
        return Residual(build_torch(rest["body"]))
    if kind in ("Add", "Concat", "Parallel"):
        return Branches(kind, rest["branches"])
    if kind == "Repeat":
        return nn.Sequential(*(build_torch(rest["layer"]) for _ in range(rest["times"])))
    if "encoder_layer" in rest:
        rest["encoder_layer"] = build_torch(rest["encoder_layer"])
    if kind in ("Unflatten", "ConstantPad1d"):
        rest = {key: tuple(value) if isinstance(value, list) else value for key, value in rest.items()}
    return OWN.get(kind, getattr(nn, kind, None))(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in rest.items()}
    )


def run_torch(description: Description, data: dict[str, np.ndarray], nudge: int = 0) -> dict[str, Any]:
    """Train; the loss of each step, and the model's state and that of its average, if it has one.

    nudge: move every initial weight by one unit in its last place, up or down as this seed draws.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Program(description, data, nudge).run()
    finally:
        torch.set_default_dtype(before)


class Program:
    def __init__(self, description: Description, data: dict[str, np.ndarray], nudge: int):
        self.description, self.train = description, description.train
        torch.manual_seed(description.seed)
        self.model = build_torch(description.layers)
        self.model.eval()
        _learn_sizes(self.model, self._inputs(data["x"][:2]))
        if nudge:
            _nudge(self.model, nudge)
        sets = {
            name: torch.utils.data.TensorDataset(self._inputs(data[x]), self._targets(data[y]))
            for name, x, y in (("train", "x", "y"), ("valid", "vx", "vy"))
        }
        order = torch.Generator().manual_seed(description.seed)
        load = torch.utils.data.DataLoader
        self.batches = load(
            sets["train"], description.batch_size, shuffle=True, drop_last=description.drop_last, generator=order
        )
        self.valid = load(sets["valid"], description.batch_size)
        self.loss = getattr(nn, description.loss)(**description.loss_options)
        self.optimizer = getattr(torch.optim, description.optimizer)(
            self._groups(), **_tuples(description.optimizer_options)
        )
        self.scheduler = (
            self._scheduler(description.scheduler, description.scheduler_options) if description.scheduler else None
        )
        self.average: Any = None
        swa = torch.optim.swa_utils
        if "ema" in self.train:
            rule = swa.get_ema_multi_avg_fn(self.train["ema"])
            self.average = swa.AveragedModel(self.model, multi_avg_fn=rule, use_buffers=True)
        elif "swa" in self.train:
            self.average = swa.AveragedModel(self.model)
        torch.manual_seed(description.seed)

    def _inputs(self, array: np.ndarray) -> Any:
        tensor = torch.from_numpy(array)
        return tensor.double() if tensor.is_floating_point() else tensor

    _targets = _inputs

    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = [{"params": []}]
        groups += [{**group, "params": []} for group in self.description.groups]
        for name, p in self.model.named_parameters():
            fits = [i for i, group in enumerate(self.description.groups, 1) if fnmatchcase(name, group["params"])]
            groups[fits[0] if fits else 0]["params"].append(p)
        return [group for group in groups if group["params"]]

    def _scheduler(self, name: str, options: dict[str, Any]) -> Any:
        known = torch.optim.lr_scheduler
        options = dict(options)
        if "schedulers" in options:
            inner = [
                self._scheduler(one["type"], {k: v for k, v in one.items() if k != "type"})
                for one in options["schedulers"]
            ]
            if name == "ChainedScheduler":
                return known.ChainedScheduler(inner, self.optimizer)
            options["schedulers"] = inner
        return getattr(known, name)(self.optimizer, **options)

    def run(self) -> dict[str, Any]:
        losses: list[float] = []
        for epoch in range(self.description.epochs):
            self.model.train()
            total, sample_count, group = 0.0, 0, []
            for number, batch in enumerate(self.batches, 1):
                group.append(batch)
                if len(group) < self.train.get("accumulate", 1) and number < len(self.batches):
                    continue
                summed, count = self._step(group, len(losses) + 1)
                losses.append(summed / count if count else float("nan"))
                total, sample_count, group = total + summed, sample_count + count, []
                if self.average is not None and "ema" in self.train:
                    self.average.update_parameters(self.model)
                if self.scheduler is not None and self.description.interval == "step":
                    self.scheduler.step()
            if self.average is not None and "swa" in self.train and epoch + 1 > self.train["swa"]:
                self.average.update_parameters(self.model)
            score = self._validate() if self.description.valid else total / sample_count
            if self.scheduler is not None and self.description.interval == "epoch":
                plateau = self.description.scheduler == "ReduceLROnPlateau"
                self.scheduler.step(*([score] if plateau else []))
        return {"losses": losses, "model": _state(self.model), "average": _parameters(self.average)}

    def _step(self, group: list[Any], number: int) -> tuple[float, float]:
        """One step of the optimizer on several batches; the sum of their losses and of what they count."""
        self.optimizer.zero_grad()
        shares = [self._share(y) for _, y in group]
        summed = 0.0
        for (x, y), share in zip(group, shares, strict=True):
            loss = self.loss(self.model(x), y)
            is_sum = self.description.loss_options.get("reduction") == "sum"
            (loss if is_sum or len(group) == 1 else loss * (share / sum(shares))).backward()
            summed += loss.item() * (1 if is_sum else share)
        parameters = list(self.model.parameters())
        if "clip_grad_value" in self.train:
            nn.utils.clip_grad_value_(parameters, self.train["clip_grad_value"])
        if "clip_grad_norm" in self.train:
            nn.utils.clip_grad_norm_(parameters, self.train["clip_grad_norm"])
        warm = min(1.0, number / self.train["warmup"]) if "warmup" in self.train else 1.0
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for one, rate in zip(self.optimizer.param_groups, rates, strict=True):
            one["lr"] = rate * warm
        self.optimizer.step()
        for one, rate in zip(self.optimizer.param_groups, rates, strict=True):
            one["lr"] = rate
        return summed, sum(shares)

    def _share(self, targets: Any) -> float:
        """What the mean loss of a batch counts: its samples that are not ignored."""
        ignored = self.description.loss_options.get("ignore_index")
        return len(targets) if ignored is None else int((targets != ignored).sum())

    def _validate(self) -> float:
        model = self.model
        if self.average is not None and self.average.n_averaged > 0:
            model = self.average.module
            if "swa" in self.train:
                rng_state = torch.get_rng_state()
                order = torch.Generator().manual_seed(self.description.seed)
                loader = torch.utils.data.DataLoader(self.batches.dataset, self.description.batch_size, shuffle=True,
                                                     drop_last=self.description.drop_last, generator=order)  # fmt: skip
                torch.optim.swa_utils.update_bn(loader, model)
                torch.set_rng_state(rng_state)
        model.eval()
        total = sample_count = 0.0
        with torch.no_grad():
            for x, y in self.valid:
                share = self._share(y)
                loss = self.loss(model(x), y).item()
                total += (
                    (loss if self.description.loss_options.get("reduction") == "sum" else loss * share)
                    if share
                    else 0.0
                )
                sample_count += share
        return total / sample_count if sample_count else float("nan")


def _learn_sizes(model: Any, x: Any) -> None:
    """Let lazy layers learn their sizes; only their weights are drawn from the generator, no places of a random pooling."""
    handles = []
    for module in model.modules():
        if isinstance(module, (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)):
            states: list[Any] = []
            handles.append(
                module.register_forward_pre_hook(lambda *_, saved=states: saved.append(torch.get_rng_state()))
            )
            handles.append(module.register_forward_hook(lambda *_, saved=states: torch.set_rng_state(saved.pop())))
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()


def _tuples(options: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}


def _state(module: Any) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy().copy() for name, value in module.state_dict().items()}


def _parameters(average: Any) -> dict[str, np.ndarray]:
    if average is None:
        return {}
    return {name: p.detach().numpy().copy() for name, p in average.module.named_parameters()}


def _nudge(model: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        array = p.detach().numpy()
        array[...] = np.nextafter(array, np.where(rng.random(array.shape) < 0.5, -np.inf, np.inf))
