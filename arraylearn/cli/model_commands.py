"""``fit``, ``predict``, ``evaluate``, ``tree``: from files of rows to files of models and answers.

A model that ``fit`` writes has one attribute more than a model fitted in Python: ``target_name_in_``, the
name of the column that it predicts, as ``feature_names_in_`` holds the names of those that it predicts from.
``evaluate`` finds the true classes by it. Fitting the model again removes it.
"""

from __future__ import annotations

import argparse
import ast
import csv
import difflib
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from arraylearn.backend.spinner import spinning
from arraylearn.checks import list_some
from arraylearn.cli.outputs import is_stream, new_text_file, refuse_output

__all__ = ["LEARNERS", "add_commands"]

# name on the command line -> public name
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

The target is the last column unless --target names another; a model remembers its own. CSV, TSV, ARFF and
Parquet files can be read.
"""
_FOLDS = 10


def add_commands(commands: Any, backend: argparse.ArgumentParser) -> None:
    """Add the commands to the parser's; `backend` holds the option of that name."""
    learner = argparse.ArgumentParser(add_help=False)  # the options that several commands share
    target = "what to predict (default: that of the --model, or else the last column)"
    learner.add_argument("--target", metavar="COLUMN", help=target)
    learner.add_argument("--learner", choices=LEARNERS, help="default: tree; the command tree: c45")
    about_set = "parameters of the learner, as in Python"
    learner.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help=about_set)

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
    _add_force(fit, "--model")

    predict = command("predict", "answer for the rows of a file", _predict)
    predict.add_argument("data", help="rows in the columns of the training file; others are ignored")
    predict.add_argument("--model", required=True, metavar="FILE", help="written by `arraylearn fit`")
    predict.add_argument("--output", metavar="FILE", help="a CSV file (default: print)")
    _add_force(predict, "--output")
    predict.add_argument("--proba", action="store_true", help="also the probability of each class")

    evaluate = command(
        "evaluate", "judge a model on a file, or a learner by cross-validation", _evaluate, learner
    )
    evaluate.add_argument("data", help="rows with their target")
    evaluate.add_argument("--model", metavar="FILE", help="a model to judge, instead of a --learner")
    evaluate.add_argument("--folds", type=int, help=f"of the cross-validation (default: {_FOLDS})")

    tree = command("tree", "show a tree: of a model file, or grown on a file of rows", _tree, learner)
    tree.add_argument("data", nargs="?", help="rows with their target")
    tree.add_argument("--model", metavar="FILE", help="a fitted tree, instead of rows")
    tree.add_argument("--format", choices=["text", "rpart", "graphviz", "rules"], default="text")


def _add_force(parser: argparse.ArgumentParser, option: str) -> None:
    parser.add_argument("--force", action="store_true", help=f"let {option} replace a file that exists")


# ---- the commands


def _fit(options: argparse.Namespace) -> int:
    import arraylearn as al

    refuse_output("--model", options.model, inputs=[options.data], is_forced=options.force)
    if is_stream(Path(options.model)):
        raise ValueError(f"`--model` must name a plain file; {options.model!r} is a device or a pipe.")
    X, y, target = _read(options)
    model = _make(options)
    start = time.perf_counter()
    with spinning(f"fitting {type(model).__name__}"):
        model.fit(X, y)
    seconds = time.perf_counter() - start
    model.target_name_in_ = target
    al.save(model, Path(options.model).resolve())  # a symbolic link is followed, not replaced
    n, d = X.shape
    print(f"{type(model).__name__} for {target!r}: {n} rows, {d} columns, {len(model.classes_)} classes")
    with spinning("judging it"):
        accuracy = float((model.predict(X) == y).mean())
    print(f"fitted in {seconds:.3g} s; accuracy on the rows it saw: {accuracy:.4f}")
    print(f"written to {options.model}")
    return 0


