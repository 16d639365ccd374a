"""Checks of support vector machines and their kernels."""

from __future__ import annotations

from typing import Any

from arraylearn.io.check_table import check_classifier, check_columns
from arraylearn.io.fields import Fields, fields_of, is_number
from arraylearn.kernels import objects as kernels
from arraylearn.svm.machine import Machine
from arraylearn.svm.probability import Sigmoids
from arraylearn.svm.tasks import LastFit, Task

__all__ = ["check_one_class", "check_svc", "check_svdd"]

_MOST_NESTED = 64  # kernels within kernels
_LARGEST_DEGREE = 1 << 20
_LARGEST_FACTOR = 1e100  # of numbers that are multiplied with squares of rows


def check_svc(fields: Fields) -> None:
    """Check a fitted `SVC`."""
    check_classifier(fields)
    n_classes = fields.sizes["k"]
    model = _check_machine(fields)
    n_tasks = {1 if n_classes == 2 else n_classes, n_classes * (n_classes - 1) // 2}
    fields.refuse("there must be a task per class or pair", unless=model.intercept.shape[0] in n_tasks)
    fields.refuse(
        "weights must fit the tasks",
        unless=model.weights.shape[0] == (n_classes - 1 if model.is_pairwise else model.intercept.shape[0]),
    )
    fields.refuse(
        "every class must have its support vectors",
        unless=not model.is_pairwise or len(model.ends) == n_classes,
    )
    fields.sizes["p"] = model.intercept.shape[0]
    fields.array("support_", "int64", "s", low=0)
    fields.array("n_support_", "int64", "k", low=0)
    fields.array("dual_coef_", "float", "rows s")
    fields.array("intercept_", "float", "p")
    fields.array("margin_ objective_ gap_", "float64", "p", is_finite=False)
    fields.array("n_iter_", "int64", "p", low=0)
    fields.array("converged_", "bool", "p")
    fields.array("slack_", "float64", "n", "n p", is_finite=False)
    fields.optional_part("sigmoids_", Sigmoids, _check_sigmoids)
    fields.optional_part("last_fit_", LastFit, _check_last_fit)


def check_one_class(fields: Fields) -> None:
    """Check a fitted `OneClassSVM`."""
    _check_unlabelled(fields)
    fields.array("intercept_", "float64", "1")
    fields.number("offset_")


def check_svdd(fields: Fields) -> None:
    """Check a fitted `SVDD`."""
    _check_unlabelled(fields)
    fields.number("radius_ offset_")


def _check_unlabelled(fields: Fields) -> None:
    check_columns(fields)
    model = _check_machine(fields)
    fields.refuse("there must be one task", unless=model.weights.shape[0] == model.intercept.shape[0] == 1)
    fields.refuse("there must be no pairs", unless=not model.is_pairwise)
    fields.array("support_", "int64", "s", low=0)
    fields.array("dual_coef_", "float", "1 s")
    fields.number("objective_ gap_", is_finite=False)
    fields.natural("n_iter_")


def _check_machine(fields: Fields) -> Machine:
    """Check the machine; the number of its support vectors is the letter ``s`` from there on."""
    kernel = fields.take("kernel_", _is_kernel, "a kernel")
    machine = fields.part("model_", Machine, _check_parts)
    fields.refuse("both kernels must be the same", unless=machine.kernel == kernel)
    fields.sizes["s"] = machine.weights.shape[1]
    if type(kernel) is kernels.Precomputed:
        fields.array("support_vectors_", "float64", "0 0")
    else:
        fields.array("support_vectors_", "float", "s d")
    return machine


def _check_parts(fields: Fields) -> None:
    kernel = fields.take("kernel", _is_kernel, "a kernel")
    fields.array("weights", "float", "rows s")
    fields.array("intercept", "float", "p")
    if type(kernel) is kernels.Precomputed:
        fields.array("vectors", "int64", "s", low=0, high=fields.sizes["d"] - 1)
    else:
        fields.array("vectors", "float", "s d")
    is_linear = type(kernel) is kernels.Linear
    if fields.take("direction", lambda value: is_linear or value is None, "null") is not None:
        fields.array("direction", "float", "p d")
    ends = fields.numbers("ends", tuple)
    ascends = all(type(end) is int and end >= 0 for end in ends) and list(ends) == sorted(ends)
    fields.refuse(
        "ends must ascend to the support vectors", unless=ascends and ends[-1:] in ((), (fields.sizes["s"],))
    )


def _check_sigmoids(fields: Fields) -> None:
    fields.array("slope shift", "float", "p")


def _check_last_fit(fields: Fields) -> None:
    tasks = fields.take("tasks", lambda value: _is_list_of(Task, value), "a list of tasks")
    betas = fields.take("betas", lambda value: isinstance(value, list), "a list of multipliers")
    fields.refuse("there must be multipliers per task", unless=len(betas) == len(tasks))
    n_rows = fields.array("bound", "float64", "n", low=0, is_finite=False).shape[0]
    for task, beta in zip(tasks, betas, strict=True):
        solved = Fields(f"{fields.owner}.tasks", fields_of(task) | {"beta": beta})
        solved.array("rows", "int64", "m", low=0, high=n_rows - 1)
        solved.array("sign", "float64", "m", low=-1, high=1)
        solved.array("beta", "float64", "m")
        solved.finish()


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is kind for one in value)


def _is_kernel(value: object, depth: int = 0) -> bool:
    """Whether a value is a kernel that a file can hold, with numbers where numbers belong."""
    if depth > _MOST_NESTED:
        return False
    match value:
        case kernels.Linear() | kernels.Precomputed():
            return True
        case kernels.Gaussian(gamma=gamma):
            return _is_factor(gamma)
        case kernels.Polynomial(degree=degree, coef0=coef0, gamma=gamma):
            return degree <= _LARGEST_DEGREE and _is_factor(coef0) and _is_factor(gamma)
        case kernels.Sigmoid(gamma=gamma, coef0=coef0):
            return _is_factor(coef0) and _is_factor(gamma)
        case kernels.Sum(first=first, second=second) | kernels.Product(first=first, second=second):
            return _is_kernel(first, depth + 1) and _is_kernel(second, depth + 1)
        case kernels.Scaled(kernel=kernel, factor=factor):
            return _is_factor(factor) and _is_kernel(kernel, depth + 1)
    return False


def _is_factor(value: Any) -> bool:
    return is_number(value) and abs(value) <= _LARGEST_FACTOR
