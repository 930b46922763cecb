"""captum: attributions of small networks, by every method that needs no further library, are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from captum import attr
from captum.concept import Concept  # noqa: F401  (as programs import it)
from captum.metrics import infidelity, sensitivity_max
from torch import nn


class Classifier(nn.Module):
    """A network for images with every kind of layer that the methods look into, each used once."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 3)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(3, 4, 2)
        self.relu2 = nn.ReLU()
        self.fc = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool1(self.relu1(self.conv1(x)))
        return self.fc(self.relu2(self.conv2(x)).flatten(1))


class Table(nn.Module):
    """A network for two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(2, 4)
        self.relu, self.out = nn.ReLU(), nn.Linear(4, 2)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.out(self.relu(self.first(a) + self.second(b)))


class Sentence(nn.Module):
    """A network for words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 5)
        self.lstm = nn.LSTM(5, 4, batch_first=True)
        self.out = nn.Linear(4, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embedding(words))[0][:, -1])


def image() -> tuple[nn.Module, torch.Tensor]:
    return Classifier().eval(), torch.randn(2, 1, 8, 8)


def table() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    return Table().eval(), (torch.randn(4, 3), torch.randn(4, 2))


def of_image(make: Callable[[nn.Module], Any], /, **options: Any) -> Callable[[], Any]:
    def case() -> Any:
        model, x = image()
        return make(model).attribute(x, target=1, **options)

    return case


def of_table(make: Callable[[nn.Module], Any], /, **options: Any) -> Callable[[], Any]:
    def case() -> Any:
        model, inputs = table()
        return make(model).attribute(inputs, target=0, **options)

    return case


def of_layer(method: Any, name: str, **options: Any) -> Callable[[], Any]:
    def case() -> Any:
        model, x = image()
        chosen = {} if options.pop("without_target", False) else {"target": 1}
        return method(model, getattr(model, name)).attribute(x, **chosen, **options)

    return case


def of_neuron(method: Any, name: str, neuron: Any, **options: Any) -> Callable[[], Any]:
    def case() -> Any:
        model, x = image()
        return method(model, getattr(model, name)).attribute(x, neuron, **options)

    return case


def words() -> Any:
    model = Sentence().eval()
    text = torch.tensor([[1, 5, 3, 2], [7, 0, 0, 11]])
    method = attr.LayerIntegratedGradients(model, model.embedding)
    found, delta = method.attribute(text, torch.zeros_like(text), target=1, return_convergence_delta=True)
    return [found, delta]


def interpretable_embedding() -> Any:
    model = Sentence().eval()
    layer = attr.configure_interpretable_embedding_layer(model, "embedding")
    inputs = layer.indices_to_embeddings(torch.tensor([[1, 5, 3]]))
    found = attr.IntegratedGradients(model).attribute(inputs, target=0, n_steps=10)
    attr.remove_interpretable_embedding_layer(model, layer)
    return found


def noisy(kind: str) -> Callable[[], Any]:
    def case() -> Any:
        model, x = image()
        tunnel = attr.NoiseTunnel(attr.Saliency(model))
        return tunnel.attribute(x, nt_type=kind, nt_samples=3, stdevs=0.1, target=1)

    return case


