"""`torch.ao.quantization`, importable: tdt does not quantise models."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class
from tdt.nn import Module

__all__ = [
    "DeQuantStub", "FakeQuantize", "FakeQuantizeBase", "HistogramObserver", "MinMaxObserver", "ObserverBase", "QConfig",
    "QuantStub", "QuantWrapper", "convert", "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "fuse_modules", "get_default_qat_qconfig", "get_default_qconfig", "prepare", "prepare_qat", "quantize",
    "quantize_dynamic", "quantize_qat",
]  # fmt: skip

REASON = "tdt does not quantise models; train in bfloat16 or float16 by amp.autocast"
ObserverBase = refused_class("ao.quantization.ObserverBase", REASON, Module)
MinMaxObserver = refused_class("ao.quantization.MinMaxObserver", REASON, ObserverBase)
HistogramObserver = refused_class("ao.quantization.HistogramObserver", REASON, ObserverBase)
FakeQuantizeBase = refused_class("ao.quantization.FakeQuantizeBase", REASON, Module)
FakeQuantize = refused_class("ao.quantization.FakeQuantize", REASON, FakeQuantizeBase)
QuantStub = refused_class("ao.quantization.QuantStub", REASON, Module)
DeQuantStub = refused_class("ao.quantization.DeQuantStub", REASON, Module)
QuantWrapper = refused_class("ao.quantization.QuantWrapper", REASON, Module)
QConfig = refused_class("ao.quantization.QConfig", REASON)
convert = refused("ao.quantization.convert", REASON)
disable_fake_quant = refused("ao.quantization.disable_fake_quant", REASON)
disable_observer = refused("ao.quantization.disable_observer", REASON)
enable_fake_quant = refused("ao.quantization.enable_fake_quant", REASON)
enable_observer = refused("ao.quantization.enable_observer", REASON)
fuse_modules = refused("ao.quantization.fuse_modules", REASON)
get_default_qat_qconfig = refused("ao.quantization.get_default_qat_qconfig", REASON)
get_default_qconfig = refused("ao.quantization.get_default_qconfig", REASON)
prepare = refused("ao.quantization.prepare", REASON)
prepare_qat = refused("ao.quantization.prepare_qat", REASON)
quantize = refused("ao.quantization.quantize", REASON)
quantize_dynamic = refused("ao.quantization.quantize_dynamic", REASON)
quantize_qat = refused("ao.quantization.quantize_qat", REASON)
