"""What the program's own text must not have: anything that unpickles, and statements made of data."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from rota.core.errors import BadInput
from rota.core.ids import queue_name
from rota.store.postgres.connection import address

ROOT = Path(__file__).parents[2]
# They read pickles, or start programs that do: multiprocessing and concurrent.futures send pickles over pipes.
UNPICKLING = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "multiprocessing"}


@cache
def modules() -> dict[str, ast.Module]:
    files = sorted((ROOT / "src").rglob("*.py"))
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def imported(tree: ast.Module) -> set[str]:
    """Every module that is imported, at whatever depth, by `import` or by name."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            found |= {
                word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)
            }
    return found


def test_nothing_imports_what_unpickles() -> None:
    for file, tree in modules().items():
        names = imported(tree)
        assert not UNPICKLING & {name.partition(".")[0] for name in names}, file
        assert "concurrent.futures.process" not in names and "concurrent.futures.ProcessPoolExecutor" not in names, file


def test_the_search_finds_what_it_looks_for() -> None:
    text = "def f():\n    from pickle import loads\nimport multiprocessing.pool\nimportlib.import_module('shelve')"
    assert {"pickle", "multiprocessing.pool", "shelve"} <= imported(ast.parse(text))


@pytest.mark.parametrize("module", ["rota.orchestrator.main", "rota.worker.runtime"])
def test_an_orchestrator_and_a_worker_load_nothing_that_unpickles(module: str) -> None:
    code = f"import sys, {module}; print([name for name in ('pickle', 'multiprocessing') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "[]\n"


def test_no_statement_is_made_of_data() -> None:
    """SQL stands in files; a text that Python puts together never has a verb of SQL and a value in it.

    The exceptions are pinned word for word, and all that they put in is checked by pattern, quoted or our own.
    """
    made = {file: found for file, tree in modules().items() if (found := made_statements(tree))}
    assert made == MAY_MAKE


@pytest.mark.parametrize(
    "text",
    [
        'f"SELECT {name} FROM job"',
        'f"BEGIN; UPDATE job SET title = {title}"',
        'f"""\n    DELETE FROM job WHERE id = {id}"""',
        '"SELECT * FROM job WHERE id = " + id',
        '"SELECT * FROM " "job WHERE id = %s" % id',
        '"DROP TABLE {}".format(name)',
        'b"LISTEN %b" % name',
    ],
)
def test_a_statement_that_is_made_of_data_is_found_however_it_is_made(text: str) -> None:
    assert len(made_statements(ast.parse(text))) == 1


MAY_MAKE: dict[str, set[str]] = {
    "src/rota/lab/bench/raw_store.py": {  # a schema's name, checked
        "SELECT {set_all({'search_path': where.schema, **PLANS}, local=False)}",
    },
    "src/rota/worker/sources/query_plan.py": {  # the user's own query; of the user's own tables, quoted names
        "EXPLAIN QUERY PLAN {source.query}",
        "EXPLAIN {source.query}",
        "EXPLAIN (FORMAT JSON, VERBOSE) {source.query}",
        "CREATE INDEX {name} ON {_quoted(table)} ({', '.join(map(_quoted, columns))})",
    },
    # settings and texts of our own, and bells: a schema's name, checked
    "src/rota/store/postgres/caller_transaction.py": {
        "SAVEPOINT rota; {keep}; SELECT {set_all(own)}; {number}; SELECT {CLOCK}",
        "SELECT  + ', '.join((f\"current_setting('{name}')\" for name in own))",
        "SELECT {restore}",
        "NOTIFY {channel}",
    },
    "src/rota/store/postgres/database.py": {"LISTEN {self._channel}"},  # the same
    "src/rota/store/postgres/session.py": {  # the same
        "SELECT set_config('synchronous_commit', 'off', true), {notifications}",
        "LOCK TABLE {where.schema}.gate IN ROW EXCLUSIVE MODE",
        "LOCK TABLE {where.schema}.gate IN SHARE ROW EXCLUSIVE MODE",
        "SELECT pg_advisory_xact_lock({_MAKING}, {zlib.crc32(where.schema.encode()) - (1 << 31)})",
        "SELECT {self._each_time}",
        "SELECT {_KEEP}, {CLOCK}",
        "SELECT {CLOCK}",
        "SELECT {_KEEP if statement.kept else _ANEW}",
        "SELECT {set_all(settings, local=False)}",
    },
    "src/rota/store/sqlite/database.py": {  # a number of our own
        "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit={JOURNAL_LIMIT}",
        "PRAGMA incremental_vacuum({most})",
    },
    "src/rota/tracking/sender.py": {  # a grant for a person to give, of quoted names
        "GRANT {', '.join(verbs)} ON {name} TO {_quoted(role)}",
    },
}
# What a statement begins with, be it the first of a text or a later one.
VERB = re.compile(
    r"(?:^|;)\s*(?:ALTER|ANALYZE|ATTACH|BEGIN|CALL|COMMENT|COMMIT|COPY|CREATE|DELETE|DETACH|DO|DROP|END|EXECUTE|EXPLAIN"
    r"|GRANT|INSERT|LISTEN|LOCK|MERGE|NOTIFY|PRAGMA|REINDEX|REPLACE|REVOKE|ROLLBACK|SAVEPOINT|SELECT|SET|TRUNCATE"
    r"|UNLISTEN|UPDATE|VACUUM|VALUES|WITH)\b"
)


