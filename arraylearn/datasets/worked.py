"""The worked examples of the classification literature, typed in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from arraylearn.datasets.dataset import Dataset, parse

__all__ = [
    "load_cart_toy",
    "load_drug",
    "load_electronics",
    "load_hire",
    "load_hire_numeric",
    "load_loans",
    "load_mammals",
    "load_people",
    "load_pruning_depth",
    "load_soccer",
    "load_svm_toy",
    "load_tennis",
    "load_two_flags",
]

_DRUG = """
male    20  normal  A
female  73  normal  B
female  37  high    A
male    33  low     B
female  48  high    A
male    29  normal  A
female  52  normal  B
male    42  low     B
male    61  normal  B
female  30  normal  A
female  26  low     B
male    54  high    A
"""


def load_drug() -> Dataset:
    """Load 12 patients and the drug that helped: sex and blood pressure nominal, age numeric.

    Examples
    --------
    >>> from arraylearn.datasets import load_drug
    >>> load_drug().X[0].tolist()
    ['male', 20.0, 'normal']
    """
    return parse(
        "drug", "sex age# blood_pressure drug", _DRUG, "12 patients, and which of two drugs helped them."
    )


_TENNIS = """
sunny     hot   high    weak    no
sunny     hot   high    strong  no
overcast  hot   high    weak    yes
rain      mild  high    weak    yes
rain      cool  normal  weak    yes
rain      cool  normal  strong  no
overcast  cool  normal  strong  yes
sunny     mild  high    weak    no
sunny     cool  normal  weak    yes
rain      mild  normal  weak    yes
sunny     mild  normal  strong  yes
overcast  mild  high    strong  yes
overcast  hot   normal  weak    yes
rain      mild  high    strong  no
"""
_WEATHER = "outlook temperature humidity wind play"


def load_tennis() -> Dataset:
    """Load 14 days of weather and whether tennis was played: all nominal.

    References
    ----------
    .. [1] J. R. Quinlan, "Induction of decision trees", Machine Learning 1, 1986.
    """
    return parse("tennis", _WEATHER, _TENNIS, "14 days of weather, and whether tennis was played.")


_SOCCER_VALIDATION = """
sunny     hot   normal  strong  yes
sunny     mild  normal  weak    yes
overcast  mild  normal  weak    no
overcast  cool  normal  strong  no
rain      cool  high    strong  yes
"""


def load_soccer() -> Dataset:
    """Load the rows of `load_tennis` as soccer days, with five further rows as ``validation``.

    The validation rows serve reduced-error pruning: the grown tree is right on two of them, the tree without
    its wind node on three.
    """
    soccer = parse("soccer", _WEATHER, _TENNIS, "14 days of soccer, and 5 validation days.")
    validation = parse("soccer_validation", _WEATHER, _SOCCER_VALIDATION, "The 5 validation days of soccer.")
    return replace(soccer, validation=validation)


_ELECTRONICS = """
youth   high    no   fair       no
youth   high    no   excellent  no
middle  high    no   fair       yes
senior  medium  no   fair       yes
senior  low     yes  fair       yes
senior  low     yes  excellent  no
middle  low     yes  excellent  yes
youth   medium  no   fair       no
youth   low     yes  fair       yes
senior  medium  yes  fair       yes
youth   medium  yes  excellent  yes
middle  medium  no   excellent  yes
middle  high    yes  fair       yes
senior  medium  no   excellent  no
"""


def load_electronics() -> Dataset:
    """Load 14 customers of an electronics shop and whether they bought a computer: all nominal.

    References
    ----------
    .. [1] J. Han and M. Kamber, "Data mining: concepts and techniques".
    """
    return parse(
        "electronics", "age income student credit buys", _ELECTRONICS, "14 customers and their choice."
    )


_HIRE = """
Bachelors, Mobile Dev, Objective-C, TRUE,  yes
Masters,   Web Dev,    Java,        FALSE, yes
Masters,   Mobile Dev, Java,        TRUE,  yes
PhD,       Mobile Dev, Objective-C, TRUE,  yes
PhD,       Web Dev,    Objective-C, TRUE,  no
Bachelors, UX Design,  Objective-C, TRUE,  no
Bachelors, Mobile Dev, Java,        FALSE, yes
PhD,       Web Dev,    Objective-C, FALSE, no
Bachelors, UX Design,  Java,        FALSE, yes
Masters,   UX Design,  Objective-C, TRUE,  no
Masters,   UX Design,  Java,        FALSE, yes
PhD,       Mobile Dev, Java,        FALSE, no
Masters,   Mobile Dev, Java,        TRUE,  yes
Bachelors, Web Dev,    Objective-C, FALSE, no
"""


def load_hire() -> Dataset:
    """Load 14 applicants and whether they were hired: all nominal, ``visa`` as the text TRUE or FALSE."""
    return parse(
        "hire",
        "degree experience language visa hire",
        _HIRE,
        "14 applicants, and whether they were hired.",
        separator=",",
    )


_HIRE_NUMERIC = """
 0  5  3.20  TRUE   yes
 5  1  3.64  FALSE  yes
 4  6  2.92  TRUE   yes