def _predict(options: argparse.Namespace) -> int:
    if options.output is not None:
        read = [options.data, options.model]
        refuse_output("--output", options.output, inputs=read, is_forced=options.force)
    elif options.force:
        raise ValueError("`--force` lets `--output` replace a file: name one, or leave it out.")
    model = _load(options)
    if options.proba and not hasattr(model, "predict_proba"):
        raise ValueError(f"`--proba`: this {type(model).__name__} was fitted without probabilities.")
    X = _columns_of(model, _read_for(model, options), options)
    header = ["prediction"]
    with spinning("predicting"):
        rows: list[list[Any]] = [[label] for label in model.predict(X).tolist()]
        if options.proba:
            header += [f"P({label})" for label in model.classes_.tolist()]
            for row, shares in zip(rows, model.predict_proba(X).tolist(), strict=True):
                row += [f"{share:.6g}" for share in shares]
    if options.output is None:
        _write(sys.stdout, header, rows)
        return 0
    with new_text_file(options.output) as file:
        _write(file, header, rows)
    print(f"{len(rows)} answers written to {options.output}")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    if options.model is None:
        return _cross_validate(options)
    _refuse_with_model(options, "learner", "set", "folds")
    model = _load(options)
    if not hasattr(model, "classes_"):
        raise ValueError(f"`--model` must be a classifier; got a {type(model).__name__}.")
    target = _target_of(model, options)
    frame = _read_for(model, options, target)
    X, y = _columns_of(model, frame, options, target), _truth(model, frame, target, options)
    with spinning("predicting"):
        found = model.predict(X)
    _print_confusion(model, y, found)
    return 0


def _cross_validate(options: argparse.Namespace) -> int:
    from sklearn.model_selection import StratifiedKFold

    import arraylearn as al

    n_folds = _FOLDS if options.folds is None else options.folds
    X, y, target = _read(options)
    largest = max(Counter(y.tolist()).values())
    if not 2 <= n_folds <= largest:
        raise ValueError(
            f"`--folds` must be at least 2 and at most the rows of the largest class of {target!r} "
            f"({largest}); got {n_folds}."
        )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    with spinning(f"fitting {n_folds} folds"):
        report = al.evaluate(_make(options), X, y, cv=folds, refit=False, verbose=0)
    print(report)
    return 0


def _tree(options: argparse.Namespace) -> int:
    from arraylearn import tree

    if (options.data is None) == (options.model is None):
        raise ValueError("`tree` shows either a file of rows (`arraylearn tree data.csv`) or a `--model`.")
    if options.model is not None:
        _refuse_with_model(options, "learner", "set", "target")
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
    """Read the training rows: columns, labels, and the name of the target."""
    from arraylearn.io.files import read_table_file, split_target

    with spinning(f"reading {options.data}"):
        X, y, target = split_target(read_table_file(options.data), options.target)
    if y.dtype.kind == "f":
        raise ValueError(
            f"`--target`: {target!r} of {options.data!r} is continuous: it holds numbers that are not whole. "
            "A classifier needs classes; name another column, or cut the numbers into classes first."
        )
    if (y == y[0]).all():
        raise ValueError(
            f"`--target`: every row of {options.data!r} has {target!r} = {y.tolist()[0]!r}; a learner needs "
            "rows of at least two classes."
        )
    return X, y, target


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
    from sklearn.utils.validation import check_is_fitted

    import arraylearn as al

    place = Path(options.model)
    if place.is_dir():
        raise ValueError(f"`--model` must name a file; {options.model!r} is a folder.")
    if not place.is_file():
        raise ValueError(f"`--model`: there is no file {options.model!r}.")
    model = al.load(place, backend=options.backend)
    if not hasattr(model, "predict"):
        raise ValueError(f"`--model` must be a model that predicts; got a {type(model).__name__}.")
    check_is_fitted(model)
    return model


def _refuse_with_model(options: argparse.Namespace, *names: str) -> None:
    """Raise for options that would have no effect on a model that is already fitted."""
    given = [f"`--{name}`" for name in names if getattr(options, name) not in (None, [])]
    if given:
        raise ValueError(f"`--model` is fitted already: leave out {' and '.join(given)}, or `--model`.")


