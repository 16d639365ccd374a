"""Decision trees: ID3, C4.5 and CART in one array program; class histograms and threshold scores."""

from arraylearn.grow.trees import Surrogates, Trees
from arraylearn.tree.decision_tree import DecisionTreeClassifier
from arraylearn.tree.factories import c45, cart, id3
from arraylearn.tree.histogram import class_histogram
from arraylearn.tree.scores import threshold_scores
from arraylearn.tree.text import graphviz_source, leaf_rules, tree_text

__all__ = [
    "DecisionTreeClassifier",
    "Surrogates",
    "Trees",
    "c45",
    "cart",
    "class_histogram",
    "graphviz_source",
    "id3",
    "leaf_rules",
    "threshold_scores",
    "tree_text",
]
