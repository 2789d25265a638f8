"""Stand-ins for the tools that report GPUs.

ROCM_SMI prints what public issues quote of ``rocm-smi --showuse --showmeminfo vram --csv`` (marimo
9237; with power and temperature, beszel 414) of an MI250X, whose second die reports no power (wandb
pull request 5449). AMD_SMI has the titles of AMD's own sources (``amd-smi monitor --csv``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict

NVIDIA_SMI = """\
#!/bin/sh
echo "index, utilization.gpu [%]"
cat "$USE"
"""
ROCM_SMI = """\
#!/bin/sh
cat <<'END'
WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

device,Temperature (Sensor edge) (C),Temperature (Sensor junction) (C),\
Temperature (Sensor memory) (C),Average Graphics Package Power (W),GPU use (%),\
VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series,Card Model,Card Vendor
card0,49.0,50.0,62.0,91.0,97,68702699520,1079578624,AMD INSTINCT MI200,0x7408,AMD
card1,N/A,46.0,N/A,N/A,0,68702699520,11317248,AMD INSTINCT MI200,0x7408,AMD

END
"""
AMD_SMI = """\
#!/bin/sh
echo "gpu,power_usage,hotspot_temperature,memory_temperature,gfx,gfx_clock,vram_used,vram_total"
echo "0,135,48,40,87,1200,1024,65520"
echo "1,N/A,42,38,N/A,N/A,11,65520"
"""


def install(folder: Path, tools: Dict[str, str]) -> str:
    """Write tools into a folder of their own; return a PATH on which they are found."""
    for name, text in tools.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"
