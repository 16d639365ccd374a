"""``fit``, ``predict``, ``evaluate``, ``tree``: from files of rows to files of models and answers."""

from __future__ import annotations

import argparse
import ast
import csv
import difflib
import sys
import time
from pathlib import Path
from typing import Any

from arraylearn.cli.backends import backend_option

__all__ = ["LEARNERS", "add_commands"]

# what to type -> the public name
LEARNERS = {
    "naive-bayes": "NaiveBayesClassifier",
    "full-bayes": "FullBayesClassifier",
    "tree": "DecisionTreeClassifier",
    "id3": "id3",
    "c45": "c45",
    "cart": "cart",
    "forest": "RandomForestClassifier",
    "boosting": "GradientBoostingClassifier",
    "adaboost": "AdaBoostClassifier",
    "covering": "SequentialCoveringClassifier",
    "ripper": "RipperClassifier",
    "svc": "SVC",
}
_EXAMPLES = """examples:
  arraylearn fit flowers.csv --target species --learner forest --model flowers.safetensors
  arraylearn fit flowers.csv --learner svc --set C=10 kernel=poly --model flowers.safetensors
  arraylearn predict new.csv --model flowers.safetensors --proba --output answers.csv
  arraylearn evaluate test.csv --model flowers.safetensors
  arraylearn evaluate flowers.csv --learner c45 --folds 10
  arraylearn tree flowers.csv --learner c45 --format rules

The target is the last column unless --target names another. CSV, TSV, ARFF and Parquet files can be read.
"""


def add_commands(commands: Any) -> None:
    """Add the commands to the parser's."""
    backend, learner = backend_option(), _learner_option()

    def command(
        name: str, about: str, run: Any, *parents: argparse.ArgumentParser
    ) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = commands.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[backend, *parents],
        )
        made.set_defaults(run=run)
        return made

    fit = command("fit", "train a learner on a file and write the model to another", _fit, learner)
    fit.add_argument("data", help="rows with their target")
    fit.add_argument("--model", required=True, metavar="FILE", help="where to write it (.safetensors)")

    predict = command("predict", "answer for the rows of a file", _predict)
    predict.add_argument("data", help="rows in the columns of the training file; others are ignored")
    predict.add_argument("--model", required=True, metavar="FILE", help="written by `arraylearn fit`")
    predict.add_argument("--output", metavar="FILE", help="a CSV file (default: print)")
    predict.add_argument("--proba", action="store_true", help="also the probability of each class")

    evaluate = command(
        "evaluate", "judge a model on a file, or a learner by cross-validation", _evaluate, learner
    )
    evaluate.add_argument("data", help="rows with their target")
    evaluate.add_argument("--model", metavar="FILE", help="a model to judge, instead of a --learner")
    evaluate.add_argument("--folds", type=int, default=10, help="of the cross-validation (default: 10)")

    tree = command("tree", "show a tree: of a model file, or grown on a file of rows", _tree, learner)
    tree.add_argument("data", nargs="?", help="rows with their target")
    tree.add_argument("--model", metavar="FILE", help="a fitted tree, instead of rows")
    tree.add_argument("--format", choices=["text", "rpart", "graphviz", "rules"], default="text")


def _learner_option() -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--target", metavar="COLUMN", help="what to predict (default: the last column)")
    parent.add_argument("--learner", choices=LEARNERS, help="default: tree; the command tree: c45")
    parent.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="parameters of the learner, as in Python"
    )
    return parent


# ---- the commands


def _fit(options: argparse.Namespace) -> int:
    import arraylearn as al

    folder = Path(options.model).resolve().parent
    if not folder.is_dir():
        raise ValueError(f"`--model`: there is no folder {folder}. Make it first.")
    X, y, target = _read(options)
    model = _make(options)
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    al.save(model, options.model)
    n, d = X.shape
    print(f"{type(model).__name__} for {target!r}: {n} rows, {d} columns, {len(model.classes_)} classes")
    print(f"fitted in {seconds:.3g} s; accuracy on the rows it saw: {_share_right(model, X, y):.4f}")
    print(f"written to {options.model}")
    return 0


