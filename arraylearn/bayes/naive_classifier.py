"""The naive Bayes classifier: the door to `arraylearn.bayes.naive`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.errors import warn_caller
from arraylearn.backend.namespace import from_host, read_together, to_host
from arraylearn.bayes.fitted_tables import FittedTables, TableMaker
from arraylearn.bayes.naive import (
    NaiveModel,
    NaiveStatistics,
    Smoothing,
    cell_offsets,
    class_log_prior,
    column_variances,
    count_statistics,
    estimate_model,
    joint_log_likelihood,
    least_variances,
    log_likelihood_terms,
    merge_statistics,
    rounding_variances,
)
from arraylearn.bayes.posterior import SUM_TOLERANCE
from arraylearn.bayes.shared_classifier import BayesClassifier, UndefinedVarianceWarning
from arraylearn.checks import check_choice, check_integer, check_number, list_some, refuse
from arraylearn.estimator import Batch
from arraylearn.gaussian import amplification, is_expansion_safe
from arraylearn.table import Schema
from arraylearn.table.schema import ExtendedSchema, extend_schema

__all__ = ["NaiveBayesClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class NaiveBayesClassifier(BayesClassifier):
    r"""Naive Bayes for nominal and numeric attributes in one model.

    .. math:: P(c \mid x) \propto P(c) \prod_{j\ \text{nominal}} P(a_j = x_j \mid c)
              \prod_{j\ \text{numeric}} N(x_j;\, \mu_{cj}, \sigma_{cj}^2)

    Everything is computed with logarithms. A missing value (NaN, None, null, a category not seen in `fit`) is
    left out of the product, and out of the counts.

    Parameters
    ----------
    alpha : float, default 1.0
        The Laplace correction :math:`\gamma \ge 0` of nominal attributes with :math:`V_j` values:
        :math:`P(a_j = v \mid c) = (n_{jvc} + \gamma) / (n_{jc} + \gamma V_j)`. 0 is maximum likelihood:
        then a value never seen in a class rules the class out.
    m_estimate : float, optional
        Use the m-estimate :math:`(n_{jvc} + m\,p_{jv}) / (n_{jc} + m)` instead.
    value_priors : "uniform", "marginal" or mapping, default "uniform"
        The :math:`p_{jv}` of the m-estimate: :math:`1 / V_j`, the frequency of the value over all classes, or
        given: ``{attribute: {value: probability}}`` by column name (``"x0"``, ``"x1"``, ... for arrays).
        Attributes that are not named are uniform.
    min_categories : int or array-like (d,), optional
        Least number of values :math:`V_j` that a nominal column counts as, for all or for each column; more
        than occur where some are known to be missing from the rows. A value that does not occur is left out
        of the product all the same.
    smooth_priors : bool, default False
        Whether the class priors get the same correction: :math:`(n_c + \gamma) / (n + \gamma k)`, or
        :math:`(n_c + m / k) / (n + m)`.
    variance : {"unbiased", "ml"}, default "unbiased"
        Divisor of numeric variances: :math:`n_{jc} - 1` or :math:`n_{jc}`.
    var_smoothing : float, optional
        By default a variance follows the precision of its column, as in Weka: a standard deviation is at
        least a sixth of the mean gap :math:`(\max_j - \min_j) / (u_j - 1)` between the :math:`u_j` distinct
        values of the column (over all classes; at most 1,024 of them count), so that values that a class
        happens to share do not rule others out. A number is the rule of scikit-learn instead: this fraction
        of the largest column variance (over all classes) is added to every variance. With 0 nothing is
        added, and a variance of 0 becomes what rounding may feign.
    priors : array-like (k,) or mapping of class to probability, optional
        Class priors; default: estimated.
    categorical_features : "from_dtype", None, or sequence of int, bool or str, default "from_dtype"
        Which columns are nominal. By default the string, categorical and boolean columns of a data frame, and
        none of an array of numbers.
    verbose : int
        1: a progress bar, of one step.
    backend : str, optional
        Where to compute, for example ``"cupy"``; default: where the data is.

    Attributes
    ----------
    classes_ : array (k,)
        Class labels, sorted.
    class_prior_, class_count_ : array (k,)
        Class priors, and the weight of the rows that they come from.
    theta_, var_ : array (k, d)
        Means and variances of the d numeric columns.
    model_ : NaiveModel
        Log priors, log probabilities of the nominal values, means and variances.
    schema_ : Schema
        The columns.

    Warns
    -----
    UndefinedVarianceWarning
        Where a class has fewer than two known values of a numeric column (none, for ``variance="ml"``): the
        variance of the whole column stands in.

    See Also
    --------
    FullBayesClassifier : numeric attributes that depend on one another.

    Notes
    -----
    A row that is impossible in every class (``alpha=0``) gets the prior as its posterior.

    `partial_fit` keeps the distinct values of each numeric column (up to 1,024 numbers), so that any number
    of calls ends with the variances of one fit on all rows.

    References
    ----------
    T. M. Mitchell, "Machine Learning", McGraw-Hill 1997, chapter 6.
    G. H. John, P. Langley, "Estimating continuous distributions in Bayesian classifiers", 1995.

    Examples
    --------
    >>> import arraylearn as al
    >>> X = [["male", 20], ["female", 73], ["female", 37], ["male", 33], ["female", 48], ["male", 29]]
    >>> y = ["A", "B", "A", "B", "A", "A"]
    >>> clf = al.NaiveBayesClassifier(alpha=0).fit(X, y)
    >>> clf.predict([["male", 61], ["female", None]])
    array(['B', 'A'], dtype='<U1')
    >>> print(clf.tables())
    P(class)
           A       B
    ----------------
      0.6667  0.3333
    <BLANKLINE>
    P(x0 | class)
    x0        A    B
    ----------------
    female  0.5  0.5
    male    0.5  0.5
    <BLANKLINE>
    P(x1 | class)
    x1             A       B
    ------------------------
    mean       33.50   53.00
    variance  141.67  800.00
    """

    alpha: float = 1.0
    m_estimate: float | None = None
    value_priors: Literal["uniform", "marginal"] | Mapping[str, Mapping[Any, float]] = "uniform"
    min_categories: Any = None
    smooth_priors: bool = False
    variance: Literal["unbiased", "ml"] = "unbiased"
    var_smoothing: float | None = None
    priors: Any = None
    categorical_features: Any = "from_dtype"
    verbose: int = 0
    backend: str | None = None

    def _check_parameters(self) -> None:
        check_number("alpha", self.alpha, 0)
        check_number("m_estimate", self.m_estimate, 0, optional=True)
        check_number("var_smoothing", self.var_smoothing, 0, optional=True)
        check_choice("variance", self.variance, ("unbiased", "ml"))
        is_named = isinstance(self.value_priors, str) and self.value_priors in ("uniform", "marginal")
        if not is_named and not isinstance(self.value_priors, Mapping):
            rule = "must be 'uniform', 'marginal' or {attribute: {value: probability}}"
            raise refuse("value_priors", rule, repr(self.value_priors))

    # ---- learning

    def _join_schema(self, schema: Schema, is_first: bool) -> NaiveStatistics | None:
        known: NaiveStatistics | None = super()._join_schema(schema, is_first)
        if known is None or not self.schema_.nominal_idx:
            return known
        extended = extend_schema(self.schema_, schema)
        if not extended.has_new:
            return known
        self.schema_ = extended.schema
        return known._replace(counts=_spread_counts(to_host(known.counts), extended))

    def _take_statistics(self, batch: Batch, classes: Array, weights: Array | None) -> NaiveStatistics:
        table = batch.table
        return count_statistics(
            batch.place.xp,
            table.numeric,
            table.codes,
            cell_offsets(table.schema.n_values),
            classes,
            self.classes_.shape[0],
            weights,
        )

    def _merge_statistics(self, xp: Namespace, old: Any, new: Any) -> NaiveStatistics:
        return merge_statistics(xp, old, new)

    def _estimate(self, batch: Batch, statistics: NaiveStatistics, is_bad: Array) -> NaiveModel:
        xp, n_values = batch.place.xp, self.schema_.n_values
        log_prior = self._log_prior(batch.place)
        if log_prior is None:
            log_prior = class_log_prior(xp, statistics.class_weight, self._prior_extra())
        variances = column_variances(
            xp,
            statistics.numeric,
            divisor=self.variance,
            share=float(self.var_smoothing or 0.0),
            least=self._least_variances(batch, statistics),
        )
        model = estimate_model(xp, statistics, log_prior, n_values, self._smoothing(), variances)
        is_missed = variances.is_undefined & (statistics.class_weight > 0)[:, None]
        parts = [is_bad, is_missed, amplification(xp, model.mean, model.var)]
        flags, missed, amplified = read_together(batch.place, *parts)
        self._refuse_flags(flags)
        self._warn_undefined(missed)
        return model._replace(amplification=float(amplified))

    def _smoothing(self) -> Smoothing:
        """Return how probabilities of nominal values are estimated."""
        m, prior = self.m_estimate, self.value_priors
        return Smoothing(
            float(self.alpha),
            None if m is None else float(m),
            _priors_by_cell(prior, self.schema_) if isinstance(prior, Mapping) else prior,
            self._least_values(),
        )

    def _least_values(self) -> tuple[int, ...] | None:
        """Return the least number of values of each nominal column."""
        if self.min_categories is None:
            return None
        schema, given = self.schema_, self.min_categories
        if isinstance(given, Integral):
            given = [given] * schema.n_columns
        listed = list(given) if np.ndim(given) == 1 else []
        if len(listed) != schema.n_columns:
            rule = f"must be an integer, or one for each of {schema.n_columns} columns"
            raise refuse("min_categories", rule, repr(self.min_categories))
        for least in listed:
            check_integer("min_categories", least, 0)
        return tuple(int(listed[j]) for j in schema.nominal_idx)

    def _least_variances(self, batch: Batch, statistics: NaiveStatistics) -> Array | None:
        """Return the least variance (d,) of each column, None for none."""
        xp = batch.place.xp
        if self.var_smoothing is None:
            return least_variances(xp, statistics, float(xp.finfo(batch.float_dtype).smallest_normal))
        return None if self.var_smoothing else rounding_variances(xp, statistics)

    def _prior_extra(self) -> float:
        """Return what is added to the weight of every class."""
        if not self.smooth_priors:
            return 0.0
        return float(self.alpha if self.m_estimate is None else self.m_estimate / self.classes_.shape[0])

    def _warn_undefined(self, missed: HostArray) -> None:
        """Warn of the classes and columns with too few known values for a variance."""
        if not missed.any():
            return
        labels = [label for label, row in zip(self.classes_.tolist(), missed, strict=True) if row.any()]
        names = [self.schema_.names[j] for j in self.schema_.numeric_idx]
        columns = [name for name, column in zip(names, missed.T, strict=True) if column.any()]
        need = "two known values" if self.variance == "unbiased" else "one known value"
        remedy = " or use variance='ml'" if self.variance == "unbiased" else ""
        warn_caller(
            f"the variance needs {need}; class {list_some(labels, 5)} has fewer in column "
            f"{list_some(columns, 5)}. The variance of the whole column stands in. Add rows, drop the class,"
            f"{remedy or ' or impute'}.",
            UndefinedVarianceWarning,
        )

    # ---- predicting

    def _joint(self, batch: Batch, model: NaiveModel) -> Array:
        xp, table = batch.place.xp, batch.table
        by_product = is_expansion_safe(xp, model.amplification, batch.float_dtype)
        return joint_log_likelihood(xp, model, table.numeric, table.codes, by_product=by_product)

    def _terms(self, batch: Batch, model: NaiveModel) -> Array:
        schema, table = self.schema_, batch.table
        grouped = {j: position for position, j in enumerate((*schema.numeric_idx, *schema.nominal_idx))}
        order = from_host([grouped[j] for j in range(schema.n_columns)], batch.place)
        return log_likelihood_terms(batch.place.xp, model, table.numeric, table.codes, order)

    def _may_vanish(self) -> bool:
        weight = self.alpha if self.m_estimate is None else self.m_estimate
        return weight == 0 or isinstance(self.value_priors, Mapping)

    @property
    def theta_(self) -> HostArray:
        """Means (k, d) of the numeric columns in each class; changing them does not change the model."""
        check_is_fitted(self)
        return np.array(to_host(self.model_.mean))

    @property
    def var_(self) -> HostArray:
        """Variances (k, d) of the numeric columns in each class; changing them does not change the model."""
        check_is_fitted(self)
        return np.array(to_host(self.model_.var))

    @property
    def class_count_(self) -> HostArray:
        """Weight (k,) of the training rows of each class; changing it does not change the model."""
        check_is_fitted(self)
        return np.array(to_host(self._statistics.class_weight))

    # ---- tables

    def _make_tables(self) -> FittedTables:
        schema, classes = self.schema_, self.classes_.tolist()
        # small tables, printed on the host: exponentiate there
        prior, table = (np.exp(to_host(part)) for part in (self.model_.log_prior, self.model_.log_table))
        mean, var = to_host(self.model_.mean), to_host(self.model_.var)
        tables = TableMaker("class", classes, prior)
        numeric = {j: i for i, j in enumerate(schema.numeric_idx)}
        nominal = {j: i for i, j in enumerate(schema.nominal_idx)}
        for j, column in enumerate(schema.columns):
            if column.is_nominal:
                first = self.model_.offsets[nominal[j]] + 1
                values = column.domain or ()
                tables.add_nominal(column.name, values, table[first : first + len(values)])
            else:
                tables.add_normal(column.name, mean[:, numeric[j]], var[:, numeric[j]])
        return tables.make()


def _spread_counts(counts: HostArray, extended: ExtendedSchema) -> HostArray:
    """Move the counts (n_cells, k) of the old categories to their cells in the extended schema."""
    offsets = cell_offsets(extended.schema.n_values)
    spread = np.zeros((offsets[-1], counts.shape[1]), dtype=counts.dtype)
    start = 0
    for first, positions in zip(offsets[:-1], extended.positions, strict=True):
        stop = start + 1 + len(positions)
        spread[[first, *(first + 1 + position for position in positions)]] = counts[start:stop]
        start = stop
    return spread


def _priors_by_cell(given: Mapping[str, Mapping[Any, float]], schema: Schema) -> list[float]:
    """Return the given prior of each cell."""
    nominal = [schema.columns[j] for j in schema.nominal_idx]
    unknown = [name for name in given if name not in {column.name for column in nominal}]
    if unknown:
        raise ValueError(
            f"`value_priors` must name nominal columns ({', '.join(repr(c.name) for c in nominal)}); "
            f"got {list_some(unknown, 5)}."
        )
    cells: list[float] = []
    for column in nominal:
        domain = column.domain or ()
        chosen = given.get(column.name, {value: 1 / len(domain) for value in domain})
        missing = [value for value in domain if value not in chosen]
        total = sum(float(p) for p in chosen.values())
        if missing or not all(p >= 0 for p in chosen.values()) or not abs(total - 1) <= SUM_TOLERANCE:
            raise ValueError(
                f"`value_priors[{column.name!r}]` must give each value of {list(domain)} a probability, with "
                f"sum 1; got {dict(chosen)}."
            )
        cells += [0.0, *(float(chosen[value]) for value in domain)]
    return cells
