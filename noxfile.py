"""The project's own environments: `nox -s tests` is all a fresh machine needs."""

import os
import shutil

import nox

nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests", "lint", "types"]
nox.options.reuse_existing_virtualenvs = True
nox.needs_version = ">=2024.4"

# A CPU build is enough for every test. Installed first and pinned: a looser requirement would fetch the
# CUDA build with gigabytes of libraries.
TORCH = "torch==2.13.0"
# The list in tests/peers names the tests of this release.
SCIKIT_LEARN = "1.9.1"
# The emulator replaces private names of CuPy: it is tested with exactly these.
EMULATED_CUPY = [
    "cupy-cuda13x==14.2.0",
    "cython==3.2.4",
    "setuptools>=77",
    "nvidia-cuda-runtime",
    "nvidia-cuda-crt",
    "nvidia-cuda-nvrtc",
]
PYTEST = ["python", "-m", "pytest"]
# Where results come from products of matrices, whose rounding depends on the kernel that BLAS picks.
NUMERIC = ["tests/svm", "tests/bayes", "tests/gaussian", "tests/kernels", "tests/selection"]
# What chooses a body, and what the learners promise.
WITHOUT_NUMBA = ["tests/backend/test_compiled.py", "tests/contract/test_contract.py", "tests/forest"]
BLAS_KERNELS = ["Haswell", "Zen", "SkylakeX", "Sandybridge", "Prescott"]


def install(session: nox.Session, *extras: str, torch: bool = True) -> None:
    if torch:
        session.install(TORCH)
    chosen = f"[{','.join(extras)}]" if extras else ""
    session.install("-e", f".{chosen}")


def parallel() -> list[str]:
    """Two test processes on two cores or more; BLAS then gets one thread in each."""
    return ["-n", "2"] if (os.cpu_count() or 1) > 1 else []


def one_blas_thread() -> dict[str, str]:
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@nox.session
def tests(session: nox.Session) -> None:
    """All default tests on numpy, its compiled bodies, array-api-strict and torch, with the doctests."""
    install(session, "test", "plot")
    session.run(*PYTEST, *(session.posargs or parallel()), env=one_blas_thread())


@nox.session
def coverage(session: nox.Session) -> None:
    """The default tests again, with the lines and branches they miss."""
    install(session, "test", "plot")
    report = ["--cov", "--cov-report=term:skip-covered"]
    session.run(*PYTEST, *parallel(), *report, *session.posargs, env=one_blas_thread())


@nox.session
def slow(session: nox.Session) -> None:
    """Tests marked slow: reference figures and depths that take tens of seconds each, on NumPy."""
    install(session, "test", "plot")
    session.run(
        *PYTEST,
        "tests",
        *parallel(),
        "--rungs",
        "numpy",
        "-m",
        "slow",
        *session.posargs,
        env=one_blas_thread(),
    )


@nox.session
def digests(session: nox.Session) -> None:
    """Every learner's models against recorded digests, by array programs and compiled bodies."""
    install(session, "test", torch=False)
    run = session.posargs or parallel()
    session.run(*PYTEST, "tests/digests", "-m", "digests", *run, env=one_blas_thread())


@nox.session
def peers(session: nox.Session) -> None:
    """scikit-learn's own installed tests on our classes, judged by a list of expected differences."""
    install(session, "test", "plot", torch=False)
    session.install(f"scikit-learn=={SCIKIT_LEARN}")
    session.run("python", "-m", "tests.peers", *(session.posargs or parallel()), env=one_blas_thread())


