"""The fake device: a tensor subclass that wraps a CPU tensor, and a mode that sees every operation."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from . import dtypes, guard

aten = torch.ops.aten
CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
MEMORY = 16 << 30

# Operations after which the host must know a value or a shape: on a GPU it waits for it.
ALWAYS_SYNC = {
    aten._local_scalar_dense,
    aten._linalg_check_errors,
    aten._linalg_eigh,
    aten._linalg_svd,
    aten._unique2,
    aten.allclose,
    aten.bincount,
    aten.equal,
    aten.is_nonzero,
    aten.linalg_lstsq,
    aten.linalg_pinv,
    aten.masked_select,
    aten.nonzero,
    aten.unique_consecutive,
    aten.unique_dim,
}
ALLOCATIONS = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided}
INDEXED_WRITES = {aten.index_put, aten.index_put_, aten._index_put_impl_}
INDEX_REDUCTIONS = {aten.index_add, aten.index_add_, aten.index_reduce, aten.index_reduce_}
SCATTERS = {
    aten.scatter,
    aten.scatter_,
    aten.scatter_add,
    aten.scatter_add_,
    aten.scatter_reduce,
    aten.scatter_reduce_,
}
INDEXING = {aten.index} | INDEXED_WRITES
MAY_MIX_DEVICES = {aten._to_copy, aten.copy_, aten.lift_fresh, aten.detach} | INDEXING


class HostSync(RuntimeError):
    """The host waited for the device where it must not."""


class CudaTensor(torch.Tensor):
    """Says that it is on cuda:0 and keeps its numbers in a CPU tensor."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, cpu_tensor):
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls,
            cpu_tensor.size(),
            strides=cpu_tensor.stride(),
            storage_offset=cpu_tensor.storage_offset(),
            dtype=cpu_tensor.dtype,
            device=CUDA,
        )
        wrapper.on_cpu = cpu_tensor
        return wrapper

    def __repr__(self):
        return f"CudaTensor({self.on_cpu!r})"

    def data_ptr(self):
        """The address of the numbers, for kernels that run on the CPU."""
        return self.on_cpu.data_ptr()

    # torch takes a tensor with an address for one with a storage, and would copy that

    def __reduce_ex__(self, protocol):
        return CudaTensor, (self.on_cpu,)

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), CudaTensor(self.on_cpu.clone()))

    def numpy(self, *args, **kwargs):
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __array__(self, *args, **kwargs):
        return self.numpy()

    def tolist(self):
        return self.cpu().tolist()

    def __dlpack_device__(self):
        return torch.utils.dlpack.DLDeviceType.kDLCUDA, 0

    def __dlpack__(self, *args, **kwargs):
        raise BufferError("the memory of a fake device cannot be handed to another library")

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        # an active FakeCuda sees the operation first, so this is a tensor that outlived its device
        raise RuntimeError(f"{operation} on a CudaTensor outside `with FakeCuda()`")


