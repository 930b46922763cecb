"""`SummaryWriter`: writes logged values to event files for TensorBoard."""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary

from tdt.utils.tensorboard import summary
from tdt.utils.tensorboard._event_file import FileWriter, close_each
from tdt.utils.tensorboard.summary._scalar import scalar

if TYPE_CHECKING:
    from tdt import Tensor
    from tdt.nn import Module
    from tdt.utils.tensorboard.summary._arrays import (
        Array,
        ArrayOrList,
        Bins,
        Charts,
        Figures,
        Hyperparameter,
        Json,
        Rows,
    )
    from tdt.utils.tensorboard.summary._hparams import Number


class SummaryWriter:
    """Writes an event file in `log_dir` that `tensorboard --logdir` shows, while training continues.

    log_dir: a folder, made where missing; default `runs/<month><day>_<time>_<host><comment>`.
    purge_step: a run that crashed and is logged again from this step on: TensorBoard hides what it has from there.
    max_queue: as many summaries may wait in memory before they are written; flush_secs: and so long.
    filename_suffix: the end of the file's name.

    Every `add_…` takes `global_step`, the step that its summary belongs to, and `walltime`, seconds since 1970, instead of
    now. Tags with a slash, as `train/loss`, stand together in TensorBoard. What holds numbers may be a tensor, which is
    read from its device, or a NumPy array.

    all_writers: the open event files by folder, None where closed; file_writer: that of log_dir.
    Summaries are written by a thread. A disk that is full or gone raises OSError from the call after.
    A closed writer that is used again starts a new file. A forked child writes files of its own.

    >>> import tdt
    >>> import tempfile
    >>> with tdt.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("train/loss", 1 / (step + 1), step)
    """

    def __init__(
        self,
        log_dir: str | PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        default = f"runs/{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}"
        self.log_dir = log_dir or default
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    @functools.cached_property
    def default_bins(self) -> list[float]:
        """The limits of `add_histogram`'s bins "tensorflow"."""
        from tdt.utils.tensorboard.summary._histogram import default_bins

        return default_bins()

    @property
    def file_writer(self) -> FileWriter | None:
        """The event file of log_dir; None after `close`."""
        return None if self.all_writers is None else self.all_writers.get(str(self.log_dir))

    def get_logdir(self) -> str:
        """The folder of the event file."""
        return str(self.log_dir)

    def add_summary(self, summary: Summary, global_step: int | None = None, walltime: float | None = None) -> None:
        """Add a summary that a function of `tdt.utils.tensorboard.summary` has returned.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_summary(tdt.utils.tensorboard.summary.text("note", "made by hand"), global_step=1)
        """
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_scalar(
        self, tag: str, scalar_value: Array, global_step: int | None = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """One number of the series `tag` at `global_step`.

        scalar_value: a number, or a tensor or array of one element.
        new_style: store it as a tensor, which TensorBoard loads faster; double_precision: as float64 (new style only).
        Raises ValueError for several elements, TypeError for a complex number, NotImplementedError for what is no number,
        OSError where the disk failed.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_scalar("train/loss", 0.25, global_step=1)
        """
        added = scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self.add_summary(added, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Array], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Several numbers in one chart, `main_tag`: each key of `tag_scalar_dict` becomes a run of its own.

        The runs are the folders `log_dir/<main_tag>_<key>`, with `/` in main_tag replaced by `_`.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_scalars("loss", {"train": 0.25, "valid": 0.5}, global_step=1)
        """
        walltime = time.time() if walltime is None else walltime
        for key, value in tag_scalar_dict.items():
            file = self._get_file_writer(f"/{main_tag.replace('/', '_')}_{key}")
            file.add_summary(scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Tensor, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """All values of `tensor`, with shape and type, for programs that read events: TensorBoard does not show it.

        Raises ValueError for 2 GiB and more.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_tensor("centres", tdt.rand(4, 2), global_step=1)
        """
        self.add_summary(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Array, global_step: int | None = None, bins: Bins = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How `values`, of any shape, are distributed.

        bins: "tensorflow", limits 10 % apart from 1e-12 to 1e20 and their negatives; else as `numpy.histogram` takes
        them: "auto", "fd", a number, or limits. max_bins: join neighbours until there are about so many.
        Raises ValueError for no values, or none in a bin.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_histogram("weights", tdt.randn(1000), global_step=1)
        """
        limits = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self.add_summary(summary.histogram(tag, values, limits, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: int, sum: float, sum_squares: float,
        bucket_limits: Sequence[float], bucket_counts: Sequence[float], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A histogram made elsewhere: moments of all values, the right limit of each bin, and its count.

        Raises ValueError where there are not as many limits as counts.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_histogram_raw("ages", 1, 40, 3, 60.0, 2001.0, [20, 40], [2, 1], global_step=1)
        """
        if len(bucket_limits) != len(bucket_counts):
            limits, counts = len(bucket_limits), len(bucket_counts)
            raise ValueError(f"histogram {tag!r} has {limits} bucket_limits but {counts} bucket_counts")
        added = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self.add_summary(added, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Array, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """An image: bytes, or other numbers in [0, 1]; one colour (grey), three, or four with opacity.

        dataformats: which dimensions it has: CHW, HWC, HW, or any other order; with N it is a batch, as in `add_images`.
        Raises ValueError where they do not fit the shape.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_image("noise", tdt.rand(3, 32, 32), global_step=1)
        ...     writer.add_image("grey", tdt.rand(32, 32), dataformats="HW")
        """
        self._get_file_writer().add_summary(
            summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime
        )

    def add_images(
        self, tag: str, img_tensor: Array, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """A batch of images as one, in rows of eight; otherwise as `add_image`.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_images("digits", tdt.rand(16, 1, 8, 8), global_step=1)
        """
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Array, box_tensor: Rows, global_step: int | None = None, walltime: float | None = None,
        rescale: float = 1, dataformats: str = "CHW", labels: str | Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """An image with red boxes: `box_tensor` has a row (left, top, right, bottom), in pixels, for each.

        rescale: how many times larger it is shown. labels: a text for each box; another number of texts is ignored.

        >>> import tdt
        >>> from tdt.utils import tensorboard
        >>> with tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_image_with_boxes("found", tdt.rand(3, 64, 64), tdt.tensor([[8, 8, 40, 30]]), labels=["cat"])
        """
        texts = [labels] if isinstance(labels, str) else labels
        if texts is not None and len(texts) != len(box_tensor):
            texts = None
        added = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, texts)
        self.add_summary(added, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Figures,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or a list of figures of one size side by side. close: release it afterwards."""
        from tdt.utils.tensorboard.summary._image import figures

        drawn, dataformats = figures(figure, close)
        self.add_image(tag, drawn, global_step, walltime, dataformats)

    def add_video(
        self, tag: str, vid_tensor: Array, global_step: int | None = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Films of shape (batch, frames, colours, height, width) side by side, `fps` frames a second, as a GIF.

        Values are those of `add_image`. Raises ValueError for another number of dimensions, or no frames.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_video("ball", tdt.rand(1, 8, 3, 32, 32), fps=8)
        """
        self.add_summary(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Array, global_step: int | None = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A sound: samples in [-1, 1], `sample_rate` a second. What is louder is cut, with a warning.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_audio("beep", tdt.sin(tdt.arange(8000) * 0.3), sample_rate=8000)
        """
        self.add_summary(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text, shown as Markdown.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_text("note", "learning rate **halved**", global_step=1)
        """
        self.add_summary(summary.text(tag, text_string), global_step, walltime)

    def add_graph(
        self,
        model: Module,
        input_to_model: Tensor | Sequence[Any] | None = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """The graph of `model`: each op that a forward pass of `input_to_model` runs, in the scope of its module.

        input_to_model: a tensor, or a tuple of all arguments. The pass runs in evaluation mode and changes nothing.
        verbose: print the nodes. use_strict_trace: there for PyTorch's signature; outputs of any kind are taken.
        Raises TypeError without an input.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_graph(tdt.nn.Sequential(tdt.nn.Linear(4, 2), tdt.nn.ReLU()), tdt.ones(1, 4))
        """
        from tensorboard.compat.proto.config_pb2 import RunMetadata
        from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats

        from tdt.utils.tensorboard._graph import model_graph

        if input_to_model is None:
            raise TypeError("add_graph runs the model once and needs input_to_model, a tensor or a tuple of arguments")
        graph = model_graph(model, input_to_model)
        if verbose:
            print(graph)
        statistics = RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
        self._get_file_writer().add_graph((graph, statistics))

    def add_onnx_graph(self, prototxt: str | PathLike[str]) -> None:
        """The graph in the ONNX file `prototxt`. Raises ImportError without the package onnx."""
        from tdt.utils.tensorboard._onnx_graph import onnx_graph

        self._get_file_writer().add_onnx_graph(onnx_graph(prototxt))

    def add_embedding(
        self, mat: Array, metadata: Sequence[Any] | None = None, label_img: Array | None = None, global_step: int | None = None,
        tag: str = "default", metadata_header: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Points of shape (points, dimensions) for TensorBoard's projector, written to files of their own in log_dir.

        metadata: a label for each point, or a row of labels with `metadata_header` for the columns' names.
        label_img: an image for each point, shape (points, colours, height, width), in [0, 1].
        Raises ValueError where there are not as many as points.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_embedding(tdt.randn(3, 8), metadata=["cat", "dog", "cow"], global_step=1)
        """
        from tdt.utils.tensorboard._embedding import write_embedding

        write_embedding(Path(self.log_dir), mat, metadata, label_img, int(global_step or 0), tag, metadata_header)

    def add_pr_curve(
        self, tag: str, labels: Array, predictions: Array, global_step: int | None = None, num_thresholds: int = 127,
        weights: ArrayOrList | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Precision against recall of `predictions`, probabilities, for the true or false `labels` of the same shape.

        num_thresholds: 127 at most. weights: how much each sample counts.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_pr_curve("cats", labels=tdt.tensor([0, 1, 1]), predictions=tdt.tensor([0.2, 0.6, 0.9]))
        """
        added = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self.add_summary(added, global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: ArrayOrList, false_positive_counts: ArrayOrList,
        true_negative_counts: ArrayOrList, false_negative_counts: ArrayOrList, precision: ArrayOrList,
        recall: ArrayOrList, global_step: int | None = None,
        num_thresholds: int = 127, weights: ArrayOrList | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A precision-recall curve computed elsewhere: each argument has a number for each threshold.

        >>> from tdt.utils import tensorboard
        >>> with tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_pr_curve_raw("cats", [2, 1], [3, 0], [0, 3], [0, 1], [0.4, 1.0], [1.0, 0.5], num_thresholds=2)
        """
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        added = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights)
        self.add_summary(added, global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: Iterable[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of several series of `add_scalar`; see `add_custom_scalars`.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_custom_scalars_multilinechart(["train/loss", "valid/loss"], title="loss")
        """
        self.add_custom_scalars({category: {title: ["Multiline", list(tags)]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of a series between two others: tags of the value, its lower and its upper bound.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_custom_scalars_marginchart(["mean", "low", "high"], title="spread")
        """
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: Charts) -> None:
        """Charts of several series: `{category: {chart: ["Multiline" or "Margin", tags]}}`. The last layout counts.

        Raises ValueError for a margin chart without exactly three tags.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_custom_scalars({"loss": {"both": ["Multiline", ["train/loss", "valid/loss"]]}})
        """
        self.add_summary(summary.custom_scalars(layout))

    def add_mesh(
        self, tag: str, vertices: ArrayOrList, colors: ArrayOrList | None = None, faces: ArrayOrList | None = None,
        config_dict: Mapping[str, Json] | None = None,
        global_step: int | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Triangles or a cloud of points in space; arrays of shape (batch, points or triangles, 3).

        colors: of the points, in [0, 255]; faces: three indices of points for each triangle.
        config_dict: settings of scene, camera and material, by three.js's names.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_mesh("cloud", tdt.rand(1, 100, 3), colors=tdt.randint(0, 256, (1, 100, 3)))
        """
        self._get_file_writer().add_summary(
            summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime
        )

    def add_hparams(
        self, hparam_dict: Mapping[str, Hyperparameter], metric_dict: Mapping[str, Array],
        hparam_domain_discrete: Mapping[str, Sequence[Number]] | None = None, run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:  # fmt: skip
        """Settings and results of a run, by which TensorBoard compares runs, in a run of its own under log_dir.

        run_name: that run's folder, by default the time. hparam_domain_discrete: all values that a setting can take.
        Raises TypeError for what is no dict, ValueError for a setting that is neither number nor text.

        >>> import tdt
        >>> with tdt.utils.tensorboard.SummaryWriter("runs/demo") as writer:
        ...     writer.add_hparams({"lr": 0.1, "layers": 3}, {"accuracy": 0.9})
        """
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(Path(self.log_dir, run_name or str(time.time()))) as writer:
            file = writer._get_file_writer()
            for part in parts:
                file.add_summary(part, global_step)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def flush(self) -> None:
        """Write all that is queued, so that a TensorBoard at work sees it."""
        for file in (self.all_writers or {}).values():
            file.flush()

    def sync(self) -> dict[str, int]:
        """Put all that is queued on the disk. Returns each event file's path in `log_dir` and length in bytes.

        A file cut to that length later holds exactly the summaries added before this call.
        """
        return {str(file.path.relative_to(self.log_dir)): file.sync() for file in (self.all_writers or {}).values()}

    def close(self) -> None:
        """Write all that is queued and close the files."""
        files, self.all_writers = self.all_writers or {}, None
        close_each(files.values())

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _get_file_writer(self, folder: str = "") -> FileWriter:
        """The event file of log_dir, or of a folder under it; it is made anew after `close`."""
        if self.all_writers is None:
            self.all_writers = {}
            self._open("")
        file = self.all_writers.get(f"{self.log_dir}{folder}")
        return self._open(folder) if file is None else file

    def _open(self, folder: str) -> FileWriter:
        path = f"{self.log_dir}{folder}"
        file = FileWriter(path, self.max_queue, self.flush_secs, self.filename_suffix)
        assert self.all_writers is not None
        self.all_writers[path] = file
        if self.purge_step is not None and not folder:
            # The file version must come first: readers handle restarts of version-2 files by the next record.
            file.add_event(Event(file_version="brain.Event:2"), self.purge_step)
            file.add_event(Event(session_log=SessionLog(status=SessionLog.START)), self.purge_step)
            self.purge_step = None
        return file