def _predict(options: argparse.Namespace) -> int:
    model = _load(options)
    X = _columns_of(model, options)
    rows: list[list[Any]] = [[label] for label in model.predict(X).tolist()]
    header = ["prediction"]
    if options.proba:
        if not hasattr(model, "predict_proba"):
            raise ValueError(f"`--proba`: this {type(model).__name__} was fitted without probabilities.")
        header += [f"P({label})" for label in model.classes_.tolist()]
        for row, shares in zip(rows, model.predict_proba(X).tolist(), strict=True):
            row += [f"{share:.6g}" for share in shares]
    if options.output is None:
        _write(sys.stdout, header, rows)
        return 0
    with Path(options.output).open("w", newline="", encoding="utf-8") as file:
        _write(file, header, rows)
    print(f"{len(rows)} answers written to {options.output}")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    if options.model is None:
        from sklearn.model_selection import StratifiedKFold

        import arraylearn as al

        X, y, _ = _read(options)
        folds = StratifiedKFold(options.folds, shuffle=True, random_state=0)
        print(al.cross_validate(_make(options), X, y, cv=folds, refit=False, progress=False))
        return 0
    if options.learner is not None or options.set:
        raise ValueError("`--model` is fitted already: leave out `--learner` and `--set`, or `--model`.")
    model = _load(options)
    _, y, _ = _read(options)
    X = _columns_of(model, options)
    _print_confusion(model, y, model.predict(X))
    return 0


def _tree(options: argparse.Namespace) -> int:
    from arraylearn import tree

    if (options.data is None) == (options.model is None):
        raise ValueError("`tree` shows either a file of rows (`arraylearn tree data.csv`) or a `--model`.")
    if options.model is not None:
        model = _load(options)
    else:
        X, y, _ = _read(options)
        model = _make(options, default="c45").fit(X, y)
    if not isinstance(model, tree.DecisionTreeClassifier):
        raise ValueError(f"`tree` shows a single tree; this is a {type(model).__name__}.")
    if options.format == "rules":
        print("\n".join(str(rule) for rule in tree.leaf_rules(model)))
    elif options.format == "graphviz":
        print(tree.graphviz_source(model))
    else:
        print(tree.tree_text(model, style="c45" if options.format == "text" else "rpart"))
    return 0


# ---- parts


def _read(options: argparse.Namespace) -> tuple[Any, Any, str]:
    from arraylearn.io.files import read_table_file, split_target

    return split_target(read_table_file(options.data), options.target)


def _make(options: argparse.Namespace, default: str = "tree") -> Any:
    """Make the learner that the options describe."""
    import arraylearn as al

    name = options.learner or default
    model = getattr(al, LEARNERS[name])()
    known = model.get_params(deep=False)
    for text in options.set:
        parameter, equals, value = text.partition("=")
        if not equals or parameter not in known:
            near = difflib.get_close_matches(parameter, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"`--set` takes NAME=VALUE with a parameter of {name} ({', '.join(known)}); got {text!r}."
                f"{hint}"
            )
        model.set_params(**{parameter: _value(value)})
    if options.backend is not None:
        model.set_params(backend=options.backend)
    return model


def _value(text: str) -> Any:
    """Read a Python literal; anything else is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _load(options: argparse.Namespace) -> Any:
    import arraylearn as al

    if not Path(options.model).is_file():
        raise ValueError(f"`--model`: there is no file {options.model!r}.")
    return al.load(options.model, backend=options.backend)


def _columns_of(model: Any, options: argparse.Namespace) -> Any:
    """Read the columns that a model was fitted on, in its order."""
    import narwhals.stable.v2 as nw

    from arraylearn.io.files import read_table_file

    frame = nw.from_native(read_table_file(options.data), eager_only=True)
    names = list(getattr(model, "feature_names_in_", []))
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ValueError(
            f"`data` must have the columns of the training file; {options.data!r} lacks "
            f"{', '.join(map(repr, missing))}."
        )
    return nw.to_native(frame.select(names) if names else frame)


def _share_right(model: Any, X: Any, y: Any) -> float:
    return float((model.predict(X) == y).mean())


def _write(file: Any, header: list[str], rows: list[list[Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)


def _print_confusion(model: Any, y: Any, found: Any) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from sklearn.metrics import confusion_matrix

    classes = sorted({*model.classes_.tolist(), *y.tolist()}, key=str)
    counts = confusion_matrix(y.astype(str), found.astype(str), labels=[str(label) for label in classes])
    table = Table(title=f"{type(model).__name__}, {len(y)} rows: true classes down, answers across")
    table.add_column("")
    for label in classes:
        table.add_column(escape(str(label)), justify="right")
    for label, row in zip(classes, counts.tolist(), strict=True):
        table.add_row(escape(str(label)), *map(str, row))
    console = Console()
    console.print(table)
    console.print(f"accuracy {float((found.astype(str) == y.astype(str)).mean()):.4f}", highlight=False)
