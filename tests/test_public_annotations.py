"""Every public function and method says what it takes and returns; where that may be anything, the list says why."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.annotations import found, left_open

# The command line's own modules, which no program calls, the stand-ins for modules of PyTorch that programs import, and
# the trainer's rooms below what tdt.train exports.
ROOMS = ("checks", "config", "data", "export", "loop", "model", "runs", "tune", "logging.collectors")
NOT_PUBLIC = ("tdt.cli", "tdt.commands", "tdt.compat", *(f"tdt.train.{room}" for room in ROOMS))

# Where a value may be anything, by reason. `*`: any part of a name.
ANYTHING: dict[str, str] = {
    "settings of a config: numbers, texts, lists and dicts, nested": "tdt.train.api.fit tdt.train.api.evaluate",
    "a config is a dict of settings and of what components are written as": "tdt.train.api.Run.config",
    "inputs of every kind that a model may have been trained on, and outputs that may nest": """
        tdt.train.trained_model.TrainedModel.* tdt.train.trained_model.leaves_of""",
    "sums of a metric, which its own methods make, add up and divide": """
        tdt.train.metrics.*.batch_sum tdt.train.metrics.*.add tdt.train.metrics.base.add_each tdt.train.metrics.base.beside
        tdt.train.metrics.classes.decisions
        tdt.train.metrics.ranking.rows_of tdt.train.metrics.base.Reading.*""",
    "a gradient nests as the argument of the caller's function, tensors in tuples, lists and dicts": """
        tdt.func.grad tdt.func.grad_and_value""",
    "take and return what `forward` of the user's module, or the user's function, does": """
        tdt.nn.Module.__call__ tdt.nn.Module.forward tdt.nn.Sequential.forward tdt.nn.DataParallel.* tdt.nn.parallel.*
        tdt.nn.utils.stateless.functional_call tdt.func.functional_call tdt.func.linearize tdt.func.vjp
        tdt.func.functionalize tdt.optim.swa_utils.AveragedModel.forward tdt.autograd.function.Function.*
        tdt.autograd.functional.* tdt.autograd.gradcheck.* tdt.cuda.make_graphed_callables
        tdt.amp.custom_fwd tdt.amp.custom_bwd tdt.onnx.export tdt.multiprocessing.spawn tdt.multiprocessing.start_processes
        tdt.profiler.profile.__init__""",
    "hooks of the user's: the class of the module and what it takes and returns are theirs": """
        tdt.nn.Module.register_* tdt.autograd.graph.Node.register_* tdt.autograd.graph.saved_tensors_hooks.*
        tdt.autograd.graph.Node.metadata tdt.autograd.graph.allow_mutation_on_saved_tensors.__enter__""",
    "states: a dictionary of tensors, numbers and what the user adds": """
        *.state_dict *.load_state_dict tdt.nn.Module.get_extra_state tdt.nn.Module.set_extra_state
        tdt.optim.swap_in_optimizer_params_and_state tdt.nn.utils.spectral_norm.SpectralNorm*Hook.__call__""",
    "options of a parameter group, by name": "tdt.optim.Optimizer.__init__ tdt.optim.Optimizer.add_param_group",
    "modules of the user's classes, whose attributes a checker cannot know": """
        tdt.nn.ModuleDict.keys tdt.nn.ModuleDict.values tdt.nn.ModuleDict.items tdt.nn.ModuleList.__iter__
        tdt.nn.ModuleList.__getitem__ tdt.nn.Sequential.__getitem__""",
    "hold parameters and any other value": "tdt.nn.ParameterDict.* tdt.nn.ParameterList.*",
    "a pair with return_indices=True, otherwise a tensor": "tdt.nn.functional.*max_pool*d",
    "pass arguments on, or take any and ignore them": """
        tdt.nn.Module.compile tdt.nn.Container.__init__ tdt.nn.Identity.__init__ tdt.nn.modules.lazy.LazyModuleMixin.*
        tdt.nn.utils.skip_init tdt.nn.utils.prune.BasePruningMethod.apply tdt.nn.utils.prune.global_unstructured
        tdt.cuda.amp.GradScaler.__init__ tdt.backends.cudnn.set_flags tdt.profiler.profile.table
        tdt.distributed.new_group tdt.distributed.Backend.register_backend
        tdt.distributed.P2POp.__init__ tdt.distributed.init_process_group tdt.distributed.rendezvous""",
    "arguments in several orders, as in PyTorch": """
        tdt.nn.Module.to tdt.nn.utils.rnn.PackedSequence.to tdt.functional.einsum tdt.testing.make_tensor""",
    "objects of any class": """
        tdt.nn.modules.module.typename tdt.nn.modules.conv.each tdt.nn.parameter.is_lazy tdt.testing.assert_*
        tdt.distributed.all_gather_object tdt.distributed.gather_object tdt.multiprocessing.ProcessContext.__init__
        tdt.cuda.nvtx.range tdt.optim.swa_utils.update_bn tdt.nn.utils.parametrize.ParametrizationList.*""",
    "an optimizer of any class, and a tensor or a nest of them": """
        tdt.amp.GradScaler.scale tdt.amp.GradScaler.unscale_ tdt.amp.GradScaler.step""",
    "arguments and results of the caller's function": """
        tdt.utils.checkpoint.check_backward_validity tdt.utils.checkpoint.checkpoint*
        tdt.utils.checkpoint.detach_variable tdt.utils.checkpoint.get_device_states tdt.utils.checkpoint.CheckpointFunction.*""",
    "any object is saved, and so loaded; the options of the caller's pickle module": """
        tdt.serialization.save tdt.serialization.load""",
    "a sampler gives keys of any type, a dataset samples and collate_fn batches": """
        tdt.utils.data.collate tdt.utils.data.default_collate tdt.utils.data.default_convert
        tdt.utils.data.DataLoader.__init__ tdt.utils.data.DataLoader.__iter__ tdt.utils.data.Dataset.__getitem__
        tdt.utils.data.StackDataset.* tdt.utils.data.Subset.__getbatch__""",
    "numbers, strings, lists, dicts and tensors, nested, as a state_dict holds them": """
        tdt.utils.data.DataLoader.*state_dict""",
    "a transform or loader of the user's makes what it likes of an image; a step may take arrays or tensors only": """
        tdt.vision.datasets.*.__getitem__ tdt.vision.datasets.Digits.batch
        tdt.vision.transforms.*.__call__ tdt.vision.transforms.*.batch tdt.vision.transforms.masks.transform_both""",
    "functions that make a layer take what the layer's class takes": """
        tdt.vision.ops.Conv2dNormActivation.__init__ tdt.vision.ops.MLP.* tdt.vision.ops.SqueezeExcitation.__init__""",
    "class names alone, or their values, or their colors": "tdt.vision.datasets.ImageMasks.__init__",
    "a configuration read from JSON; the settings of the model's family": "tdt.text.models.*.from_config",
    "the arguments of the subclass's constructor": "tdt.vision.datasets.CIFAR10.blank",
    "all arguments of the model's forward": "tdt.utils.tensorboard.SummaryWriter.add_graph",
    "labels of any type, shown as text": "tdt.utils.tensorboard.SummaryWriter.add_embedding",
    "variables of the timed statement; notes of the caller": """
        tdt.utils.benchmark.Timer.__init__ tdt.utils.benchmark.Measurement.__init__""",
    "DLPack's capsule has no type before Python 3.13": "tdt.utils.dlpack.*",
}


def test_annotations_are_any_only_where_the_list_gives_a_reason():
    names = found(skip=NOT_PUBLIC)
    listed = [pattern for patterns in ANYTHING.values() for pattern in patterns.split()]
    unlisted = [f"{name}: {', '.join(open_)}" for name, open_ in names.items()
                if not any(fnmatchcase(name, pattern) for pattern in listed)]  # fmt: skip
    assert not unlisted, "\n".join(unlisted)
    assert not [pattern for pattern in listed if not any(fnmatchcase(name, pattern) for name in names)]


def test_parts_of_annotations_and_missing_ones_are_found():
    def function(a, b: int, c: dict[str, Any], *d: object, e: Callable[..., None], f: np.ndarray[Any, Any]):  # noqa: F821
        return a

    def annotated(a: int, *b: str) -> None:
        pass

    assert left_open(function) == ["a", "c", "d", "return"]
    assert left_open(annotated) == []
