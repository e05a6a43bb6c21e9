"""Completion scripts for bash and zsh. They hold every verb and option, so that a TAB starts no interpreter."""

from __future__ import annotations

from rota.cli.verb import GLOBAL, Argument, Verb, verb
from rota.cli.verbs import by_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call

_BASH = """\
# rota completion for bash: eval "$(rota completion bash)"
_rota() {
  local line=${COMP_LINE:0:COMP_POINT} cur= command= prev= word
  local -a words
  # Split at blanks only: bash itself would break `claim:release` at its colon.
  read -ra words <<<"$line"
  [[ $line == *[[:blank:]] ]] || { cur=${words[-1]}; unset 'words[-1]'; }
  prev=${words[-1]}
  for word in "${words[@]:1}"; do
    [[ $word == -* ]] && continue
    case "$command $word" in
NAMES) command="${command:+$command }$word" ;;
    esac
  done
  local found=
  case "$command $prev" in
CHOICES
    *" --db") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    *) case "$command" in
WORDS
    esac ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$found" -- "$cur")
  # Bash replaces only what stands behind the last word break, so what stands before it is cut off.
  if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}")
  fi
}
complete -F _rota rota
"""
_ZSH = """\
#compdef rota
# rota completion for zsh: eval "$(rota completion zsh)" after compinit
_rota() {
  local command= found= word
  for word in "${(@)words[2,CURRENT-1]}"; do
    [[ $word == -* ]] && continue
    case "$command $word" in
NAMES) command="${command:+$command }$word" ;;
    esac
  done
  case "$command ${words[CURRENT-1]}" in
CHOICES
    *" --db") _files; return ;;
    *) case "$command" in
WORDS
    esac ;;
  esac
  compadd -- ${=found}
}
compdef _rota rota
"""


@verb(
    "completion",
    "print the completion script of a shell",
    'eval "$(rota completion bash)"',
    (Argument("SHELL", "bash or zsh", choices=("bash", "zsh")),),
)
def completion(call: Call) -> int:
    script = {"bash": _BASH, "zsh": _ZSH}[call["shell"]]
    verbs = by_name()
    filled = script.replace("NAMES", _names(verbs)).replace("CHOICES", _choices(verbs)).replace("WORDS", _words(verbs))
    call.lines(filled.splitlines())
    return 0


def _names(verbs: dict[str, Verb]) -> str:
    """Return a pattern of every step from an empty command to a whole one."""
    steps = {f" {word}" for name in verbs for word in name.split()[:1]} | {name for name in verbs if " " in name}
    return "      " + "|".join(f'"{step}"' for step in sorted(steps))


def _choices(verbs: dict[str, Verb]) -> str:
    """Return the cases for what may follow an option that takes a value."""
    lines = []
    for name, entry in verbs.items():
        for option in entry.options:
            if option.choices:
                lines.append(f'    "{name} {option.flag}") found="{" ".join(option.choices)}" ;;')
            elif option.metavar is not None and not option.bare:
                lines.append(f'    "{name} {option.flag}") ;;')
    return "\n".join(lines)


def _words(verbs: dict[str, Verb]) -> str:
    """Return the cases for what may follow each verb: the rest of its name, its options."""
    global_flags = [option.flag for option in GLOBAL]
    after: dict[str, list[str]] = {"": [*sorted({name.split()[0] for name in verbs}), *global_flags, "--version"]}
    for name in verbs:
        if " " in name:
            after.setdefault(name.split()[0], []).append(name.split()[1])
    for name, entry in verbs.items():
        choices = [choice for argument in entry.arguments for choice in argument.choices]
        after.setdefault(name, []).extend([*choices, *(option.flag for option in entry.options), *global_flags])
    return "\n".join(f'      "{name}") found="{" ".join(words)}" ;;' for name, words in after.items())
