# Asks DuckDB. Burstline runs it with `python3 -c`.
#
# Standard input: a line of JSON with `calls`, `temporary`, `swapped_with_root`; once this has said
# `ready`, a JSON object with `tree`, `sql`, `from_ns`, `to_ns`. Standard output: a line of JSON with
# `columns` and `types`, then an array a row; or one with `error`, `line`, `column`.
# Exit code: 0 done, 3 an error that was printed, 9 no DuckDB here.
import sys

# A file called duckdb.py in the working folder is not meant.
sys.path[:] = [place for place in sys.path if place]

import ctypes
import fnmatch
import json
import math
import os
import re
import signal

# Who asks may be killed: this ends with it. Source: prctl(2), PR_SET_PDEATHSIG.
ctypes.CDLL(None).prctl(1, signal.SIGKILL)

try:
    import duckdb
except ImportError:
    sys.exit(9)

# What DuckDB imports for values of some types. Later no code can be mapped.
import datetime, decimal, uuid, zoneinfo

try:
    import pytz
except ImportError:
    pass  # said when it is needed


def fail(what, line=None, column=None):
    # A name of a file may be no text.
    what = what.encode(errors="replace").decode()
    print(json.dumps({"error": what, "line": line, "column": column}), flush=True)
    sys.exit(3)


def fail_as(error, sql):
    """Says where in the SQL an error is. DuckDB counts bytes from 0."""
    text = str(error)
    if "'pytz'" in text and "failed to import" in text:
        fail("times with a zone need Python's package pytz: scripts/setup query, or "
             "python3 -m pip install pytz==2026.6")
    try:
        fields = json.loads(text[text.index("{"):])
    except ValueError:
        fail(text)
    what = fields.get("exception_message", text)
    if sql is None or not fields.get("position", "").isdigit():
        fail(what)
    before = sql.encode()[: int(fields["position"])].decode(errors="replace")
    fail(what, before.count("\n") + 1, len(before.rsplit("\n", 1)[-1]) + 1)


class Program(ctypes.Structure):
    """`struct sock_fprog`."""
    _fields_ = [("count", ctypes.c_ushort), ("at", ctypes.c_char_p)]


def confine(calls):
    """Enters the list of calls, after which nothing may be started or mapped as code."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        os.setsid()  # no terminal
    except OSError:
        pass  # it has none already
    os.closerange(3, 65536)
    libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    program = Program(len(calls) // 8, calls)
    # Of all threads (TSYNC): a package may have started some. Source: include/uapi/linux/seccomp.h.
    number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    if libc.syscall(number, 1, 1 | 4, ctypes.byref(program)) != 0:
        fail(f"no list of calls: {os.strerror(ctypes.get_errno())}")


def plain(value):
    """What JSON has a word for; numbers that it would round are texts."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return str(value)


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


# The folders below a tree, and whole files in them: a name that begins with a dot is not whole yet.
PARTS = "date=*/hour=*/sensor=*/part-*.parquet"


def owner_of(path):
    """The owner on the disk."""
    owner, swapped = os.stat(path).st_uid, settings["swapped_with_root"]
    return owner if swapped is None else {0: swapped, swapped: 0}.get(owner, owner)


def fail_to_read(path, error):
    """Root without capabilities may not read what others keep for themselves."""
    what = f"{path}: {error.strerror}"
    if isinstance(error, PermissionError):
        try:
            what += f"; its owner may read it: sudo -u '#{owner_of(path)}' burstline query ..."
        except OSError:
            pass  # the folder that it is in does not say whose it is
    fail(what)


def parts_below(tree, folder, patterns):
    """The files below a folder of the tree. Without one that may not be read, records would be missing."""
    try:
        names = fnmatch.filter(os.listdir(folder or "."), patterns[0])
    except (NotADirectoryError, FileNotFoundError):
        return []
    except OSError as error:
        fail_to_read(os.path.join(tree, folder), error)
    paths = [os.path.join(folder, name) for name in names]
    if not patterns[1:]:
        return paths
    return [part for path in paths for part in parts_below(tree, path, patterns[1:])]


def connect(tree, from_ns, to_ns):
    """A connection that has the view `flows`, and may read only the tree."""
    if not os.path.isdir(tree):
        fail(f"{tree}: no such folder")
    # The tree's own name may have characters that patterns give a meaning.
    try:
        os.chdir(tree)
    except OSError as error:
        fail_to_read(tree, error)
    parts = parts_below(tree, "", PARTS.split("/"))
    if not parts:
        fail(f"{tree}: no flow records; it has no {PARTS}")
    for part in parts:
        # DuckDB would wait for who writes into a pipe.
        if not os.path.isfile(part):
            fail(f"{tree}/{part}: it is not a regular file")
    connection = duckdb.connect(":memory:")
    if settings["temporary"] is not None:
        connection.execute(f"SET temp_directory = {quoted(settings['temporary'])}")
    for setting in (
        "errors_as_json = true",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "enable_progress_bar = false",
        f"allowed_directories = [{quoted(tree)}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")
    types = "{'date': DATE, 'hour': INTEGER, 'sensor': VARCHAR}"
    view = (
        f"CREATE VIEW flows AS SELECT * FROM read_parquet({quoted(PARTS)}, "
        f"hive_partitioning = true, hive_types = {types}, union_by_name = true)"
    )
    bounds = []
    if from_ns is not None:
        bounds.append(f"last_ns >= {int(from_ns)}")
    if to_ns is not None:
        bounds.append(f"first_ns < {int(to_ns)}")
    connection.execute(view + (" WHERE " + " AND ".join(bounds) if bounds else ""))
    return connection


# What EXPLAIN ANALYZE runs may write, so what is behind it has to be a SELECT as well.
EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?(?=SELECT\b|WITH\b|FROM\b)", re.IGNORECASE)


def is_question(connection, sql):
    statements = connection.extract_statements(sql)
    if len(statements) == 1 and statements[0].type == duckdb.StatementType.EXPLAIN:
        begin = EXPLAIN.match(sql)
        return begin is not None and is_question(connection, sql[begin.end():])
    return len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT


def main():
    request = json.load(sys.stdin)
    sql = request["sql"]
    try:
        connection = connect(request["tree"], request["from_ns"], request["to_ns"])
    except duckdb.Error as error:
        fail_as(error, None)
    try:
        if not is_question(connection, sql):
            fail("one SELECT is expected: a tree is only read", 1, 1)
        answer = connection.execute(sql)
        names = [column[0] for column in answer.description]
        types = [str(column[1]) for column in answer.description]
        print(json.dumps({"columns": names, "types": types}))
        while rows := answer.fetchmany(4096):
            print("\n".join(json.dumps(plain(row)) for row in rows))
    except duckdb.Error as error:
        fail_as(error, sql)


settings = json.loads(sys.stdin.readline() or sys.exit(3))  # who asks has ended
if settings["calls"] is not None:
    confine(bytes.fromhex(settings["calls"]))
print("ready", flush=True)

try:
    main()
except BrokenPipeError:
    # Nobody reads on.
    os._exit(0)