def metrics(name: str) -> Callable[[], Any]:
    def case() -> Any:
        model, x = image()
        method = attr.IntegratedGradients(model)
        if name == "sensitivity":
            return sensitivity_max(method.attribute, x, target=1, n_perturb_samples=3)

        def perturb(inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            noise = torch.randn_like(inputs) * 0.05
            return noise, inputs - noise

        return infidelity(model, perturb, x, method.attribute(x, target=1), target=1, n_perturb_samples=4)

    return case


def lime() -> Any:
    model, inputs = table()
    features = (torch.tensor([[0, 1, 2]]), torch.tensor([[3, 3]]))
    method = attr.KernelShap(model)
    return method.attribute(tuple(x[:1] for x in inputs), target=0, feature_mask=features, n_samples=40)


def batched() -> Any:
    model, x = image()
    return attr.IntegratedGradients(model).attribute(x, target=torch.tensor([0, 2]), n_steps=12, internal_batch_size=6)


def masks() -> Any:
    model, x = image()
    mask = torch.arange(64).reshape(1, 1, 8, 8) // 16
    return attr.FeatureAblation(model).attribute(x, target=1, feature_mask=mask, perturbations_per_eval=2)


def deltas(method: Any, **options: Any) -> Callable[[], Any]:
    def case() -> Any:
        model, x = image()
        return list(method(model).attribute(x, target=1, return_convergence_delta=True, **options))

    return case


CASES: dict[str, Callable[[], Any]] = {
    "Saliency": of_image(attr.Saliency),
    "Saliency signed": of_image(attr.Saliency, abs=False),
    "InputXGradient": of_image(attr.InputXGradient),
    "IntegratedGradients": of_image(attr.IntegratedGradients),
    "IntegratedGradients riemann": of_image(attr.IntegratedGradients, method="riemann_trapezoid", n_steps=20),
    "IntegratedGradients baseline": of_image(attr.IntegratedGradients, baselines=0.5, n_steps=20),
    "IntegratedGradients two inputs": of_table(attr.IntegratedGradients),
    "IntegratedGradients in batches": batched,
    "IntegratedGradients delta": deltas(attr.IntegratedGradients, n_steps=20),
    "DeepLift": of_image(attr.DeepLift),
    "DeepLift delta": deltas(attr.DeepLift, baselines=0.1),
    "DeepLiftShap": of_image(attr.DeepLiftShap, baselines=torch.linspace(-1, 1, 192).reshape(3, 1, 8, 8)),
    "GradientShap": of_image(attr.GradientShap, baselines=torch.zeros(2, 1, 8, 8), n_samples=4, stdevs=0.1),
    "GuidedBackprop": of_image(attr.GuidedBackprop),
    "Deconvolution": of_image(attr.Deconvolution),
    "GuidedGradCam": of_layer(attr.GuidedGradCam, "conv2"),
    "FeatureAblation": of_image(attr.FeatureAblation),
    "FeatureAblation masks": masks,
    "FeatureAblation two inputs": of_table(attr.FeatureAblation),
    "FeaturePermutation": of_table(attr.FeaturePermutation),
    "Occlusion": of_image(attr.Occlusion, sliding_window_shapes=(1, 3, 3), strides=2),
    "ShapleyValues": of_table(attr.ShapleyValues),
    "ShapleyValueSampling": of_table(attr.ShapleyValueSampling, n_samples=4),
    "KernelShap": lime,
    "LRP": of_image(attr.LRP),
    "NoiseTunnel smoothgrad": noisy("smoothgrad"),
    "NoiseTunnel vargrad": noisy("vargrad"),
    "LayerActivation": of_layer(attr.LayerActivation, "relu1", without_target=True),
    "LayerGradientXActivation": of_layer(attr.LayerGradientXActivation, "conv1"),
    "LayerGradCam": of_layer(attr.LayerGradCam, "conv2"),
    "LayerConductance": of_layer(attr.LayerConductance, "relu1", n_steps=10),
    "LayerIntegratedGradients": of_layer(attr.LayerIntegratedGradients, "conv1", n_steps=10),
    "LayerDeepLift": of_layer(attr.LayerDeepLift, "relu1"),
    "LayerFeatureAblation": of_layer(attr.LayerFeatureAblation, "fc"),
    "LayerGradientShap": of_layer(attr.LayerGradientShap, "relu1", baselines=torch.zeros(2, 1, 8, 8), n_samples=3),
    "LayerLRP": of_layer(attr.LayerLRP, "conv2"),
    "InternalInfluence": of_layer(attr.InternalInfluence, "relu1", n_steps=10),
    "NeuronGradient": of_neuron(attr.NeuronGradient, "fc", 2),
    "NeuronIntegratedGradients": of_neuron(attr.NeuronIntegratedGradients, "fc", 0, n_steps=10),
    "NeuronConductance": of_neuron(attr.NeuronConductance, "relu1", (0, 1, 1), target=1, n_steps=10),
    "NeuronDeepLift": of_neuron(attr.NeuronDeepLift, "fc", 1),
    "NeuronFeatureAblation": of_neuron(attr.NeuronFeatureAblation, "fc", 1),
    "NeuronGuidedBackprop": of_neuron(attr.NeuronGuidedBackprop, "fc", 1),
    "words": words,
    "interpretable embedding": interpretable_embedding,
    "sensitivity": metrics("sensitivity"),
    "infidelity": metrics("infidelity"),
}