def _target_of(model: Any, options: argparse.Namespace) -> str:
    """Return the column of the true classes: the one that is named, else the one that the model remembers."""
    target: str | None = options.target or getattr(model, "target_name_in_", None)
    if target is None:
        raise ValueError(
            f"`--target` is needed: {options.model!r} does not hold the name of its target, as it was not "
            "written by `arraylearn fit`. Name the column of the true classes."
        )
    if target in _feature_names(model):
        raise ValueError(
            f"`--target`: {target!r} is one of the columns that this model predicts from. Name the column of "
            "the true classes."
        )
    return target


def _feature_names(model: Any) -> list[str]:
    return list(map(str, getattr(model, "feature_names_in_", [])))


def _read_for(model: Any, options: argparse.Namespace, target: str | None = None) -> Any:
    """Read the columns of a file that a model needs; those that held text in fit are read as text."""
    import narwhals.stable.v2 as nw

    from arraylearn.io.files import read_table_file

    names, text = _feature_names(model), []
    if names:
        domains = zip(model.schema_.nominal_idx, model.schema_.text_values, strict=True)
        text = [names[j] for j, value in domains if value is not None]
    columns = [*names, *([target] if target else [])] if names else None
    with spinning(f"reading {options.data}"):
        frame = read_table_file(options.data, columns=columns, text=text)
    return nw.from_native(frame, eager_only=True)


def _columns_of(model: Any, frame: Any, options: argparse.Namespace, target: str | None = None) -> Any:
    """Return the columns that a model was fitted on, in its order; without names, all but the target."""
    present, names = set(frame.columns), _feature_names(model)
    if not names:  # fitted to an array
        return frame.select([name for name in frame.columns if name != target]).to_numpy()
    missing = [name for name in names if name not in present]
    if missing:
        raise ValueError(
            f"`data` must have the columns of the training file; {options.data!r} lacks {list_some(missing)}."
        )
    return frame.select(names).to_native()


def _truth(model: Any, frame: Any, target: str, options: argparse.Namespace) -> Any:
    """Return the true classes; raise if the file has none that the model knows."""
    from arraylearn.io.files import split_target

    if target not in frame.columns:
        if options.target:
            raise ValueError(f"`--target` must be a column of {options.data!r}; got {target!r}.")
        raise ValueError(
            f"`data` must have the column {target!r}, which this model predicts; {options.data!r} lacks it. "
            "Add it, or name the column of the true classes with `--target`."
        )
    _, labels, _ = split_target(frame.to_native(), target)
    known, found = set(map(str, model.classes_.tolist())), set(map(str, labels.tolist()))
    if not known & found:
        raise ValueError(
            f"`data` must have classes of this model in {target!r} ({list_some(sorted(known), 5)}); "
            f"{options.data!r} has {list_some(sorted(found), 5)}. Is it the right column?"
        )
    return labels


def _write(file: Any, header: list[str], rows: list[list[Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)


def _print_confusion(model: Any, y: Any, found: Any) -> None:
    from rich.console import Console
    from sklearn.metrics import confusion_matrix

    from arraylearn.bench.show import text_table

    known = model.classes_.tolist()
    classes = list(map(str, [*known, *sorted(set(y.tolist()) - set(known), key=str)]))
    counts = confusion_matrix(y.astype(str), found.astype(str), labels=classes)
    rows = [(label, *map(str, row)) for label, row in zip(classes, counts.tolist(), strict=True)]
    console = Console()
    # not the table's title, which is broken to the width of the table
    title = f"{type(model).__name__}, {len(y)} rows: true classes down, answers across"
    console.print(title, highlight=False)
    console.print(text_table(None, ["", *classes], rows))
    console.print(f"accuracy {float((found.astype(str) == y.astype(str)).mean()):.4f}", highlight=False)
