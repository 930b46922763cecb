"""The page of a sweep: its best trials, the importance of each setting, and the score over each setting."""

from __future__ import annotations

import base64
import html
import io
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdt._files import replace_file
from tdt.train.tune.sweep import shown

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

FEWEST = 4  # completed trials from which importances are computed
_STYLE = (
    "body{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}img{max-width:100%}"
)


def importances(study: Study) -> dict[str, float]:
    """The share of each setting in how good a trial is, the largest first; empty for fewer than `FEWEST` trials.

    Source: Watanabe, Bansal and Hutter, PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary
    Subspaces, 2023.
    """
    if len(completed(study)) < FEWEST:
        return {}
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances  # loads scikit-learn

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "experimental", and that there are few trials
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())


def completed(study: Study) -> list[FrozenTrial]:
    """The trials with a value."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]


def write_report(study: Study, metric: str, folder: Path) -> Path:
    """Write `report.html` with pictures inside; tables alone if matplotlib is not installed. Returns its path."""
    shares, done = importances(study), completed(study)
    sign = 1 if study.direction.name == "MINIMIZE" else -1
    done.sort(key=lambda trial: (sign * (trial.value or 0.0), trial.number))
    keys = list(shares) or list(done[0].params if done else ())
    rows = [
        (str(trial.number + 1), f"{trial.value:.6g}", *(shown(trial.params.get(key, "")) for key in keys))
        for trial in done
    ]
    title = html.escape(f"{folder.name}: {metric}")
    parts = [f"<h1>{title}</h1>"]
    if shares:
        ranked = [(key, f"{share:.1%}") for key, share in shares.items()]
        parts += ["<h2>Importance of each setting</h2>", _table(("setting", "importance"), ranked)]
    pictures = _pictures(shares, done, keys, metric)
    if pictures:
        parts += [f'<img alt="{name}" src="data:image/png;base64,{picture}">' for name, picture in pictures.items()]
    parts += [f"<h2>{_counts(study)}; the best first</h2>", _table(("trial", metric, *keys), rows)]
    page = f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>{"".join(parts)}\n'
    replace_file(folder / "report.html", page.encode())
    return folder / "report.html"


def _counts(study: Study) -> str:
    """How many trials ended how."""
    counts = Counter(trial.state.name for trial in study.get_trials(deepcopy=False))
    names = {"COMPLETE": "completed", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "not ended"}
    ended = [f"{counts[state]} {name}" for state, name in names.items() if counts[state] or state == "COMPLETE"]
    return f"Trials: {', '.join(ended)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["".join(f"<th>{html.escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _pictures(
    shares: dict[str, float], done: Sequence[FrozenTrial], keys: Sequence[str], metric: str
) -> dict[str, str]:
    """The importances as bars and the slices as points, as PNG in base64; empty without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    pictures = {}
    if shares:
        figure = Figure(figsize=(7, 0.5 + 0.4 * len(shares)), layout="constrained")
        axes = figure.add_subplot()
        axes.barh(list(shares)[::-1], list(shares.values())[::-1])
        axes.set_xlabel("importance")
        pictures["importance"] = _png(figure)
    if done and keys:
        figure = Figure(figsize=(3.4 * len(keys), 3.2), layout="constrained")
        distributions = done[0].distributions
        for number, key in enumerate(keys):
            axes = figure.add_subplot(1, len(keys), number + 1)
            having = [trial for trial in done if key in trial.params]
            values = [trial.params[key] for trial in having]
            scores: list[Any] = [trial.value for trial in having]
            points = axes.scatter(values, scores, c=[t.number + 1 for t in having], s=16)
            axes.set_xlabel(key)
            if getattr(distributions.get(key), "log", False):
                axes.set_xscale("log")
            if number == 0:
                axes.set_ylabel(metric)
            if number == len(keys) - 1:
                figure.colorbar(points, label="trial")
        pictures["slices"] = _png(figure)
    return pictures


def _png(figure: object) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)  # type: ignore[attr-defined]
    return base64.b64encode(file.getvalue()).decode()
