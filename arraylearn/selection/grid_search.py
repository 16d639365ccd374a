"""Choose hyper-parameters: a grid or a random sample of it, judged on folds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from sklearn._config import get_config
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, ParameterGrid, ParameterSampler
from sklearn.utils import get_tags

from arraylearn.backend.errors import warn_caller
from arraylearn.backend.random import RandomState
from arraylearn.estimator import all_or_nothing, forget_fit
from arraylearn.folds import Answers, Candidate, open_sample, set_candidate
from arraylearn.progress import show_progress
from arraylearn.selection.scoring import needs_model, open_scoring
from arraylearn.selection.splitting import are_pairs, make_folds, read_folds
from arraylearn.selection.trials import Trial, TrialPlan, run_trials
from arraylearn.table.subsets import count_rows

__all__ = ["GridSearch"]


@dataclass(kw_only=True, eq=False, repr=False)
class GridSearch(GridSearchCV):
    """Search for the best parameters of a classifier by cross-validation.

    The interface and the results are those of scikit-learn's ``GridSearchCV``, which it extends. Candidates
    that the classifier's family can compute together share work; others are fitted in a loop.

    Parameters
    ----------
    estimator : classifier
        Of this library or of any that follows scikit-learn.
    param_grid : dict or list of dicts
        Values to try for each parameter; distributions too where `n_iter` is given.
    n_iter : int, optional
        Number of random candidates to draw from `param_grid`; by default all of them are tried.
    scoring : str, callable, list, dict or None
        Metrics of scikit-learn; None: the accuracy.
    n_jobs : int, optional
        Processes for the candidates and folds that are fitted in the loop.
    refit : bool, str or callable
        Whether to fit the best candidate on all rows; with several metrics the name of the one that decides.
    cv : int, splitter of scikit-learn, iterable of (train, test), or None
        How to cut the rows; None: 5 stratified folds. Pairs hold row numbers or boolean masks of all rows.
    error_score : "raise" or float
        The score of a candidate whose fit fails.
    return_train_score : bool
        Whether to score the training rows too.
    random_state : int, generator or None
        Seed of the random candidates.
    fast : bool
        Whether to use a faster computation for several folds and candidates together, where the classifier's
        family has one.
    verbose : int, optional
        1: a progress bar, 0: none; by default where the standard error is a terminal.

    Attributes
    ----------
    cv_results_ : dict of arrays
        As of ``GridSearchCV``.
    best_params_, best_score_, best_index_, best_estimator_, refit_time_, scorer_, n_splits_, multimetric_
        As of ``GridSearchCV``.
    is_complete_ : bool
        False after Ctrl-C: then the results hold the candidates judged on all folds (or, if there is none,
        the folds that all candidates so far were judged on), and none was refitted.

    Examples
    --------
    >>> import arraylearn as al
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> search = al.GridSearch(GaussianNB(), {"var_smoothing": [1e-9, 1e-1, 10.0]}, cv=5).fit(X, y)
    >>> search.best_params_
    {'var_smoothing': 1e-09}
    >>> search.cv_results_["mean_test_score"].round(3)
    array([0.953, 0.933, 0.9  ])
    """

    estimator: Any = field(kw_only=False)
    param_grid: Any = field(kw_only=False)
    n_iter: int | None = None
    scoring: Any = None
    n_jobs: int | None = None
    refit: Any = True
    cv: Any = None
    error_score: Any = float("nan")
    return_train_score: bool = False
    random_state: RandomState = None
    fast: bool = True
    verbose: int | None = None

    def fit(
        self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None, **params: Any
    ) -> Self:
        """Judge all candidates and refit the best.

        Without labels, with other parameters of `fit`, and where scikit-learn routes metadata, its own loop
        runs: without fast paths and progress.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows, of any library.
        y : array-like (n,), optional
            Labels; none for estimators that learn without.
        groups : array-like (n,), optional
            For splitters that keep groups together.
        sample_weight : array-like (n,), optional
            Weights of the rows in training, and in metrics that know weights.
        **params
            Passed to the `fit` of the candidates; what has an entry per row is cut with the rows.
        """
        with all_or_nothing(lambda: forget_fit(self)):
            if y is None or params or get_config()["enable_metadata_routing"]:
                given = {"groups": groups, "sample_weight": sample_weight}
                self._fit_by_sklearn(X, y, params | {k: v for k, v in given.items() if v is not None})
            else:
                self._fit_by_trials(X, y, groups, sample_weight)
        return self

    def _fit_by_trials(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> None:
        """Judge the candidates, by fast paths where there are some, and refit the best."""
        sample = open_sample(X, y, sample_weight)
        scorers = open_scoring(self.estimator, self.scoring)
        candidates = self._candidates()
        folds = make_folds(sample, self.estimator, self.cv, groups)
        plan = TrialPlan(
            self.estimator,
            sample,
            folds,
            scorers,
            train_scores=self.return_train_score,
            error_score=self.error_score,
            weigh_scores=True,
        )
        trials = self._collect(plan, candidates)
        self.n_splits_ = len({trial.fold for trial in trials})
        self._keep_results(candidates, trials)
        if self.refit and self.is_complete_:
            begin = time.perf_counter()
            self.best_estimator_ = sample.fit(set_candidate(self.estimator, self.best_params_))
            self.refit_time_ = time.perf_counter() - begin
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        is_one_function = callable(self.scoring) or not self.multimetric_
        self.scorer_ = scorers["score"] if is_one_function else scorers

    def _fit_by_sklearn(self, X: Any, y: Any, params: dict[str, Any]) -> None:
        """Let scikit-learn judge the candidates, and copy its results."""
        inner = GridSearchCV(
            self.estimator,
            [{name: [value] for name, value in candidate.items()} for candidate in self._candidates()],
            scoring=self.scoring,
            n_jobs=self.n_jobs,
            refit=self.refit,
            cv=read_folds(self.cv, count_rows(X)) if are_pairs(self.cv) else self.cv,
            error_score=self.error_score,
            return_train_score=self.return_train_score,
        )
        found = vars(inner.fit(X, y, **params))
        vars(self).update({name: value for name, value in found.items() if name.endswith("_")})
        self.is_complete_ = True

    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """Return the score of the best candidate on other rows, by the metric that chose it.

        `params` are for the metric, where scikit-learn routes metadata.
        """
        self._check_is_fitted_for_score()
        if params:
            return float(super().score(X, y, **params))
        scorer = self.scorer_[self.refit] if isinstance(self.scorer_, dict) else self.scorer_
        if y is None or needs_model({"score": scorer}):
            score = scorer(self.best_estimator_, X, y)
            return float(score[self.refit] if isinstance(score, dict) else score)
        sample = open_sample(X, y)
        labels = sample.labels.classes.take(sample.labels.codes)
        return float(scorer(Answers.of(self.best_estimator_, X), labels, labels))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _check_is_fitted_for_score(self) -> None:
        if not hasattr(self, "cv_results_"):
            raise NotFittedError(
                "This GridSearch instance is not fitted yet. Call 'fit' before using 'score'."
            )
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(
                "This GridSearch has no refitted candidate: fit it, with `refit` on and without interruption."
            )

    def _candidates(self) -> list[Candidate]:
        """Return all candidates, or the random ones."""
        if self.n_iter is None:
            return list(ParameterGrid(self.param_grid))
        seed = self.random_state
        if not isinstance(seed, int | None):
            seed = int(seed.integers(2**31 - 1)) if hasattr(seed, "integers") else seed
        return list(ParameterSampler(self.param_grid, self.n_iter, random_state=seed))

    def _collect(self, plan: TrialPlan, candidates: Sequence[Candidate]) -> list[Trial]:
        """Run the trials; after Ctrl-C keep those that can be compared."""
        trials: list[Trial] = []
        n = len(candidates) * len(plan.folds)
        self.is_complete_ = True
        try:
            with show_progress("candidates x folds", n, self.verbose) as advance:
                for trial in run_trials(plan, candidates, n_jobs=self.n_jobs, fast=self.fast):
                    trials.append(trial)
                    advance()
        except KeyboardInterrupt:
            trials, what = _comparable(trials, len(candidates), len(plan.folds))
            if not trials:
                raise
            self.is_complete_ = False
            warn_caller(f"Interrupted: the results hold {what}; nothing is refitted.", UserWarning)
        return sorted(trials, key=lambda trial: (trial.candidate, trial.fold))

    def _keep_results(self, candidates: Sequence[Candidate], trials: list[Trial]) -> None:
        """Keep the results in the form of scikit-learn, and find the best candidate."""
        if all(trial.failure for trial in trials):
            raise ValueError(
                f"All the {len(trials)} fits failed; the first error was {trials[0].failure} "
                "error_score='raise' shows where."
            )
        trials = _same_scores(trials, self.error_score)
        names = list(trials[0].scores)
        self.multimetric_ = names != ["score"]
        metric = self._deciding_metric(names)
        out = [
            {
                "fit_time": trial.fit_seconds,
                "score_time": trial.score_seconds,
                "test_scores": self._one_or_all(trial.scores),
            }
            for trial in trials
        ]
        if self.return_train_score:
            for row, trial in zip(out, trials, strict=True):
                row["train_scores"] = self._one_or_all(trial.train_scores)
        judged = [candidates[c] for c in dict.fromkeys(trial.candidate for trial in trials)]
        self.cv_results_ = self._format_results(judged, self.n_splits_, out)
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, metric, self.cv_results_)
            self.best_params_ = self.cv_results_["params"][self.best_index_]
            if not callable(self.refit):
                self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]

    def _one_or_all(self, scores: Any) -> Any:
        """Return the scores of all metrics by name, or the score of the only one."""
        return scores if self.multimetric_ else scores["score"]

    def _deciding_metric(self, names: list[str]) -> str:
        if not self.multimetric_:
            return "score"
        if self.refit and not callable(self.refit) and self.refit not in names:
            raise ValueError(
                f"`refit` must name one of the metrics {names}, be False or a function; got {self.refit!r}."
            )
        return str(self.refit)


def _same_scores(trials: list[Trial], error_score: Any) -> list[Trial]:
    """Give failed fits the score names of the others: those of a function are known only after a call."""
    names = next((list(trial.scores) for trial in trials if trial.failure is None), list(trials[0].scores))
    if all(list(trial.scores) == names for trial in trials):
        return trials
    same = []
    for trial in trials:
        if list(trial.scores) != names:
            scores = dict.fromkeys(names, float(error_score))
            trial = trial._replace(scores=scores, train_scores=trial.train_scores and dict(scores))
        same.append(trial)
    return same


def _comparable(trials: list[Trial], n_candidates: int, n_folds: int) -> tuple[list[Trial], str]:
    """Return the trials of candidates judged on all folds; if there are none, of folds shared by all."""
    folds: dict[int, set[int]] = {}
    for trial in trials:
        folds.setdefault(trial.candidate, set()).add(trial.fold)
    done = {c for c, tried in folds.items() if len(tried) == n_folds}
    if done:
        return [
            trial for trial in trials if trial.candidate in done
        ], f"{len(done)} of {n_candidates} candidates"
    # a single candidate cannot be compared with others
    shared = set.intersection(*folds.values()) if len(folds) > 1 else set()
    kept = [trial for trial in trials if trial.fold in shared]
    return kept, f"{len(folds)} of {n_candidates} candidates on {len(shared)} of {n_folds} folds"
