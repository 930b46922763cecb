"""Lightning: Trainer.fit, validate, test and predict on the CPU, with checkpoints, early stopping and a schedule."""

from __future__ import annotations

import logging
import os
import tempfile

import lightning
import torch
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(lightning.LightningModule):
    def __init__(self, width: int = 8, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 3))
        self.example_input_array = torch.zeros(1, 4)
        self.losses: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    def _loss(self, batch: tuple, name: str) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log(name, loss, prog_bar=True)
        return loss

    def training_step(self, batch: tuple, index: int) -> torch.Tensor:
        loss = self._loss(batch, "train_loss")
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: tuple, index: int) -> None:
        self._loss(batch, "val_loss")

    def test_step(self, batch: tuple, index: int) -> None:
        self._loss(batch, "test_loss")

    def predict_step(self, batch: tuple, index: int) -> torch.Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def loaders() -> tuple[DataLoader, DataLoader]:
    x = torch.randn(36, 4)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return (
        DataLoader(TensorDataset(x[:24], y[:24]), batch_size=4, shuffle=True),
        DataLoader(TensorDataset(x[24:], y[24:]), batch_size=4),
    )


def trainer(folder: str, **options: object) -> lightning.Trainer:
    settings = {
        "max_epochs": 3,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        **options,
    }
    return lightning.Trainer(accelerator="cpu", devices=1, default_root_dir=folder, **settings)


def fitted(**options: object) -> dict[str, object]:
    """Losses of a training, its metrics, and those of its best checkpoint."""
    lightning.seed_everything(5, verbose=False)
    model, (train, valid) = Classifier(), loaders()
    with tempfile.TemporaryDirectory() as folder:
        keep = ModelCheckpoint(folder, "best", monitor="val_loss", save_last=True)
        run = trainer(folder, callbacks=[keep, EarlyStopping("val_loss", patience=3)], **options)
        run.fit(model, train, valid)
        metrics = {name: float(value) for name, value in run.callback_metrics.items()}
        tested = run.test(model, valid, verbose=False)
        predicted = run.predict(model, valid)
        again = Classifier.load_from_checkpoint(keep.best_model_path)
        validated = trainer(folder).validate(again, valid, verbose=False)
        files = sorted(os.listdir(folder))
        weights = torch.load(keep.best_model_path, weights_only=False)
        return {
            "losses": model.losses, "metrics": metrics, "tested": tested, "predicted": predicted, "validated": validated,
            "files": files, "checkpoint": sorted(weights), "state": dict(weights["state_dict"]),
            "width": again.hparams.width, "best": float(keep.best_model_score),
        }  # fmt: skip


def resumed() -> list[list[float]]:
    """Losses of four epochs, and of two and two with a checkpoint between."""
    found = []
    for stops in ([4], [2, 4]):
        lightning.seed_everything(5, verbose=False)
        (train, valid), losses = loaders(), []
        with tempfile.TemporaryDirectory() as folder:
            path = None
            for stop in stops:
                model = Classifier()
                run = trainer(folder, max_epochs=stop, enable_checkpointing=True)
                run.fit(model, train, valid, ckpt_path=path)
                path = os.path.join(folder, "kept.ckpt")
                run.save_checkpoint(path)
                losses += model.losses
        found.append(losses)
    return found


def summarised() -> str:
    """The table of layers with the sizes of an example, as the trainer prints it."""
    return str(lightning.pytorch.utilities.model_summary.ModelSummary(Classifier(), max_depth=-1))


def logged() -> list[str]:
    """What the CSV logger writes."""
    lightning.seed_everything(5, verbose=False)
    train, valid = loaders()
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(
            folder, max_epochs=1, logger=CSVLogger(folder), log_every_n_steps=2, callbacks=[LearningRateMonitor()]
        )
        run.fit(Classifier(), train, valid)
        with open(os.path.join(run.logger.log_dir, "metrics.csv")) as file:
            return [[round(float(cell), 5) if cell else "" for cell in line.split(",")] if i else line.split(",")
                    for i, line in enumerate(file.read().splitlines())]  # fmt: skip


def with_fabric() -> list[float]:
    """Losses of a loop on Fabric."""
    lightning.seed_everything(5, verbose=False)
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    losses = []
    for x, y in fabric.setup_dataloaders(loaders()[0]):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def in_a_group() -> list[object]:
    """Losses of DistributedDataParallel in a group of one process."""
    lightning.seed_everything(5, verbose=False)
    model, (train, valid) = Classifier(), loaders()
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(folder, strategy="ddp", max_epochs=2)
        run.fit(model, train, valid)
        tested = run.test(model, valid, verbose=False)
    torch.distributed.destroy_process_group()
    return [model.losses, tested]


CASES = {
    "fit": lambda: fitted(),
    "accumulated and clipped": lambda: fitted(accumulate_grad_batches=2, gradient_clip_val=0.5),
    "double": lambda: fitted(precision="64-true"),
    "resumed": lambda: resumed(),
    "summary": lambda: summarised(),
    "logged": lambda: logged(),
    "Fabric": lambda: with_fabric(),
    "DDP in one process": lambda: in_a_group(),
}
