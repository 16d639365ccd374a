"""A fake CUDA device that computes, for the CPU build of torch.

    from tests.backends.torch_fake_cuda import FakeCuda

    with FakeCuda(forbid_sync=True) as gpu:
        x = torch.ones(3, device="cuda")     # says cuda:0; the numbers are real and live on the CPU
        y = x + torch.ones(3)                # RuntimeError: two devices, as on CUDA
        float(x.sum())                       # HostSync
    gpu.sync_log, gpu.launches

Environment variable:
    TORCH_FAKE_CUDA_CACHE   where the compiled guard and the table of dtypes are kept
                            (default: torch_fake_cuda in the user's cache directory)
"""

from .fake_device import CudaTensor, FakeCuda, HostSync
from .guard import unavailable

__all__ = ["CudaTensor", "FakeCuda", "HostSync", "unavailable"]