class FakeCuda(TorchDispatchMode):
    """Inside `with FakeCuda()`, device="cuda" works.

    forbid_sync   raise HostSync where the host would wait for the device
    shuffle       scatter, index_add, index_put and weighted bincount take their terms in a random order
    seed          of that order
    check_dtypes  refuse integer dtypes for which torch has no CUDA kernel (first use takes some seconds)

    sync_log      the operations that made the host wait, in order
    operations    how often each operation ran on the device
    launches      how many operations ran on the device, without views; an estimate of kernel launches
    """

    def __init__(
        self, *, forbid_sync: bool = False, shuffle: bool = False, seed: int = 0, check_dtypes: bool = True
    ) -> None:
        super().__init__()
        self.forbid_sync = forbid_sync
        self.shuffle = shuffle
        self.check_dtypes = check_dtypes
        self.sync_log: list[str] = []
        self.operations: Counter[str] = Counter()
        self.launches = 0
        self._generator = torch.Generator().manual_seed(seed)
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> FakeCuda:
        guard.load()
        self._patches.enter_context(mock.patch.multiple(torch.cuda, **self._functions_of_torch_cuda()))
        self._patches.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(data, device="cuda") is then made by a copy
        return super().__enter__()

    def __exit__(self, *error):
        self._patches.close()
        return super().__exit__(*error)

    def _functions_of_torch_cuda(self) -> dict[str, Any]:
        return {
            "_lazy_init": lambda: None,  # it would look for a driver
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "current_stream": lambda device=None: SimpleNamespace(cuda_stream=0),
            "device": lambda device=None: contextlib.nullcontext(),
            "get_device_capability": lambda device=None: (9, 0),
            "get_device_name": lambda device=None: "torch_fake_cuda",
            "mem_get_info": lambda device=None: (MEMORY // 2, MEMORY),
            "reset_peak_memory_stats": lambda device=None: None,
            "memory_allocated": lambda device=None: 0,
            "max_memory_allocated": lambda device=None: 0,
            "synchronize": lambda device=None: self._note("torch.cuda.synchronize"),
        }

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, whatever makes the host wait raises HostSync."""
        before = self.forbid_sync
        self.forbid_sync = True
        try:
            yield
        finally:
            self.forbid_sync = before

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        cpu_tensors = [tensor for tensor in tensors if not isinstance(tensor, CudaTensor)]
        on_device = len(cpu_tensors) < len(tensors)
        if on_device:
            self._check_devices(operation, args, cpu_tensors)
            self._check_dtype(operation, args)
            self._note_syncs(operation, args, kwargs)
        result_on_device = _result_on_device(operation, args, kwargs, on_device)
        if on_device or result_on_device:
            self._count(operation)
        result = self._compute(operation, args, kwargs, on_device)
        if not result_on_device:
            return result
        if operation.overloadpacket in ALLOCATIONS:
            _poison(result)
        return return_and_correct_aliasing(operation, args, kwargs, tree_map(_wrap, result))

    # ---- checks

    def _check_devices(self, operation, args, cpu_tensors):
        packet = operation.overloadpacket
        if packet in INDEXING:
            _check_index_devices(packet, args)
        # a CPU tensor without dimensions counts as a number, as on CUDA
        if packet not in MAY_MIX_DEVICES and any(tensor.dim() > 0 for tensor in cpu_tensors):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"cuda:0 and cpu! (when checking {operation})"
            )

    def _check_dtype(self, operation, args):
        if self.check_dtypes and args and isinstance(args[0], CudaTensor):
            dtypes.check(operation, args[0])

    # ---- records

    def _count(self, operation):
        self.operations[str(operation)] += 1
        if not operation.is_view:
            self.launches += 1

    def _note_syncs(self, operation, args, kwargs):
        packet = operation.overloadpacket
        if packet in ALWAYS_SYNC:
            self._note(operation)
        if packet is aten.repeat_interleave and kwargs.get("output_size") is None:
            self._note(f"{operation} without output_size")
        if _copies_to_host(packet, args, kwargs):
            self._note(f"{operation} from device to host")
        if packet in INDEXING and isinstance(args[0], CudaTensor):
            self._note_index_syncs(operation, args, kwargs)

    def _note_index_syncs(self, operation, args, kwargs):
        indices = _index_tensors(args)
        if any(_is_mask(index) for index in indices) and not _is_masked_fill(
            operation.overloadpacket, args, kwargs
        ):
            self._note(f"{operation} with a boolean mask")
        if any(not isinstance(index, CudaTensor) for index in indices):
            self._note(f"{operation} with an index on the CPU")

    def _note(self, event):
        self.sync_log.append(str(event))
        if self.forbid_sync:
            raise HostSync(f"host synchronisation by {event}")

    # ---- computation

    def _compute(self, operation, args, kwargs, on_device):
        cpu_args, cpu_kwargs = tree_map(_unwrap, (args, kwargs))
        if cpu_kwargs.get("device") is not None:
            cpu_kwargs = dict(cpu_kwargs, device=CPU)
        if self.shuffle and on_device:
            cpu_args = _shuffled(operation.overloadpacket, cpu_args, self._generator)
        return operation(*cpu_args, **cpu_kwargs)


def _wrap(value):
    if isinstance(value, torch.Tensor) and not isinstance(value, CudaTensor):
        return CudaTensor(value)
    return value


def _unwrap(value):
    return value.on_cpu if isinstance(value, CudaTensor) else value


def _poison(tensor):
    """Memory that was never written must not look like good numbers."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(float("nan"))
    elif tensor.dtype != torch.bool:
        tensor.fill_(torch.iinfo(tensor.dtype).max)


def _result_on_device(operation, args, kwargs, on_device):
    if operation.overloadpacket is aten.copy_:
        return isinstance(args[0], CudaTensor)
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"]).type == "cuda"
    return on_device


def _copies_to_host(packet, args, kwargs):
    if packet is aten.copy_:
        return not isinstance(args[0], CudaTensor)
    target = kwargs.get("device")
    return packet is aten._to_copy and target is not None and torch.device(target).type == "cpu"


def _index_tensors(args):
    return [index for index in args[1] if index is not None]


def _is_mask(index):
    return index.dtype in (torch.bool, torch.uint8)


def _is_masked_fill(packet, args, kwargs):
    """`x[mask] = number` becomes masked_fill in torch, which needs no wait."""
    if packet not in INDEXED_WRITES:
        return False
    value = args[2]
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    is_number = value.numel() == 1 and not isinstance(value, CudaTensor)
    return is_number and not accumulate and len(_index_tensors(args)) == 1


def _check_index_devices(packet, args):
    target_on_device = isinstance(args[0], CudaTensor)
    if not target_on_device and any(isinstance(index, CudaTensor) for index in _index_tensors(args)):
        raise RuntimeError(
            "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
        )
    if packet in INDEXED_WRITES:
        value = args[2]
        if isinstance(value, CudaTensor) != target_on_device and value.dim() > 0:
            raise RuntimeError("index_put_: Expected all tensors to be on the same device")


# ---- the order of terms, which on a GPU is not defined


def _shuffled(packet: Any, args: tuple, generator: torch.Generator) -> tuple:
    """The same operation with its terms in another order."""
    if packet in INDEX_REDUCTIONS:
        target, dimension, index, source, *rest = args
        order = torch.randperm(index.numel(), generator=generator)
        return (target, dimension, index.reshape(-1)[order], source.index_select(dimension, order), *rest)
    if packet in SCATTERS and isinstance(args[3], torch.Tensor) and args[2].dim() > 0:
        target, dimension, index, source, *rest = args
        order = torch.randperm(index.shape[dimension], generator=generator)
        used = source[tuple(slice(size) for size in index.shape)]
        return (
            target,
            dimension,
            index.index_select(dimension, order),
            used.index_select(dimension, order),
            *rest,
        )
    if packet in INDEXED_WRITES and _writes_rows(args):
        target, indices, values, *rest = args
        order = torch.randperm(indices[0].shape[0], generator=generator)
        if values.dim() == target.dim() - len(indices) + 1 and values.shape[0] == len(order):
            values = values[order]  # otherwise one value for every position
        return (target, [index[order] for index in indices], values, *rest)
    if packet is aten.bincount and len(args) > 1 and args[1] is not None:
        keys, weights, *rest = args
        order = torch.randperm(keys.numel(), generator=generator)
        return (keys[order], weights[order], *rest)
    return args


def _writes_rows(args: tuple) -> bool:
    """`x[i] = v` and `x[i, j] = v` with integer vectors of one length."""
    indices = args[1]
    if any(index is None or index.dim() != 1 or _is_mask(index) for index in indices):
        return False
    return len({index.shape[0] for index in indices}) == 1
