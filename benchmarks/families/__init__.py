"""Families of networks, each at two sizes, written once for both libraries; `benchmarks.training` compares them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.families import dense, further, generative, images, others, sequences, transformers
from benchmarks.families._network import Network

FAMILIES: dict[str, Callable[[Any, int], Network]] = {
    "MLP": others.mlp,
    "tabular with embeddings": others.tabular,
    "LeNet": images.lenet,
    "VGG": images.vgg,
    "ResNet, basic blocks": images.resnet_basic,
    "ResNet, bottlenecks": images.resnet_bottleneck,
    "wide ResNet, norms first": images.wide_resnet,
    "DenseNet": images.densenet,
    "Inception": images.inception,
    "MobileNetV2": images.mobilenet_v2,
    "MobileNetV3": images.mobilenet_v3,
    "EfficientNet": images.efficientnet,
    "ShuffleNetV2": images.shufflenet,
    "ResNeXt": images.resnext,
    "ConvNeXt": images.convnext,
    "U-Net": dense.unet,
    "VAE of convolutions": dense.vae,
    "DCGAN": dense.dcgan,
    "3-d ResNet": dense.resnet_3d,
    "WaveNet": dense.wavenet,
    "TCN": dense.tcn,
    "ViT": transformers.vit,
    "Swin": transformers.swin,
    "MLP-Mixer": transformers.mlp_mixer,
    "GPT": transformers.gpt,
    "BERT": transformers.bert,
    "seq2seq Transformer": transformers.seq2seq,
    "LSTM language model": others.lstm_language_model,
    "bidirectional LSTM tagger": others.bilstm_tagger,
    "GRU, packed sequences": others.packed_gru,
    "recommender": others.recommender,
    "siamese": others.siamese,
    "graph convolution": others.graph_convolution,
    "DQN": others.dqn,
    "graph attention": further.graph_attention,
    "DLRM": further.dlrm,
    "mixture of experts": further.mixture_of_experts,
    "PointNet": further.pointnet,
    "audio, 1-d ResNet": further.audio_resnet,
    "U-Net of signals": further.unet_1d,
    "capsules": further.capsules,
    "normalizing flow": further.flow,
    "GRU with attention": further.attentive_decoder,
    "actor and critic": further.actor_critic,
    "Llama": sequences.llama,
    "Conformer": sequences.conformer,
    "long convolution": sequences.long_convolution,
    "linear attention": sequences.linear_attention,
    "Perceiver": sequences.perceiver,
    "CNN of characters": sequences.character_cnn,
    "forecast": sequences.forecast,
    "diffusion": generative.diffusion,
    "VQ-VAE": generative.vq_vae,
    "super-resolution": generative.super_resolution,
    "detector": generative.detector,
    "Wasserstein critic": generative.wasserstein_critic,
    "radiance field": generative.radiance_field,
    "physics": generative.physics,
    "differential equation": generative.differential_equation,
}
SIZES = ("small", "large")
INFERENCE_BATCHES = (1, 32)


def network(library: Any, family: str, size: str) -> Network:
    """A family's network at a size, with the weights of seed 0."""
    library.manual_seed(0)
    return FAMILIES[family](library, SIZES.index(size))


__all__ = ["FAMILIES", "INFERENCE_BATCHES", "SIZES", "Network", "network"]
