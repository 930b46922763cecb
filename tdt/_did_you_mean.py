"""The "did you mean" suggestions of error messages: which known name was most likely meant."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_NAME = 200  # a longer name gets no suggestion
MOST_COMPARED = 500


def closest(name: str, known: Iterable[str], most: int = MOST_COMPARED) -> str | None:
    """The name in `known` that is most similar to `name`; None if none is similar enough.

    Upper and lower case count as equal. If there are more than `most` known names, only those with the same first letter
    are compared: the time stays bounded.

    >>> from tdt._did_you_mean import closest
    >>> closest("Adm", ["SGD", "Adam"])
    'Adam'
    """
    import difflib  # on use: not every command makes a mistake

    if len(name) > LONGEST_NAME:
        return None
    # Of names that differ in case alone ("Tensor", "tensor") the last stays: one that begins as `name` does.
    by_lower = {option.lower(): option for option in sorted(known, key=lambda option: option[:1] == name[:1])}
    if len(by_lower) > most:
        alike = [option for option in by_lower if option[:1] == name[:1].lower()][:most]
        by_lower = {option: by_lower[option] for option in alike}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of an error message about an unknown name: the suggestion, or `otherwise` if there is none.

    >>> from tdt._did_you_mean import did_you_mean
    >>> did_you_mean("epochz", ["epochs", "steps"]), did_you_mean("x", ["epochs", "steps"], "known: epochs, steps")
    ("did you mean 'epochs'?", 'known: epochs, steps')
    """
    suggestion = closest(name, known)
    return f"did you mean {suggestion!r}?" if suggestion else otherwise
