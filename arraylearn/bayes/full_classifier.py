"""The full Bayes classifier: the door to `arraylearn.bayes.full`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.moments import grouped_moments
from arraylearn.backend.errors import warn_caller
from arraylearn.backend.namespace import from_host, read_together, to_host
from arraylearn.bayes import full, naive
from arraylearn.bayes.fitted_tables import FittedTables, TableMaker
from arraylearn.bayes.full import FullModel, FullStatistics
from arraylearn.bayes.naive import NaiveModel, class_log_prior
from arraylearn.bayes.shared_classifier import (
    BayesClassifier,
    SingularCovarianceWarning,
    UndefinedVarianceWarning,
)
from arraylearn.checks import check_choice, check_number, is_number, refuse
from arraylearn.estimator import Batch
from arraylearn.gaussian import amplification, is_expansion_safe

__all__ = ["VARIANCE_FLOOR", "FullBayesClassifier"]

# What a diagonal covariance adds to its variances, as a fraction of the largest: as naive Bayes does.
VARIANCE_FLOOR = 1e-9


@dataclass(kw_only=True, eq=False, repr=False)
class FullBayesClassifier(BayesClassifier):
    r"""Bayes classifier with one multivariate normal distribution per class.

    .. math:: P(c \mid x) \propto P(c)\, (2\pi)^{-d/2} \det(\Sigma_c)^{-1/2}
              \exp\left(-\tfrac12 (x - \mu_c)^T \Sigma_c^{-1} (x - \mu_c)\right)

    With covariances of their own the classes have quadratic boundaries (quadratic discriminant analysis),
    with a shared one linear boundaries.

    Parameters
    ----------
    covariance : {"full", "shared", "diagonal"}, default "full"
        One matrix per class; one matrix for all, pooled within the classes; or variances alone, which is
        naive Bayes.
    variance : {"unbiased", "ml"}, default "unbiased"
        Divisor of a covariance: :math:`n_c - 1` or :math:`n_c` (shared: :math:`n - k` or :math:`n`).
    shrinkage : float, "auto" or None, default None
        Move each covariance towards a sphere: :math:`(1 - a) \Sigma + a\,\tfrac{\mathrm{tr} \Sigma}{d} I`
        with :math:`0 \le a \le 1`. "auto" estimates :math:`a` for each class as Ledoit and Wolf do, on
        standardized columns. Not with the diagonal covariance.
    covariance_estimator : estimator, optional
        What estimates the covariance of each class from its rows instead: an object whose `fit` sets
        ``covariance_``, such as those of `sklearn.covariance`. Without `shrinkage`, weights and
        `partial_fit`, and not with the diagonal covariance.
    reg_param : float, default 0.0
        Move each covariance, or variance, towards 1 afterwards: :math:`(1 - r) \Sigma + r I`.
    priors : array-like (k,) or mapping of class to probability, optional
        Class priors; default: the frequencies.
    verbose : int
        1: a progress bar, of one step.
    backend : str, optional
        Where to compute, for example ``"cupy"``; default: where the data is.

    Attributes
    ----------
    classes_ : array (k,)
        Class labels, sorted.
    class_prior_ : array (k,)
        Class priors.
    means_ : array (k, d)
        Means of the columns in each class.
    covariance_ : array (k, d, d)
        Covariance matrices of the classes; the same for all if shared.
    model_ : FullModel or NaiveModel
        Means, covariances and their inverse Cholesky factors; means and variances if diagonal.

    Warns
    -----
    SingularCovarianceWarning
        Where a covariance has no inverse: 1 % of the variances within all classes (pooled; those of the whole
        column where they are 0) is added to its diagonal. A class with one row has no unbiased covariance at
        all: it gets the pooled variances as a diagonal matrix. The warning names the classes.

    See Also
    --------
    NaiveBayesClassifier : attributes that are independent, nominal, or missing.

    Notes
    -----
    Columns must be numeric and without missing values. `explain` follows the chain rule: the share of a
    column is its density given the columns before it, :math:`p(x_j \mid x_1, \dots, x_{j-1}, c)`.

    References
    ----------
    O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", Journal of
    Multivariate Analysis 88, 2004.

    Examples
    --------
    >>> import arraylearn as al
    >>> X = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [5.0, 5.0], [6.0, 8.0], [7.0, 6.0]]
    >>> clf = al.FullBayesClassifier().fit(X, [0, 0, 0, 1, 1, 1])
    >>> clf.predict([[1.0, 1.0], [6.0, 6.0]])
    array([0, 1])
    >>> clf.predict_proba([[3.5, 3.5]]).round(3)
    array([[0.518, 0.482]])
    """

    _accepts_missing: ClassVar[bool] = False
    _accepts_nominal: ClassVar[bool] = False

    covariance: Literal["full", "shared", "diagonal"] = "full"
    variance: Literal["unbiased", "ml"] = "unbiased"
    shrinkage: float | Literal["auto"] | None = None
    covariance_estimator: Any = None
    reg_param: float = 0.0
    priors: Any = None
    verbose: int = 0
    backend: str | None = None

    def _check_parameters(self) -> None:
        check_choice("covariance", self.covariance, ("full", "shared", "diagonal"))
        check_choice("variance", self.variance, ("unbiased", "ml"))
        is_fraction = is_number(self.shrinkage) and 0 <= self.shrinkage <= 1
        if self.shrinkage is not None and self.shrinkage != "auto" and not is_fraction:
            raise refuse("shrinkage", "must be None, 'auto' or a number from 0 to 1", repr(self.shrinkage))
        check_number("reg_param", self.reg_param, 0, 1)
        for name in ("shrinkage", "covariance_estimator"):
            value = getattr(self, name)
            if value is not None and self.covariance == "diagonal":
                raise ValueError(
                    f"`{name}` must be None with covariance='diagonal'; got {value!r}. "
                    "It is for matrices with correlations."
                )
        if self.shrinkage is not None and self.covariance_estimator is not None:
            raise ValueError(
                "`shrinkage` must be None with a `covariance_estimator`, which estimates covariances by "
                f"itself; got {self.shrinkage!r}."
            )

    # ---- learning

    def _take_statistics(self, batch: Batch, classes: Array, weights: Array | None) -> FullStatistics:
        xp, x, k = batch.place.xp, batch.table.numeric, self.classes_.shape[0]
        if self.covariance == "diagonal":
            return FullStatistics(grouped_moments(xp, x, classes, k, weights), None, None)
        found = full.full_statistics(xp, x, classes, k, weights, higher=self.shrinkage == "auto")
        if self.covariance_estimator is None:
            return found
        if weights is not None:
            raise ValueError("`sample_weight` must be None with a `covariance_estimator`; got weights.")
        scatter = self._estimate_scatter(to_host(x), to_host(classes), to_host(found.moments.scatter))
        moments = found.moments
        return FullStatistics(
            moments._replace(scatter=from_host(scatter, batch.place, moments.scatter.dtype)), None, None
        )

    def _estimate_scatter(self, x: HostArray, classes: HostArray, scatter: HostArray) -> HostArray:
        """Return the scatters (k, d, d) that stand for the covariances of `covariance_estimator`."""
        found = np.array(scatter, dtype=np.float64)
        for c in range(found.shape[0]):
            rows = x[classes == c]
            if rows.shape[0] < 2:
                continue  # too few rows to estimate: treated as without a `covariance_estimator`
            estimator = clone(self.covariance_estimator, safe=False)
            estimator.fit(np.astype(rows, np.float64))
            if not hasattr(estimator, "covariance_"):
                name = type(estimator).__name__
                raise refuse("covariance_estimator", "must have `covariance_` after `fit`", name)
            divisor = rows.shape[0] - (1 if self.variance == "unbiased" else 0)
            found[c] = divisor * np.asarray(estimator.covariance_)
        return found

    def _merge_statistics(self, xp: Namespace, old: Any, new: Any) -> FullStatistics:
        if self.covariance_estimator is not None:
            raise ValueError(
                "`covariance_estimator` must be None for partial_fit: it needs the rows of all calls at once."
            )
        return full.merge_statistics(xp, old, new)

    def _estimate(self, batch: Batch, statistics: FullStatistics, is_bad: Array) -> FullModel | NaiveModel:
        log_prior = self._log_prior(batch.place)
        if log_prior is None:
            log_prior = class_log_prior(batch.place.xp, statistics.moments.weight, 0.0)
        if self.covariance == "diagonal":
            return self._estimate_variances(batch, statistics, log_prior, is_bad)
        return self._estimate_matrices(batch, statistics, log_prior, is_bad)

    def _estimate_variances(
        self, batch: Batch, statistics: FullStatistics, log_prior: Array, is_bad: Array
    ) -> NaiveModel:
        xp, moments = batch.place.xp, statistics.moments
        found = naive.column_variances(xp, moments, divisor=self.variance, share=VARIANCE_FLOOR)
        if self.reg_param:
            found = found._replace(var=(1.0 - self.reg_param) * found.var + float(self.reg_param))
        is_missed = found.is_undefined[:, 0] & (moments.weight > 0)
        flags, missed, amplified = read_together(
            batch.place, is_bad, is_missed, amplification(xp, found.mean, found.var)
        )
        self._refuse_flags(flags)
        if missed.any():
            warn_caller(
                f"the unbiased variance needs two rows; class {self._named(missed)} has one. The variances "
                "of all rows stand in. Add rows, drop the class, or use variance='ml'.",
                UndefinedVarianceWarning,
            )
        table = xp.zeros((0, log_prior.shape[0]), dtype=log_prior.dtype, device=batch.place.device)
        return NaiveModel(log_prior, table, found.mean, found.var, (0,), float(amplified))

    def _estimate_matrices(
        self, batch: Batch, statistics: FullStatistics, log_prior: Array, is_bad: Array
    ) -> FullModel:
        place, moments = batch.place, statistics.moments
        is_shared = self.covariance == "shared"
        shrinkage = float(self.shrinkage) if is_number(self.shrinkage) else self.shrinkage
        found = full.estimate_covariances(
            place.xp, statistics, divisor=self.variance, shared=is_shared, shrinkage=shrinkage
        )
        found = found._replace(cov=full.regularized(place.xp, found.cov, float(self.reg_param)))
        model, is_definite = full.factor_model(place.xp, log_prior, moments.mean, found, None)
        is_missed = found.is_undefined if is_shared else found.is_undefined & (moments.weight > 0)
        flags, missed, definite, amplified = read_together(
            place, is_bad, is_missed, is_definite, full.shared_amplification(place.xp, model)
        )
        self._refuse_flags(flags)
        if not definite.all():
            model, _ = full.factor_model(place.xp, log_prior, moments.mean, found, is_definite)
            amplified = np.asarray(np.inf)
        self._warn_singular(missed, definite == 0)
        return model._replace(amplification=float(amplified))

    def _warn_singular(self, missed: HostArray, singular: HostArray) -> None:
        """Warn of the classes whose covariance is singular, or undefined for lack of rows."""
        remedy = "Add rows, drop constant columns and copies of columns, or set `shrinkage`."
        is_shared = self.covariance == "shared"
        if singular.any():
            whose = (
                "the shared covariance" if is_shared else f"the covariance of class {self._named(singular)}"
            )
            warn_caller(
                f"{whose} is singular; {full.SINGULAR_SHARE:.0%} of the variances within the classes was "
                f"added to its diagonal. {remedy}",
                SingularCovarianceWarning,
            )
        if missed.any():
            whose = "every class" if is_shared else f"class {self._named(missed)}"
            warn_caller(
                f"the unbiased covariance needs two rows; {whose} has one. The variances within the classes "
                f"stand in. {remedy}",
                SingularCovarianceWarning,
            )

    def _named(self, chosen: HostArray) -> str:
        return ", ".join(map(repr, self.classes_[chosen.astype(bool)].tolist()))

    # ---- predicting

    def _joint(self, batch: Batch, model: FullModel | NaiveModel) -> Array:
        xp, table = batch.place.xp, batch.table
        by_product = is_expansion_safe(xp, model.amplification, batch.float_dtype)
        if isinstance(model, NaiveModel):
            return naive.joint_log_likelihood(xp, model, table.numeric, table.codes, by_product=by_product)
        return full.joint_log_likelihood(xp, model, table.numeric, by_product=by_product)

    def _terms(self, batch: Batch, model: FullModel | NaiveModel) -> Array:
        xp, table = batch.place.xp, batch.table
        if isinstance(model, NaiveModel):
            order = from_host(list(range(table.schema.n_columns)), batch.place)
            return naive.log_likelihood_terms(xp, model, table.numeric, table.codes, order)
        return full.chain_terms(xp, model, table.numeric)

    @property
    def means_(self) -> HostArray:
        """Means (k, d) of the columns in each class; changing them does not change the model."""
        check_is_fitted(self)
        return np.array(to_host(self.model_.mean))

    @property
    def covariance_(self) -> HostArray:
        """Covariance matrices (k, d, d) of the classes; changing them does not change the model."""
        check_is_fitted(self)
        if isinstance(self.model_, NaiveModel):
            return to_host(self.model_.var)[:, :, None] * np.eye(self.n_features_in_)
        known = to_host(self.model_.covariance)
        return known.repeat(len(self.classes_) // known.shape[0], axis=0)

    # ---- tables

    def _make_tables(self) -> FittedTables:
        names, classes = self.schema_.names, self.classes_.tolist()
        mean = self.means_
        tables = TableMaker("class", classes, self.class_prior_)
        if isinstance(self.model_, NaiveModel):
            var = to_host(self.model_.var)
            for j, name in enumerate(names):
                tables.add_normal(name, mean[:, j], var[:, j])
            return tables.make()
        for label, center, matrix in zip(classes, mean, self.covariance_, strict=True):
            tables.add_covariance(label, names, center, matrix)
        return tables.make()
