"""The hand-written parser of the hot verbs. It imports next to nothing, because bash loops pay for imports."""

from __future__ import annotations

from rota.cli.types import read
from rota.cli.verb import GLOBAL, Option
from rota.core.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rota.cli.verb import Argument, Verb

    Texts = dict[str, list[str]]

BARE = ""  # the text of an option that stands without its value


def split(verb: Verb, words: Sequence[str]) -> Texts:
    """Return the texts of each argument and option."""
    flags = {option.flag: option for option in (*GLOBAL, *verb.options)}
    texts: Texts = {}
    places: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            places += rest
            break
        if not looks_like_option(word):
            places.append(word)
            continue
        flag, given, text = word.partition("=")
        option = flags.get(flag)
        if option is None:
            raise unknown_option(verb, flag)
        texts.setdefault(option.key, []).append(text if given else value(option, rest))
        if given and option.metavar is None:
            raise BadInput(f"{flag} takes no value")
    place(verb, places, texts)
    return texts


def looks_like_option(word: str) -> bool:
    """Return whether a word is an option. `-5` is not: it is a mistyped id, and is reported as one."""
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def values(verb: Verb, texts: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> dict[str, Any]:
    """Read every argument and option, from the environment where it is missing."""
    found: dict[str, Any] = {}
    wanted: tuple[Argument | Option, ...] = (*verb.arguments, *verb.options)
    for each in wanted:
        given = texts.get(each.key)
        if not given and each.env and environment.get(each.env) and not _is_bare(each):
            given = [environment[each.env]]
        if given:
            found[each.key] = _read(each, given, environment)
        elif each.required:
            or_env = f", or set {each.env}" if each.env else ""
            raise BadInput(f"{verb.name} needs {each.label}{or_env}: {verb.usage}")
        else:
            found[each.key] = None
    return found


def _read(each: Argument | Option, given: Sequence[str], environment: Mapping[str, str]) -> Any:
    if _is_switch(each):
        return True
    if not each.many:
        once(each.label, given)
    if _is_bare(each) and given[-1] == BARE:
        stand_in = environment.get(each.env or "")
        return read(each.kind, stand_in, each.label) if stand_in else BARE
    if each.many:
        found = [read(each.kind, text, each.label) for text in given]
        if each.kind in ("pool", "scale"):
            _refuse_two_sizes([queue for queue, _ in found])
        return [item for part in found for item in part] if each.kind == "jobs" else found
    if each.choices and given[-1] not in each.choices:
        raise BadInput(f"{each.label}: {given[-1]!r} is not one of {', '.join(each.choices)}")
    return read(each.kind, given[-1], each.label)


def _refuse_two_sizes(queues: Sequence[str]) -> None:
    for queue in queues:
        if (times := queues.count(queue)) > 1:
            raise BadInput(f"{queue} was given {times} sizes: give it one")


def once(label: str, given: Sequence[str]) -> str:
    """Return the value of an option that takes one; refuse two."""
    if len(given) > 1:
        raise BadInput(f"{label} was given {len(given)} times, as {' and '.join(map(repr, given))}: give it once")
    return given[0]


def value(option: Option, rest: list[str]) -> str:
    """Take an option's value from the words after it."""
    if option.metavar is None:
        return BARE
    if rest and not rest[0].startswith("--"):
        return BARE if option.bare and rest[0].startswith("-") else rest.pop(0)
    if option.bare:
        return BARE
    raise BadInput(f"{option.flag} needs a value: {option.flag} {option.metavar}")


def place(verb: Verb, places: list[str], texts: Texts) -> None:
    """Assign the positional words to the arguments; the last may take many."""
    for argument in verb.arguments:
        if places:
            texts[argument.key] = places if argument.many else [places.pop(0)]
            places = [] if argument.many else places
    if places:
        raise BadInput(f"{verb.name} has no place for {places[0]!r}: {verb.usage}")


def _is_switch(each: Argument | Option) -> bool:
    return isinstance(each, Option) and each.metavar is None


def _is_bare(each: Argument | Option) -> bool:
    return isinstance(each, Option) and each.bare


def unknown_option(verb: Verb, flag: str) -> BadInput:
    """Return the error for an unknown option, with the nearest name."""
    from difflib import get_close_matches

    near = get_close_matches(flag, [option.flag for option in (*GLOBAL, *verb.options)], 1)
    hint = f"did you mean {near[0]}?" if near else f"`rota {verb.name} --help` shows those it has"
    dashed = "" if flag.startswith("--") else "; put -- before a word that starts with a dash"
    return BadInput(f"{verb.name} has no option {flag}: {hint}{dashed}")
