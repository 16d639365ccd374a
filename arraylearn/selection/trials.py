"""Fit and judge candidates fold by fold: a loop for any classifier, a fast path where its family has one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any, NamedTuple

from sklearn.base import is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.parallel import Parallel, delayed

from arraylearn._typing import HostArray
from arraylearn.backend.errors import warn_caller
from arraylearn.folds import Answers, Candidate, Fold, LabelledRows, set_candidate
from arraylearn.selection.fast import find_fast_path
from arraylearn.selection.scoring import Scorers, needs_model
from arraylearn.table.subsets import take_rows

__all__ = ["Trial", "TrialPlan", "run_trials"]


class TrialPlan(NamedTuple):
    """The estimator, rows, folds and scorers of a search, and what to keep."""

    estimator: Any
    sample: LabelledRows
    folds: list[Fold]
    scorers: Scorers
    keep_predictions: bool = False  # of the test rows
    train_scores: bool = False  # whether the training rows are scored, too
    error_score: Any = "raise"  # or the score of a candidate whose fit fails
    weigh_scores: bool = False  # whether metrics that know weights get those of the test rows


class Trial(NamedTuple):
    """One candidate on one fold."""

    candidate: int  # position among the candidates
    fold: int  # position among the folds
    scores: dict[str, float]
    train_scores: dict[str, float] | None  # None: not asked for
    fit_seconds: float
    score_seconds: float
    predictions: HostArray | None = None  # of the test rows; None: not kept
    failure: str | None = None  # the error of the fit; then scores are the error score, by the known names


def run_trials(
    plan: TrialPlan, candidates: Sequence[Candidate], *, n_jobs: int | None = None, fast: bool = True
) -> Iterator[Trial]:
    """Judge every candidate on every fold, one candidate after the other unless a fast path joins them.

    A fast path gives the results of the loop. One that yields no models is not used where a scorer or the
    training scores need them. Candidates and folds that it does not yield are fitted one by one.
    """
    path = None
    if fast:
        is_model_read = plan.train_scores or needs_model(plan.scorers)
        path = find_fast_path(plan.estimator, candidates, needs_model=is_model_read)
    todo = [(c, f) for c in range(len(candidates)) for f in range(len(plan.folds))]
    if path is not None:
        answered = set()
        begin = time.perf_counter()
        for c, f, model in path.judge(plan.estimator, candidates, plan.sample, plan.folds):
            seconds = time.perf_counter() - begin
            yield _judge(plan, c, f, model, seconds)
            answered.add((c, f))
            begin = time.perf_counter()
        todo = [pair for pair in todo if pair not in answered]
    if n_jobs is None or n_jobs == 1:
        for c, f in todo:
            yield _try_one(plan, candidates[c], c, f)
    else:
        workers = Parallel(n_jobs=n_jobs, return_as="generator")
        yield from workers(delayed(_try_one)(plan, candidates[c], c, f) for c, f in todo)


def _try_one(plan: TrialPlan, candidate: Candidate, c: int, f: int) -> Trial:
    """Fit a clone on the training rows and judge it on the others."""
    begin = time.perf_counter()
    try:
        model = plan.sample.fit(set_candidate(plan.estimator, candidate), plan.folds[f].train)
    except Exception as error:
        if isinstance(plan.error_score, str):
            raise
        return _failed(plan, c, f, time.perf_counter() - begin, error)
    seconds = time.perf_counter() - begin
    return _judge(plan, c, f, model, seconds)


def _judge(plan: TrialPlan, c: int, f: int, model: Any, fit_seconds: float) -> Trial:
    begin = time.perf_counter()
    train, test = plan.folds[f]
    scores, answers = _score(plan, model, test, train)
    train_scores = _score(plan, model, train, train)[0] if plan.train_scores else None
    predictions = answers.answer("predict") if plan.keep_predictions else None
    return Trial(c, f, scores, train_scores, fit_seconds, time.perf_counter() - begin, predictions)


def _score(
    plan: TrialPlan, model: Any, rows: HostArray, train: HostArray
) -> tuple[dict[str, float], Answers]:
    """Compute every score of a fitted model, or of known answers, on some rows."""
    sample = plan.sample
    labels = sample.host_labels(rows)
    X = None
    answers = model
    if not isinstance(model, Answers):
        X = sample.rows(model, rows, train)
        answers = Answers.of(model, X)
    scores: dict[str, float] = {}
    for name, scorer in plan.scorers.items():
        if needs_model({name: scorer}):
            value = _attempt(plan, scorer, model, X, take_rows(sample.y, rows))
        else:
            # `answers` does not read X; it holds the predictions that the scorer of a classifier asks for
            judged = (answers, labels) if is_classifier(model) else (model, X)
            value = _attempt(plan, scorer, *judged, labels, **_score_weights(plan, scorer, rows))
        if isinstance(value, dict):  # a function that takes several scores at once
            scores |= {key: float(score) for key, score in value.items()}
        else:
            scores[name] = float(value)
    return scores, answers


def _attempt(plan: TrialPlan, scorer: Any, *arguments: Any, **weights: HostArray) -> Any:
    """Return the result of a scorer; if it raises, the error score if there is one."""
    try:
        return scorer(*arguments, **weights)
    except Exception as error:
        if isinstance(plan.error_score, str):
            raise
        warn_caller(
            f"Scoring failed ({type(error).__name__}: {error}); the score is {plan.error_score}. "
            "error_score='raise' shows where.",
            UserWarning,
        )
        return float(plan.error_score)


def _score_weights(plan: TrialPlan, scorer: Any, rows: HostArray) -> dict[str, HostArray]:
    weight = plan.sample.sample_weight
    if weight is None or not plan.weigh_scores:
        return {}
    knows_weights = "sample_weight" in signature(scorer._score_func).parameters
    return {"sample_weight": weight.take(rows)} if knows_weights else {}


def _failed(plan: TrialPlan, c: int, f: int, seconds: float, error: Exception) -> Trial:
    failure = f"{type(error).__name__}: {error}"
    warn_caller(
        f"Fitting candidate {c} failed on fold {f} ({failure}); its scores are {plan.error_score}. "
        "error_score='raise' shows where.",
        FitFailedWarning,
    )
    scores = dict.fromkeys(plan.scorers, float(plan.error_score))
    train_scores = dict(scores) if plan.train_scores else None
    return Trial(c, f, scores, train_scores, seconds, 0.0, failure=failure)
