"""Train a small language model with the Hugging Face Trainer, over as many runs as it takes.

    neuronctl submit … --until-done --checkpoint out train_hf.py --epochs 20

At TERM, all ranks save and stop together after the current step, and the program ends with 75; the
next run goes on from there. The data is random: nothing is downloaded.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Stop(TrainerCallback):
    """Save and stop after the step in which this process, or one of the others, received TERM."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, number: int, frame: object) -> None:
        self.asked = True

    def on_step_end(self, args, state, control, **more) -> None:
        asked = torch.tensor(float(self.asked), device=args.device)
        if dist.is_initialized():
            dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        if asked.item():
            control.should_save = control.should_training_stop = True


def last_checkpoint(out: Path) -> str | None:
    """The newest one that is whole: trainer_state.json is written last."""
    whole = [file.parent for file in out.glob("checkpoint-*/trainer_state.json")]
    newest = max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)
    return str(newest) if newest else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small model with the HF Trainer.")
    parser.add_argument("--epochs", type=int, default=10, help="train up to this epoch [10]")
    parser.add_argument("--out", type=Path, default="out", help="for the checkpoints [out]")
    args = parser.parse_args()

    torch.manual_seed(0)
    tokens = torch.randint(64, (512, 32), generator=torch.Generator().manual_seed(2026))
    shape = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    settings = TrainingArguments(
        output_dir=str(args.out),
        num_train_epochs=args.epochs,
        per_device_train_batch_size=16,
        learning_rate=1e-3,
        save_strategy="epoch",
        save_total_limit=2,
        logging_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),  # else each process trains alone without GPUs
    )
    trainer = Trainer(
        model=GPT2LMHeadModel(shape),
        args=settings,
        train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
        callbacks=[Stop()],
    )
    found = last_checkpoint(args.out)
    if trainer.is_world_process_zero() and found:
        print(f"resuming from {found}", flush=True)
    trainer.train(resume_from_checkpoint=found)
    if trainer.state.global_step < trainer.state.max_steps:
        sys.exit(75)
    if trainer.is_world_process_zero():
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        print(f"done: step {trainer.state.global_step}, loss {losses[-1]}")


if __name__ == "__main__":
    main()
