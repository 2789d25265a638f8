"""Train a small model on all processes of a job with DistributedDataParallel.

It runs wherever RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, and MASTER_PORT are set (torchrun sets
them, and so do neuronctl's scripts), and as a single process where they are not:

    python train_ddp.py
    torchrun --nproc-per-node 2 train_ddp.py --epochs 20 --checkpoint model.pt

At TERM, it stops after the current epoch, with exit code 75: with `neuronctl submit --until-done
--checkpoint FILE`, another run goes on from there.

It uses NCCL on GPUs and Gloo on CPUs. The data is generated from a fixed seed: nothing is
downloaded, and identical runs give the same loss.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from pathlib import Path

import torch
import torch.distributed as dist

# Import this before init_process_group(). DDP imports it too; if the process group exists by then,
# this module keeps hold of it. Its threads then outlive destroy_process_group(), and one that is
# still busy when Python ends aborts the process: https://github.com/pytorch/pytorch/issues/190489
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def say(line: str) -> None:
    """Write the whole line at once, so that lines from several ranks do not mix in a log."""
    print(line + "\n", end="", flush=True)


def make_data(samples: int, features: int) -> TensorDataset:
    """Random points and a fixed random teacher's answers, identical on every rank."""
    generator = torch.Generator().manual_seed(2026)
    x = torch.randn(samples, features, generator=generator)
    teacher = torch.randn(features, 1, generator=generator) / features**0.5
    return TensorDataset(x, torch.tanh(x @ teacher))


def check_all_reduce(device: torch.device) -> None:
    """Sum the ranks over the network; the sum is wrong unless all processes form one world."""
    total = torch.tensor([float(dist.get_rank())], device=device)
    dist.all_reduce(total)
    world = dist.get_world_size()
    expected = world * (world - 1) / 2
    if total.item() != expected:
        raise SystemExit(f"all-reduce of the ranks gave {total.item():g}, expected {expected:g}")
    if dist.get_rank() == 0:
        say(f"all-reduce over {world} ranks: {total.item():g}, as expected")


def load(path: Path, device: torch.device) -> dict | None:
    """Load the checkpoint on every rank; return None if there is none yet."""
    found = torch.tensor([1.0 if path.exists() else 0.0], device=device)
    dist.all_reduce(found)
    if 0 < found.item() < dist.get_world_size():
        raise SystemExit(f"not every rank can see {path}: use a directory that all nodes share")
    return torch.load(path, map_location=device, weights_only=True) if found.item() else None


def save(path: Path, state: dict) -> None:
    """Write to a temporary file and rename it, so that a killed job leaves the old checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    torch.save(state, unfinished)
    unfinished.replace(path)


class Stop:
    """Whether this process was asked to stop; `agreed` asks all ranks, which then stop together."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, number: int, frame: object) -> None:
        self.asked = True

    def agreed(self, device: torch.device) -> bool:
        # TERM does not reach all processes at once: without this, some would begin another epoch
        # and wait there for those that have stopped.
        asked = torch.tensor([float(self.asked)], device=device)
        dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        return bool(asked.item())


def train(args: argparse.Namespace, device: torch.device, stop: Stop | None) -> bool:
    """Train up to the last epoch; return False where it was asked to stop before."""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    model = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data = make_data(samples=4096, features=32)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, seed=0)
    batches = DataLoader(data, batch_size=64, sampler=sampler)

    first = 1
    state = load(args.checkpoint, device) if args.checkpoint else None
    if state is not None:
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
        if rank == 0:
            say(f"resumed from {args.checkpoint} after epoch {state['epoch']}")

    for epoch in range(first, args.epochs + 1):
        sampler.set_epoch(epoch)
        summed = torch.zeros(1, device=device)
        for x, y in batches:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            summed += loss.detach()
        dist.all_reduce(summed)
        if rank == 0:
            say(f"epoch {epoch} loss {summed.item() / (len(batches) * world):.6f}")
            if args.checkpoint:
                state = {
                    "epoch": epoch,
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                }
                save(args.checkpoint, state)
        if stop is not None and epoch < args.epochs and stop.agreed(device):
            if rank == 0:
                say(f"stopped after epoch {epoch}")
            return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small model with PyTorch DDP.")
    parser.add_argument("--epochs", type=int, default=10, help="train up to this epoch [10]")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="save the state here after each epoch, and resume from it if it exists",
    )
    args = parser.parse_args()

    stop = Stop() if args.checkpoint else None  # without a checkpoint, TERM ends it as usual

    # The model is tiny: more threads than requested would only slow each other down.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        # A launcher may make only its own GPU, then number 0, visible to each process.
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        backend, device_id = "nccl", device
    else:
        device = torch.device("cpu")
        backend, device_id = "gloo", None

    if "WORLD_SIZE" in os.environ:
        dist.init_process_group(backend, device_id=device_id)
    else:
        store = dist.HashStore()
        dist.init_process_group(backend, store=store, rank=0, world_size=1, device_id=device_id)

    say(
        f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()}: "
        f"local rank {local_rank}, {device}, {backend}",
    )
    check_all_reduce(device)
    done = train(args, device, stop)
    dist.barrier()
    if done and dist.get_rank() == 0:
        say("done")
    dist.destroy_process_group()
    if not done:
        sys.exit(75)


if __name__ == "__main__":
    main()