@nox.session
def lint(session: nox.Session) -> None:
    """Style, docstrings, banned imports."""
    session.install("ruff>=0.12")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types with mypy --strict."""
    install(session, "plot", torch=False)
    session.install("mypy>=1.15", "scipy-stubs")
    session.run("mypy")


@nox.session
def strict(session: nox.Session) -> None:
    """Rungs 0 and 2: the static check of every ``xp.`` call, then array-api-strict alone, both devices."""
    install(session, "test", "plot")
    session.run("python", "-m", "tests.backends.static_check", "arraylearn")
    rungs = ["--rungs", "strict,strict_float32"]
    session.run(*PYTEST, "tests", *parallel(), *rungs, *session.posargs, env=one_blas_thread())


@nox.session
def fake_cuda(session: nox.Session) -> None:
    """Rung 4: torch on a computing fake CUDA device (placement, syncs, dtypes, order of additions)."""
    install(session, "test", "plot")
    session.install("expecttest")
    environment = {"ARRAYLEARN_REQUIRE_RUNGS": "1", **one_blas_thread()}
    session.run(*PYTEST, "tests", *parallel(), "--rungs", "fake_cuda", *session.posargs, env=environment)


@nox.session
def no_numba(session: nox.Session) -> None:
    """NumPy where Numba is not installed: the learners, their warning, the command line."""
    install(session, "test", torch=False)
    session.run("pip", "uninstall", "--yes", "--quiet", "numba", "llvmlite")
    environment = {"ARRAYLEARN_COMPILED": "auto", **one_blas_thread()}
    expected = ["-W", "ignore:Numba is not installed:arraylearn.BackendFallbackWarning"]
    run = session.posargs or [*WITHOUT_NUMBA, *parallel()]
    session.run(*PYTEST, *expected, "--rungs", "numpy", *run, env=environment)
    session.run("arraylearn", "demo", env=environment)


@nox.session
def blas(session: nox.Session) -> None:
    """Numeric tests under each kernel of OpenBLAS that this CPU has: `nox -s blas -- Haswell Prescott`."""
    install(session, "test", "plot")
    seen: dict[str, str] = {}
    for kernel in session.posargs or BLAS_KERNELS:
        environment = {"OPENBLAS_CORETYPE": kernel, "ARRAYLEARN_REQUIRE_RUNGS": "1", **one_blas_thread()}
        kernel_command = ["python", "-m", "tests.backends.blas_kernel", kernel]
        picked = str(session.run(*kernel_command, silent=True, env=environment)).strip()
        session.log(f"{kernel}: {picked}")
        if picked.startswith("left out"):
            continue
        if picked in seen:
            session.log(f"{kernel}: the same code as {seen[picked]}, which has run")
            continue
        seen[picked] = kernel
        rungs = ["--rungs", "numpy,strict_float32,compiled"]
        session.run(*PYTEST, *NUMERIC, *parallel(), *rungs, env=environment)
    if not seen:
        session.skip("none of these kernels runs on this CPU")


@nox.session
def cupy_emulated(session: nox.Session) -> None:
    """Rungs 5 and 6: the real CuPy wheel on an emulated device; then NVRTC accepts its kernels."""
    install(session, "test", "plot")
    session.install(*EMULATED_CUPY)
    environment = {"ARRAYLEARN_REQUIRE_RUNGS": "1", **one_blas_thread()}
    run = [*PYTEST, *parallel(), "--rungs"]
    session.run(*run, "cupy", *(session.posargs or ["tests"]), env=environment)
    compiled = ["tests/backend/test_ops.py", "tests/kernels/test_kernel_cases.py", "tests/walk"]
    session.run(*run, "cupy_nvrtc", *compiled, env=environment)


@nox.session
def bench(session: nox.Session) -> None:
    """Our times beside the peers', interleaved: `nox -s bench`, or `nox -s bench -- svm --size medium`.

    Without arguments every family runs at its small size with one and two threads, and the page
    benchmarks/RESULTS.md, its chart, and the figures that they come from are written anew.
    """
    install(session, "bench", "plot")
    session.install("--no-deps", "wittgenstein")  # it asks for old versions of what it does not use
    session.install("pandas")
    kept = ["--threads", "1", "2", "--json", "benchmarks/last_run.json"]
    kept += ["--results", "benchmarks/RESULTS.md", "--chart", "benchmarks/results.svg"]
    session.run("arraylearn", "bench", *(session.posargs or kept))


@nox.session
def docs(session: nox.Session) -> None:
    """Render the reference of the public names into docs/_build."""
    install(session, torch=False)
    session.install("pdoc>=15")
    shutil.rmtree("docs/_build", ignore_errors=True)
    session.run("pdoc", "-d", "numpy", "-o", "docs/_build", "arraylearn")