def made_statements(tree: ast.AST) -> set[str]:
    """What is put together of a verb of SQL and something else, by whichever way Python has."""
    return {text for node in ast.walk(tree) if VERB.search(text := _put_together(node))}


def _put_together(node: ast.AST) -> str:
    """A text that has something else in it, in one line with that in braces; nothing where it has not."""
    match node:
        case ast.JoinedStr(values) if any(isinstance(part, ast.FormattedValue) for part in values):
            parts = [ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else part for part in values]
            return "".join(f"{{{part}}}" if isinstance(part, str) else _constant(part) for part in parts)
        case ast.BinOp(left, ast.Add() | ast.Mod() as op, right):
            return f"{_constant(left)} {'+' if isinstance(op, ast.Add) else '%'} {ast.unparse(right)}"
        case ast.Call(ast.Attribute(text, "format" | "format_map" | "join" | "replace")):
            return f"{_constant(text)} {ast.unparse(node)}"
        case _:
            return ""


def _constant(node: ast.AST) -> str:
    """A text that stands in the program, else something that no statement begins with."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.Constant(bytes(data)):
            return data.decode("latin-1")
        case _:
            return "…"


@pytest.mark.parametrize(
    "name", ["a'; DROP TABLE job; --", 'a"b', "a b", "..", "-a", ".a", "a\0", "ä", "", "a" * 65, "a/b", "a\n"]
)
def test_a_queues_name_is_refused_that_could_be_more_than_a_name(name: str) -> None:
    with pytest.raises(BadInput):
        queue_name(name)


@pytest.mark.parametrize("schema", ["a'; DROP SCHEMA public", 'a"b', "a b", "a,pg_catalog", "a;b"])
def test_a_schemas_name_is_refused_that_could_be_more_than_a_name(schema: str) -> None:
    with pytest.raises(BadInput):
        address("postgresql://localhost/rota", schema)


def test_every_function_of_the_database_is_its_callers_with_a_pinned_path() -> None:
    """In whatever file of SQL it is made; the store's own schema has none, so that its roles are all there is to it."""
    made = 0
    for file in (ROOT / "src").rglob("*.sql"):
        text = file.read_text(encoding="utf-8")
        for function in re.split(r"(?=CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE))", text)[1:]:
            head = function.split("$", 1)[0]
            made += 1
            assert "SECURITY INVOKER" in head and "SET search_path = pg_catalog, pg_temp" in head, head
        assert "SECURITY DEFINER" not in text
    assert made == 3


def test_secrets_are_compared_in_constant_time() -> None:
    """Where tokens, codes and cookies are proved, by `hmac.compare_digest` and nothing else."""
    plain: dict[str, set[str]] = {
        "src/rota/store/tokens.py": set(),
        "src/rota/api/auth.py": {
            "kind.lower() == 'bearer'",
            "request.headers.get('sec-fetch-site') != 'same-origin'",
            "port[0] == ':'",
            "other.token_id == grant.token_id",
        },
    }
    for file, harmless in plain.items():
        compared = [node for node in ast.walk(modules()[file]) if isinstance(node, ast.Compare)]
        same = {ast.unparse(node) for node in compared if any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)}
        assert same == harmless, f"{file}: is it a secret? then `hmac.compare_digest`"
    for file, prover in (("src/rota/store/tokens.py", "prove"), ("src/rota/api/auth.py", "token_of")):
        (function,) = [
            node for node in ast.walk(modules()[file]) if isinstance(node, ast.FunctionDef) and node.name == prover
        ]
        assert "hmac.compare_digest(" in ast.unparse(function), prover
