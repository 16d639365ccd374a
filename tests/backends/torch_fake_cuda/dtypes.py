"""Which dtypes have a CUDA kernel, according to the OpInfo database that is part of the torch wheel.

The database lists the dtypes that torch's own tests try on CUDA.  It is used here to refuse integer types;
the entries for half precision depend on the machine that reads the database and are ignored.
Reading it takes seconds, so an extract is kept in the cache directory.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.backends.cache import cache_directory

NOT_JUDGED = {torch.float16, torch.bfloat16, torch.complex32, torch.bool}

# These move data without arithmetic on it; the database only lists the types that have gradients.
MOVERS = {"index_add", "scatter_add", "gather", "index", "index_put", "take_along_dim"}

# Read in a process of its own: the database configures torch for torch's own tests.
EXTRACT = """
import json
from torch.testing._internal.common_methods_invocations import op_db
supported = {}
for info in op_db:
    if info.dtypes and not info.variant_test_name:
        on_cuda = {str(dtype).removeprefix("torch.") for dtype in info.dtypesIfCUDA or info.dtypes}
        supported.setdefault(info.aten_name, set()).update(on_cuda)
print(json.dumps({name: sorted(dtypes) for name, dtypes in sorted(supported.items())}))
"""


def check(operation: Any, tensor: torch.Tensor) -> None:
    """Raise as CUDA does when the operation has no kernel for the tensor's dtype."""
    name = operation.overloadpacket._qualified_op_name.split("::")[1].rstrip("_")
    supported = supported_on_cuda().get(name)
    if supported is None or tensor.dtype in supported or tensor.dtype in NOT_JUDGED:
        return
    if name in MOVERS and tensor.dtype == torch.int64:
        return
    raise RuntimeError(f"\"{name}_cuda\" not implemented for '{tensor.dtype}' (torch's OpInfo database)")


@functools.cache
def supported_on_cuda() -> dict[str, set[torch.dtype]]:
    """The dtypes of each operation, by its name in aten."""
    table = (
        cache_directory("torch_fake_cuda", "TORCH_FAKE_CUDA_CACHE") / f"dtypes-torch{torch.__version__}.json"
    )
    if not table.exists():
        _write(table)
    names = json.loads(table.read_text())
    return {operation: {getattr(torch, name) for name in dtypes} for operation, dtypes in names.items()}


def _write(table: Path) -> None:
    result = subprocess.run([sys.executable, "-c", EXTRACT], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(
            f"torch's OpInfo database is not readable (is expecttest installed?)\n{result.stderr[-2000:]}"
        )
    table.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=table.parent, delete=False) as scratch:
        scratch.write(result.stdout.splitlines()[-1])
    os.replace(scratch.name, table)  # atomic, so two processes may both do this