10  4  4.00  TRUE   yes
12  3  3.21  TRUE   no
 0  8  3.37  TRUE   no
 0  5  4.00  FALSE  yes
 8  3  2.59  FALSE  no
 0  7  3.70  FALSE  yes
 4  7  3.78  TRUE   no
 2  9  4.00  FALSE  yes
 9  4  4.00  FALSE  no
 7  4  2.71  TRUE   yes
 0  2  3.03  FALSE  no
"""


def load_hire_numeric() -> Dataset:
    """Load 14 applicants described by three numbers and one nominal column, and whether they were hired."""
    return parse(
        "hire_numeric",
        "papers# years# gpa# visa hire",
        _HIRE_NUMERIC,
        "14 applicants: papers, years of work, grade average, need of a visa, and whether they were hired.",
    )


_TWO_FLAGS = """
T F +
T T +
T T +
T F -
T T +
F F -
F F -
F F -
T T -
T F -
"""


def load_two_flags() -> Dataset:
    """Load 10 rows of two flags where information gain prefers A, and the Gini gain B."""
    return parse("two_flags", "A B class", _TWO_FLAGS, "10 rows on which two split measures disagree.")


_MAMMALS = """
yes no  no  yes M
yes no  no  no  M
yes no  yes yes M
yes no  no  yes M
yes no  no  no  M
no  yes no  no  N
no  yes no  no  N
no  yes no  yes N
no  yes no  yes N
no  yes yes yes N
yes no  no  no  N
no  yes no  yes N
no  yes no  yes N
no  yes yes yes N
no  yes yes yes N
"""


def load_mammals() -> Dataset:
    """Load 15 animals: mammals (M) and others (N), by four nominal traits."""
    return parse(
        "mammals", "gives_birth lays_eggs flies has_legs class", _MAMMALS, "15 animals, mammals or not."
    )


_CART_TOY = """
30  65  G
23  15  B
40  75  G
55  40  B
55 100  G
45  60  G
"""


def load_cart_toy() -> Dataset:
    """Load 6 customers with age and salary, good (G) or bad (B) risks.

    References
    ----------
    .. [1] M. Mehta, R. Agrawal and J. Rissanen, "SLIQ: a fast scalable classifier for data mining", 1996.
    """
    return parse("cart_toy", "age# salary# risk", _CART_TOY, "6 customers, good or bad risks.")


_LOANS = """
Yes  Single    125  No
No   Married   100  No
No   Single     70  No
Yes  Married   120  No
No   Divorced   95  Yes
No   Married    60  No
Yes  Divorced  220  No
No   Single     85  Yes
No   Married    75  No
No   Single     90  Yes
"""


def load_loans() -> Dataset:
    """Load 10 tax payers and whether they cheated: refund and marital status nominal, taxable income numeric.

    References
    ----------
    .. [1] P.-N. Tan, M. Steinbach and V. Kumar, "Introduction to data mining".
    """
    return parse(
        "loans", "refund marital_status taxable_income# cheat", _LOANS, "10 tax payers; incomes in thousands."
    )


_PEOPLE = """
Short Blonde Blue  C1
Short Blonde Brown C2
Tall  Red    Blue  C1
Tall  Dark   Blue  C2
Tall  Dark   Blue  C2
Tall  Blonde Blue  C1
Tall  Dark   Brown C2
Short Blonde Brown C2
"""


def load_people() -> Dataset:
    """Load 8 people of two classes by height, hair and eyes: the example of sequential covering."""
    return parse("people", "height hair eyes class", _PEOPLE, "8 people of two classes.")


_SVM_TOY = """
0 0  1
1 0  1
2 0 -1
0 2 -1
"""


def load_svm_toy() -> Dataset:
    """Load 4 points of the plane, labels +1 and -1, that the line x1 + x2 = 3/2 separates best."""
    return parse("svm_toy", "x1# x2# label#", _SVM_TOY, "4 linearly separable points of the plane.")


_PRUNING_DEPTH = """
 7    18   7    11  22  B
 1     5   1    18  36  B
 0    15   0     2   4  B
 7     5   7    12  24  A
 1    15   1    12  24  A
 3    20   3     6  12  B
 0     5   0    18  36  B
 7    10   7    12  24  A
10     8  10    20  40  A
 9    20   9    17  34  A
 4    14   4     9  18  B
 1    19   1     9  18  B
10    19  10    18  36  A
10    14  10     7  14  B
 9.75  9   9.75 16  32  A
"""
_NOISY_ROWS = (3, 8)


def load_pruning_depth(*, noisy: bool = False) -> Dataset:
    """Load 15 rows of five numbers, two of them copies or multiples of others.

    Parameters
    ----------
    noisy : bool
        Whether two of the labels A are flipped to B. A tree grown out chases them; a depth limit restores the
        predictions of the clean tree.
    """
    clean = parse(
        "pruning_depth",
        "F1# F2# F3# F4# F5# class",
        _PRUNING_DEPTH,
        "15 rows of five numbers and two classes; F3 repeats F1, F5 is twice F4.",
    )
    if not noisy:
        return clean
    y = clean.y.copy()
    y[np.array(_NOISY_ROWS)] = "B"
    return replace(clean, name="pruning_depth_noisy", y=y)
