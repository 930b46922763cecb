"""Completion in bash, zsh and fish: the scripts of `--install-completion`, and words that bash has split at `=`.

Typer's own scripts add a space after `optimizer.lr=`, and complete no value after it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout

from tdt.commands._output import print_lines

# %%(...)s are filled in by Typer. The words go to tdt one a line, with the number of that at the cursor.
BASH = """
%(complete_func)s() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(autocomplete_var)s=complete_bash $1 2>/dev/null ) )
    if [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *[=./] ]]; then compopt -o nospace 2>/dev/null; fi
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""
ZSH = """
#compdef %(prog_name)s

%(complete_func)s() {
  local -a found
  local typed="${(pj:\\n:)words[1,$CURRENT]}"
  local -x COMP_WORDS="$typed" COMP_CWORD=$((CURRENT - 1)) %(autocomplete_var)s=complete_bash
  found=("${(@f)$(%(prog_name)s 2>/dev/null)}")
  found=(${found:#})
  if (( ! $#found )); then
    _files
    return
  fi
  compadd -S '' -- ${(M)found:#*[=./]}
  compadd -- ${found:#*[=./]}
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  %(complete_func)s "$@"
else
  compdef %(complete_func)s %(prog_name)s
fi
"""
FISH = """
function %(complete_func)s
    set -l before (commandline -opc)
    set -l found (env COMP_WORDS=(string join \\n -- $before (commandline -ct) | string collect) COMP_CWORD=(count $before) %(autocomplete_var)s=complete_bash %(prog_name)s 2>/dev/null)
    if test (count $found) -gt 0
        printf '%%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end

complete --command %(prog_name)s --no-files --keep-order --arguments "(%(complete_func)s)"
"""  # noqa: E501
BREAKS = frozenset("=:")  # characters at which bash splits words


def use_scripts() -> None:
    """Make Typer install and show these scripts."""
    from typer import _completion_classes, _completion_shared

    _completion_shared._completion_scripts |= {"bash": BASH, "zsh": ZSH, "fish": FISH}
    _completion_classes.BashComplete.source_template = BASH
    _completion_classes.ZshComplete.source_template = ZSH
    _completion_classes.FishComplete.source_template = FISH


def complete(run: Callable[[list[str]], int]) -> int:
    """Print the completions of the words in COMP_WORDS; run: the command line."""
    joined, at, begin = join(os.environ.get("COMP_WORDS", ""), int(os.environ.get("COMP_CWORD", "0")))
    os.environ |= {"COMP_WORDS": joined, "COMP_CWORD": str(at)}
    code = 0
    with redirect_stdout(io.StringIO()) as out:
        try:
            run([])
        except SystemExit as end:
            code = int(end.code or 0)
    found = [line for line in out.getvalue().splitlines() if line]
    if found:
        print_lines(*(line.removeprefix(begin) for line in found), whole=True)
    return code


def join(words: str, at: int) -> tuple[str, int, str]:
    """Lines of words, of which bash has split some at `=` and `:`, joined again: the lines, the number of the word at the
    cursor, which was number `at`, and its beginning that bash does not replace.

    >>> from tdt.commands._shells import join
    >>> join("tdt\\ntrain\\noptimizer\\n=\\nAd", 4)
    ('tdt\\ntrain\\noptimizer=Ad', 2, 'optimizer=')
    """
    separator = "\n" if "\n" in words else " "
    joined: list[str] = []
    is_open, number, begin = False, at, ""
    for place, word in enumerate(words.split(separator)):
        is_break = bool(word) and set(word) <= BREAKS
        before = ""
        if joined and word and (is_break or is_open):
            before = joined.pop()
        joined.append(before + word)
        is_open = is_break
        if place == at:
            number, begin = len(joined) - 1, joined[-1] if is_break else before
    return separator.join(joined), number, begin
