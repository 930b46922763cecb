"""Every public function and method says what it takes and returns; where that may be anything, the list says why."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.annotations import found, left_open

# Namespaces whose annotations are not complete yet.
NOT_YET = (
    "tdt.amp", "tdt.autograd", "tdt.backends", "tdt.compat", "tdt.cuda", "tdt.distributed",
    "tdt.func", "tdt.functional", "tdt.multiprocessing", "tdt.nn", "tdt.optim", "tdt.profiler", "tdt.sparse",
    "tdt.testing", "tdt.vision.models", "tdt.vision.ops",  # their classes have the methods of nn.Module
)  # fmt: skip
# The command line's own modules; nobody's program calls them.
NOT_PUBLIC = ("tdt.cli", "tdt.commands", "tdt.train")

# Where a value may be anything, by reason. `*`: any part of a name.
ANYTHING: dict[str, str] = {
    "arguments and results of the caller's function": """
        tdt.utils.checkpoint.check_backward_validity tdt.utils.checkpoint.checkpoint*
        tdt.utils.checkpoint.detach_variable tdt.utils.checkpoint.CheckpointFunction.*""",
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
        tdt.vision.transforms.*.__call__ tdt.vision.transforms.*.batch""",
    "the arguments of the subclass's constructor": "tdt.vision.datasets.CIFAR10.blank",
    "all arguments of the model's forward": "tdt.utils.tensorboard.SummaryWriter.add_graph",
    "labels of any type, shown as text": "tdt.utils.tensorboard.SummaryWriter.add_embedding",
    "variables of the timed statement; notes of the caller": """
        tdt.utils.benchmark.Timer.__init__ tdt.utils.benchmark.Measurement.__init__""",
    "DLPack's capsule has no type before Python 3.13": "tdt.utils.dlpack.*",
}


def test_annotations_are_any_only_where_the_list_gives_a_reason():
    names = found(skip=NOT_YET + NOT_PUBLIC)
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
