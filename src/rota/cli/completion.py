"""Completion for bash and zsh, written out from the command table so that a TAB starts no interpreter."""

from __future__ import annotations

from rota.cli.table import COMMANDS, GLOBAL
from rota.cli.verb import join

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


def completion(call: Call) -> int:
    """The script of one shell."""
    script = {"bash": _BASH, "zsh": _ZSH}[call["shell"]]
    call.lines(fill(script).splitlines())
    return 0


def fill(script: str) -> str:
    """A script with the table's words in its gaps."""
    return script.replace("NAMES", _names()).replace("CHOICES", _choices()).replace("WORDS", _words())


def _names() -> str:
    """Every step that leads from no command to a whole one."""
    steps = {f" {word}" for name in join(tuple(COMMANDS)) for word in name.split()[:1]}
    steps |= {name for name in join(tuple(COMMANDS)) if " " in name}
    return "      " + "|".join(f'"{step}"' for step in sorted(steps))


def _choices() -> str:
    """What may follow an option that takes one of a few words."""
    lines = []
    for name, command in join(tuple(COMMANDS)).items():
        for option in command.options:
            if option.choices:
                lines.append(f'    "{name} {option.flag}") found="{" ".join(option.choices)}" ;;')
            elif option.metavar is not None and not option.bare:
                lines.append(f'    "{name} {option.flag}") ;;')
    return "\n".join(lines)


def _words() -> str:
    """What may follow each command: the rest of its name, its options."""
    known = join(tuple(COMMANDS))
    globals_ = [option.flag for option in GLOBAL]
    after: dict[str, list[str]] = {"": [*sorted({name.split()[0] for name in known}), *globals_, "--version"]}
    for name in known:
        if " " in name:
            after.setdefault(name.split()[0], []).append(name.split()[1])
    for name, command in known.items():
        words = [choice for argument in command.arguments for choice in argument.choices]
        after.setdefault(name, []).extend([*words, *(option.flag for option in command.options), *globals_])
    return "\n".join(f'      "{name}") found="{" ".join(words)}" ;;' for name, words in after.items())
