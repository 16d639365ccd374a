"""Judge a classifier on rows that it was not trained on."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import confusion_matrix, get_scorer
from sklearn.model_selection import LeaveOneOut

from arraylearn._typing import HostArray
from arraylearn.backend.errors import warn_caller
from arraylearn.folds import Answers, LabelledRows, open_sample
from arraylearn.progress import show_progress
from arraylearn.selection.fast import find_leave_one_out
from arraylearn.selection.scoring import Scorers, open_scoring
from arraylearn.selection.splitting import make_folds
from arraylearn.selection.trials import Trial, TrialPlan, run_trials
from arraylearn.selection.validation_report import Report

__all__ = ["evaluate", "leave_one_out"]


def evaluate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    scoring: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    refit: bool = True,
    n_jobs: int | None = None,
    fast: bool = True,
    verbose: int | None = None,
) -> Report:
    r"""Judge a classifier by cross-validation, then fit it on all rows.

    More than scikit-learn's ``cross_validate``, which returns times and scores alone.

    .. math:: \bar s = \frac1k \sum_f s_f, \qquad
              \text{s.e.} = \sqrt{\frac{1}{k (k - 1)} \sum_f (s_f - \bar s)^2}

    Parameters
    ----------
    estimator : classifier
        Of this library or of any that follows scikit-learn.
    X : array, data frame or list of lists, (n, d)
        Rows, of any library.
    y : array-like (n,)
        Labels.
    cv : int, splitter of scikit-learn, or iterable of (train, test)
        A number of stratified folds, any splitter (grouped, repeated, ...), or pairs of row numbers or
        boolean masks of all rows.
    scoring : str, callable, list, dict or None
        Metrics of scikit-learn; None: the accuracy.
    groups : array-like (n,), optional
        For splitters that keep groups together.
    sample_weight : array-like (n,), optional
        Weights of the rows in training.
    refit : bool
        Whether to fit the final classifier on all rows.
    n_jobs : int, optional
        Processes for the folds, as in scikit-learn.
    fast : bool
        Whether to use a faster computation for all folds together, where the classifier's family has one; the
        results are those of fitting fold by fold.
    verbose : int, optional
        1: a progress bar, 0: none; by default where the standard error is a terminal.

    Returns
    -------
    Report
        Scores, their mean and standard error, confusion matrix and final classifier; prints as a table. After
        Ctrl-C it holds the folds done so far, and no final classifier.

    Examples
    --------
    >>> import arraylearn as al
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> report = al.evaluate(GaussianNB(), X, y, cv=5)
    >>> round(report.error, 4), round(report.error_standard_error, 4)
    (0.0467, 0.0133)
    >>> report.confusion
    array([[50,  0,  0],
           [ 0, 47,  3],
           [ 0,  4, 46]])
    """
    if isinstance(cv, LeaveOneOut):
        return leave_one_out(
            estimator,
            X,
            y,
            scoring=scoring,
            sample_weight=sample_weight,
            refit=refit,
            fast=fast,
            verbose=verbose,
        )
    begin = time.perf_counter()
    sample = open_sample(X, y, sample_weight)
    folds = make_folds(sample, estimator, cv, groups)
    plan = TrialPlan(estimator, sample, folds, open_scoring(estimator, scoring), keep_predictions=True)
    trials: list[Trial] = []
    is_complete = True
    try:
        with show_progress("folds", len(folds), verbose) as advance:
            for trial in run_trials(plan, [{}], n_jobs=n_jobs, fast=fast):
                trials.append(trial)
                advance()
    except KeyboardInterrupt:
        if not trials:
            raise
        is_complete = False
        _warn_interrupted(len(trials), len(folds), "folds")
    trials.sort(key=lambda trial: trial.fold)
    tested = [folds[trial.fold].test for trial in trials]
    predictions = [trial.predictions for trial in trials if trial.predictions is not None]
    truths = [sample.host_labels(rows) for rows in tested]
    return Report(
        name=type(estimator).__name__,
        scores={name: np.asarray([trial.scores[name] for trial in trials]) for name in trials[0].scores},
        errors=np.asarray([float((p != t).mean()) for t, p in zip(truths, predictions, strict=True)]),
        confusion=_confusion(sample, truths, predictions),
        classes=sample.labels.classes,
        test_rows=tested,
        predictions=predictions,
        train_sizes=[int(folds[trial.fold].train.shape[0]) for trial in trials],
        seconds=time.perf_counter() - begin,
        classifier=sample.fit(clone(estimator)) if refit and is_complete else None,
        is_complete=is_complete,
    )


def leave_one_out(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    sample_weight: Any = None,
    refit: bool = True,
    fast: bool = True,
    verbose: int | None = None,
) -> Report:
    """Judge a classifier on each row in turn, trained on all the others; then fit it on all rows.

    Parameters
    ----------
    estimator, X, y, scoring, sample_weight, refit, fast, verbose
        As in `evaluate`. A metric other than the accuracy is taken once, over the predictions for
        all rows.

    Returns
    -------
    Report
        As of `evaluate`. After Ctrl-C it holds the rows done so far.

    Examples
    --------
    >>> import arraylearn as al
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> report = al.leave_one_out(GaussianNB(), X[::5], y[::5])
    >>> report.errors.sum(), report.confusion.sum()
    (np.float64(1.0), np.int64(30))
    """
    begin = time.perf_counter()
    sample = open_sample(X, y, sample_weight)
    scorers = open_scoring(estimator, scoring)
    answers = None
    path = find_leave_one_out(estimator) if fast else None
    if path is not None:
        answers = path(estimator, sample)
    if answers is None:
        answers = _leave_out_in_turn(estimator, sample, verbose, with_more=scoring is not None)
    predictions = answers.answer("predict")
    n_done = int(predictions.shape[0])
    rows = np.arange(n_done)
    truth = sample.host_labels(rows)
    errors = (predictions != truth).astype("float64")
    is_complete = n_done == sample.n_rows
    return Report(
        name=type(estimator).__name__,
        scores=_pooled_scores(scorers, answers, truth, errors),
        errors=errors,
        confusion=_confusion(sample, [truth], [predictions]),
        classes=sample.labels.classes,
        test_rows=[rows[i : i + 1] for i in range(n_done)],
        predictions=[predictions[i : i + 1] for i in range(n_done)],
        train_sizes=[sample.n_rows - 1] * n_done,
        seconds=time.perf_counter() - begin,
        classifier=sample.fit(clone(estimator)) if refit and is_complete else None,
        is_complete=is_complete,
    )


def _leave_out_in_turn(
    estimator: Any, sample: LabelledRows, verbose: int | None, *, with_more: bool
) -> Answers:
    """Fit once per row; `with_more`: also keep scores and probabilities, which other metrics need."""
    n = sample.n_rows
    rows = np.arange(n)
    found: dict[str, list[HostArray]] = {}
    n_done = 0
    try:
        with show_progress("rows", n, verbose) as advance:
            for i in range(n):
                others = rows[rows != i]
                model = sample.fit(clone(estimator), others)
                answers = Answers.of(model, sample.rows(model, rows[i : i + 1], others))
                names = list(answers.responses) if with_more else ["predict"]
                one = {name: answers.answer(name)[0] for name in names}
                for name, value in one.items():
                    found.setdefault(name, []).append(value)
                n_done += 1
                advance()
    except KeyboardInterrupt:
        if n_done == 0:
            raise
        _warn_interrupted(n_done, n, "rows")
    return Answers(
        sample.labels.classes,
        {name: lambda name=name: np.asarray(found[name][:n_done]) for name in found},  # type: ignore[misc]
    )


def _pooled_scores(
    scorers: Scorers, answers: Answers, truth: HostArray, errors: HostArray
) -> dict[str, HostArray]:
    """Compute each metric over all rows, but the accuracy row by row, so that it has a standard error."""
    accuracy = get_scorer("accuracy")
    return {
        name: 1.0 - errors
        if scorer is accuracy or repr(scorer) == repr(accuracy)
        else np.asarray([float(scorer(answers, truth, truth))])
        for name, scorer in scorers.items()
    }


def _confusion(sample: LabelledRows, truths: list[HostArray], predictions: list[HostArray]) -> HostArray:
    k = sample.labels.classes.shape[0]
    total = np.zeros((k, k), dtype=np.int64)
    for truth, predicted in zip(truths, predictions, strict=True):
        total = total + confusion_matrix(truth, predicted, labels=sample.labels.classes)
    return total


def _warn_interrupted(n_done: int, n: int, what: str) -> None:
    warn_caller(f"Interrupted: the report holds {n_done} of {n} {what}.", UserWarning)
