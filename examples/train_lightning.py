"""Train a small model with Lightning, over as many runs of a job as it takes.

    neuronctl submit … --until-done --checkpoint out train_lightning.py --epochs 20

At TERM, all ranks stop together after the current epoch, and the program ends with 75; the next
run goes on from out/last.ckpt. The data is random: nothing is downloaded.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Model(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.layers(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def train_dataloader(self) -> DataLoader:
        x = torch.randn(4096, 32, generator=torch.Generator().manual_seed(2026))
        data = TensorDataset(x, torch.tanh(x.sum(1, keepdim=True)))
        # Lightning tells it the epoch, so that the order is the same in a run that has resumed.
        world, rank = self.trainer.world_size, self.trainer.global_rank
        sampler = DistributedSampler(data, num_replicas=world, rank=rank)
        return DataLoader(data, batch_size=64, sampler=sampler)


class Stop(L.Callback):
    """Stop after the epoch in which this process, or one of the others, has received TERM."""

    asked = False

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # It replaces Lightning's own handler, which ends the program with 0 in the midst of an
        # epoch: the job would be over.
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, number: int, frame: object) -> None:
        self.asked = True

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # On all ranks: to read it is a collective, as sync_dist reduces it only now.
        loss = trainer.callback_metrics["loss"]
        if trainer.is_global_zero:
            print(f"epoch {trainer.current_epoch + 1} loss {loss:.6f}", flush=True)
        if trainer.strategy.reduce_boolean_decision(self.asked, all=False):
            trainer.should_stop = True


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small model with Lightning.")
    parser.add_argument("--epochs", type=int, default=10, help="train up to this epoch [10]")
    parser.add_argument("--out", default="out", help="where last.ckpt is saved [out]")
    args = parser.parse_args()

    L.seed_everything(0)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        num_nodes=int(os.environ.get("SLURM_JOB_NUM_NODES", "1")),
        callbacks=[ModelCheckpoint(args.out, save_last=True), Stop()],
        logger=False,
        enable_progress_bar=False,
    )
    trainer.fit(Model(), ckpt_path="last")  # there is none in the first run: it says so
    if trainer.current_epoch < args.epochs:
        sys.exit(75)
    if trainer.is_global_zero:
        print("done")


if __name__ == "__main__":
    main()
