"""The change that makes a program for one GPU distributed: what it writes, and what it leaves."""

from __future__ import annotations

import ast
import difflib
from typing import List

import pytest

from neuronctl.submission.distributed_program import distribute

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
WRAPPED = "model = DistributedDataParallel(model)"


def added(text: str) -> List[str]:
    """The new lines, without what every program gets."""
    change = distribute(text)
    assert change is not None
    ast.parse(change.text)
    lines = difflib.ndiff(text.splitlines(), change.text.splitlines())
    return [line[2:] for line in lines if line.startswith("+ ") and line.strip() != "+"]


def test_a_model_is_wrapped_on_its_gpu_and_before_its_optimizer() -> None:
    before = f"{HEAD}model = make().cuda()\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
    lines = added(before)
    assert WRAPPED in lines and "import os" in lines and "import torch.distributed as dist" in lines
    later = f"{HEAD}model = make()\nopt = AdamW(model.parameters())\n"
    later += "model = model.to(device)\nf(model)\n"
    change = distribute(later)
    assert change and f"model = model.to(device)\n{WRAPPED}\nf(model)\n" in change.text


def test_of_the_model_itself_what_the_wrapper_lacks() -> None:
    lines = added(
        HEAD + "model = make()\nmodel.load_state_dict(s)\nopt = SGD(model.parameters(), lr=0.1)\n"
        "model.train()\nmodel.generate(x)\nmodel.load_state_dict(s)\n"
        "def save(model):\n    torch.save(model.state_dict(), 'm')\n"
    )
    assert "model.module.generate(x)" in lines and "model.module.load_state_dict(s)" in lines
    assert "    if dist.get_rank() == 0:" in lines
    assert "        torch.save(model.module.state_dict(), 'm')" in lines
    assert len([line for line in lines if "load_state_dict" in line]) == 1


def test_two_models_are_wrapped_each() -> None:
    lines = added(HEAD + "a, b = make()\nx = Adam(a.parameters())\ny = Adam(self.b.parameters())\n")
    assert "a = DistributedDataParallel(a)" in lines
    assert "self.b = DistributedDataParallel(self.b)" in lines


@pytest.mark.parametrize(
    ("call", "now"),
    [
        ("DataLoader(data, shuffle=True)", "DataLoader(data, sampler=DistributedSampler(data))"),
        ("torch.utils.data.DataLoader(dataset=self.d, shuffle=True, num_workers=2)",
         "torch.utils.data.DataLoader(dataset=self.d, sampler=DistributedSampler(self.d), "
         "num_workers=2)"),
    ],
)  # fmt: skip
def test_the_data_of_a_training_is_divided(call: str, now: str) -> None:
    loop = "for epoch in tqdm(range(3)):\n    train(loader)\n"
    lines = added(f"{HEAD}loader = {call}\ntest = DataLoader(other, shuffle=False)\n{loop}")
    assert f"loader = {now}" in lines and not any("test =" in line for line in lines)
    assert "    loader.sampler.set_epoch(epoch)  # shuffles" in lines


def test_each_process_takes_its_own_gpu() -> None:
    before = HEAD + 'd = torch.device("cuda:0")\ne = torch.device("cuda", 0)\nx.cuda(0)\n'
    before += "torch.cuda.set_device(1)\no = SGD(model.parameters())\n"
    assert 'd = torch.device("cuda")' in added(before)
    change = distribute(before)
    assert change is not None and "".join(change.by_hand).count("name no other") == 3


def test_it_begins_and_ends_with_the_program() -> None:
    guarded = HEAD + "def main():\n    o = SGD(model.parameters())\nif __name__ == '__main__':\n"
    lines = added(guarded + "    main()\n")
    assert next(line for line in lines if "process_group()" in line).startswith("    dist.init")
    assert lines[-1] == "    dist.destroy_process_group()"
    assert not any("destroy" in line for line in added(guarded + "    sys.exit(main())\n"))
    assert added(guarded[:-1] + " main()\n")[-1] == "dist.destroy_process_group()"


def test_data_that_a_loader_makes_itself_is_left() -> None:
    make = "loader = DataLoader(make(8), batch_size=4, shuffle=True)\n"
    left = distribute(HEAD + "net = Net()\nopt = SGD(net.parameters())\n" + make)
    assert left is not None and "replace shuffle by" in " ".join(left.by_hand)


def test_what_the_text_does_not_show_is_left_in_words() -> None:
    change = distribute(
        HEAD + "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n"
        "loader = DataLoader(data, **options)\nmodel = nn.DataParallel(make())\n"
        "opt = SGD(model.parameters())\nif ok: torch.save(model, 'm')\n"
    )
    assert change is not None and len(change.by_hand) == 4
    said = " ".join(change.by_hand)
    for words in ("leave CUDA", "has one GPU", "save on one"):
        assert words in said
    assert "line 4 before the change: leave CUDA" in said
    assert "wrap the model" in distribute(HEAD + "l = DataLoader(d, shuffle=True)\n").by_hand[0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "", "print(1)\n", "def (\n", "model = make()\n", "a = 1; o = SGD(model.parameters())\n",
        "o = SGD(m.parameters())\r\n", "dist = 1\no = SGD(m.parameters())\n", "o = (" * 5000,
    ],
)  # fmt: skip
def test_what_cannot_be_changed_is_left_alone(text: str) -> None:
    assert distribute(text) is None


def test_what_is_left_is_in_the_order_of_the_lines() -> None:
    change = distribute(
        HEAD + "model = make()\nopt = SGD(model.parameters(), lr=0.1)\n"
        "def move(x):\n    return x.cuda(1)\nmodel.cuda(2)\n"
    )
    assert change is not None
    assert [text.split()[1] for text in change.by_hand if text.startswith("line ")] == ["6", "7"]
