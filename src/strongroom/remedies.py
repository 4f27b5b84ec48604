"""What every error means and what to do about it: said by `strongroom explain`, and on the page of errors.

An error's `code` says which it is; where the store failed, `reason` says why. Both are stable words, and so are the
codes with which a server turns a request away.
"""

from __future__ import annotations

from typing import NamedTuple


class Remedy(NamedTuple):
    """Why something happens, and what to do then."""

    cause: str
    remedy: str


# By the code of an error.
ERRORS = {
    "error": Remedy(
        "Something that Strongroom refuses on purpose; every other error is one of these.",
        "Catch it where any refusal is handled alike.",
    ),
    "invalid_input": Remedy(
        "An argument cannot be stored or asked for: a wrong type, a value out of bounds, NaN, an unknown option. "
        "`path` says where in it. Nothing changed.",
        "Mend the call. The message says what is allowed. Repeating it as it is never helps.",
    ),
    "not_found": Remedy(
        "There is nothing of that name in this space: never made, deleted, erased, or of another tenant.",
        "Look at `kind` and `id`; list what there is. Check that you opened the right store and `space`.",
    ),
    "conflict": Remedy(
        "Somebody else was first: what you expected (`expected`) is no longer so (`actual`). Nothing changed.",
        "Read again, decide again, write again; `update_with` and `turn_with` do that for you.",
    ),
    "immutable": Remedy(
        "What you tried to change never changes: the id of a run, an event, a message, a slot. Nothing changed.",
        "Add something new instead: an update, an event, a message that says what is right.",
    ),
    "budget_exceeded": Remedy(
        "The call would pass a limit (`limit`, `needed`): of a window, a turn, a thread, a record. Nothing changed.",
        "Send less, in several calls, or raise the limit where it was set.",
    ),
    "closed": Remedy(
        "The context, the store or the turn had ended before the call. Nothing changed.",
        "Keep it open as long as it is used: one `with strongroom.open(...)` around the program, not around a call.",
    ),
    "store_error": Remedy(
        "The store failed, not the caller. `reason` says how.",
        "See the reason. The three kinds below it say whether anything changed.",
    ),
    "unavailable": Remedy(
        "The store does not serve this now, and may later; or it turned you away, which lasts (`unauthorised`, "
        "`permission`). Nothing changed.",
        "See the reason; then repeat. A server's client has repeated for 15 seconds before it says this (five "
        "where nothing ever answered). Of `unauthorised`, `permission` and `tls` it repeats nothing, and nor "
        "should you: give the right key, or one with the right.",
    ),
    "commit_unknown": Remedy(
        "The line broke, or the disk failed, between a commit and its answer. It may or may not have happened.",
        "Repeat the same call with the same `commit_id` (`error.commit_id` if you gave none): it happens at most once, "
        "and you get the first answer.",
    ),
    "schema_mismatch": Remedy(
        "What is there is not a store that this version can open. Nothing changed.",
        "See the reason. Never delete the file to get rid of it.",
    ),
    "damaged": Remedy(
        "What is stored is not what was written. It was not served, and nothing was changed.",
        "Stop writers, keep a copy of all files, run `strongroom check`, restore a backup. The rest stays readable.",
    ),
}

# By the reason of an error of the store.
REASONS = {
    "locked": Remedy(
        "Another process held the file for longer than `timeout_seconds`.",
        "Look for a program that keeps a transaction open; raise `timeout_seconds`.",
    ),
    "disk_full": Remedy("No room on the disk.", "Free some; nothing has to be repaired."),
    "file_too_large": Remedy(
        "The file reached a limit of the system or of the user.", "Raise the limit (`ulimit -f`)."
    ),
    "read_only": Remedy(
        "The store was opened to be read only, or cannot be written.",
        "Where you said `read_only` yourself, open it without. Otherwise give this user the right to write the file "
        "and the folder it lies in, or only read: with `read_only=True`; commands that only look do so by themselves.",
    ),
    "io": Remedy(
        "The disk or its driver failed.", "Look at the system's log. After a failed fsync, open the store anew."
    ),
    "forked": Remedy(
        "The process was forked while the store was open; SQLite's locks do not survive that.",
        "Open it after the fork only, since a child cannot open what its parent had open; or start processes by spawn.",
    ),
    "network_filesystem": Remedy(
        "The file lies on a network file system, where SQLite's locks do not work.",
        "Use a local disk, or Postgres, Redis or a server.",
    ),
    "hard_link": Remedy(
        "The file has a second name, by a hard link or because it is mounted alone; two names would destroy it.",
        "Remove the other name or copy it; mount its folder.",
    ),
    "unfinished": Remedy(
        "The store is the target of a copy that was interrupted: parts of it are missing.",
        "Run `strongroom copy` from the same source again; it goes on where it was.",
    ),
    "sqlite_version": Remedy("The SQLite in use has a fault that loses data.", "Install apsw-sqlite3mc anew."),
    "permission": Remedy(
        "The file, the server's role or the key does not allow it. Nothing changed.",
        "Repeating does not help. Give the right, or use a key of another role: `strongroom keys create --role ...`.",
    ),
    "unauthorised": Remedy(
        "The server does not know who asks: there is no key, it is misspelt, revoked or of another server, or a token "
        "has expired. Nothing changed.",
        "Repeating does not help. Where the store is, `strongroom keys list` shows the keys that are good (a revoked "
        "one is not among them), and `strongroom keys create --role ...` makes one. Give it as "
        "`connect(url, key=...)`, `--key` or STRONGROOM_API_KEY.",
    ),
    "missing": Remedy(
        "A folder, a database, or a package that is needed is not there.",
        "Make it, or install the extra that the message names.",
    ),
    "unreachable": Remedy("The server does not answer.", "Check address, network and that it runs; then repeat."),
    "tls": Remedy(
        "The server has no certificate that can be verified, or speaks no TLS.",
        "Postgres: name its authority with `?sslrootcert=`, or say `?sslmode=disable` where the network is trusted. "
        "`strongroom serve`: say `http://` where it has no certificate, else give it one of a public authority.",
    ),
    "evicting": Remedy("Redis may throw data away when its memory is full.", "Set `maxmemory-policy noeviction`."),
    "memory": Remedy("The server has no memory left.", "Give it more, or keep less."),
    "server_version": Remedy("The server is too old.", "Postgres 13 or newer; Redis 7 or Valkey."),
    "encoding": Remedy("The Postgres database is not in UTF-8.", "Make one with `ENCODING 'UTF8'`."),
    "stalled": Remedy("A commit got no answer from a thread or server in time.", "Look at the load; then repeat."),
    "not_durable": Remedy(
        "`require_durable` was asked for, and Redis may lose what it acknowledged.",
        "`appendonly yes` and `appendfsync always`, or open it without.",
    ),
    "too_many_requests": Remedy(
        "The key asked more often than the server allows.",
        "Wait as long as `Retry-After` says; raise STRONGROOM_REQUESTS_PER_SECOND.",
    ),
    "embedder": Remedy("The function or service that makes vectors failed.", "Search by words; look at the service."),
    "model": Remedy("The model that was asked failed or answered nothing of use.", "Look at its service; then repeat."),
    "key": Remedy(
        "The key does not open this file, or could not be fetched.", "Name the right one; nothing was opened."
    ),
    "encryption": Remedy(
        "Another package has replaced the SQLite that can encrypt.",
        "`pip install --force-reinstall --no-deps apsw-sqlite3mc`.",
    ),
    "fsync": Remedy("The disk refused to make it durable.", "Repeat with the same id; look at the disk."),
    "interrupted": Remedy("The call was interrupted while it committed.", "Repeat with the same id."),
    "connection": Remedy("The connection broke before the answer came.", "Repeat with the same id."),
    "foreign": Remedy("The file or the schema belongs to another program.", "Name another path or schema."),
    "newer": Remedy(
        "A newer Strongroom wrote it.", "Upgrade; or copy it back with `strongroom copy` of the newer one."
    ),
    "empty": Remedy(
        "The file holds no store yet, and was opened to be read only.", "Open it once where it can be written."
    ),
    "contextstore": Remedy("The file to import was not written by ContextStore.", "Name another file."),
    "older": Remedy("An older format, opened where it cannot be written.", "Open it once where it can be."),
    "encrypted": Remedy("The file is encrypted and no key was given.", "`key=`, or STRONGROOM_KEY."),
    "plain": Remedy("The file is not encrypted and a key was given.", "Open it without, or `strongroom encrypt` it."),
    "http": Remedy("What answered is no Strongroom server, or one of another major version.", "Check the address."),
    "server": Remedy("The server failed inside.", "Its log has more, under the id in the message."),
    "corrupt": Remedy(
        "SQLite found the file's structure broken.", "Restore a backup; `strongroom check` says what is."
    ),
    "checksum": Remedy(
        "A row is not what was written: a bit flipped, or somebody edited it.",
        "Restore it from a backup. Everything else can be read.",
    ),
    "gap": Remedy("Records of a stream are missing.", "Restore a backup; `strongroom runs verify` says from where."),
    "replaced": Remedy(
        "The file or the tables were exchanged or deleted under a live store, or a log is left of another file.",
        "Stop every process that uses it; put the right file back. The message says if a log may be removed.",
    ),
    "regressed": Remedy(
        "The store is older than what it has acknowledged: an old copy, or a replica that lost data.",
        "Stop; find the newest copy. Do not write to this one.",
    ),
    "cut": Remedy("Something else than SQLite cut the log short.", "Stop every process; restore a backup."),
    "differs": Remedy("A copy is not what its source is: it was written to meanwhile.", "Copy again, to a new target."),
}

# By the code in a server's answer that is no error of a store: the request itself was turned away. Nothing changed.
REQUESTS = {
    "no_such_path": Remedy("The server has nothing at this address.", "`/docs` of the server lists all it has."),
    "method_not_allowed": Remedy("The address takes other methods.", "`/docs` of the server says which."),
    "unsupported_media_type": Remedy("The body is of another kind.", "Send `Content-Type: application/json`."),
    "header_twice": Remedy(
        "A header that decides who asks or what is meant was given twice.",
        "Send it once; look at what a proxy in between adds.",
    ),
    "not_utf8": Remedy("The address is not UTF-8.", "Encode it as UTF-8 before it is percent-encoded."),
    "headers_too_large": Remedy("The headers are too many or too long.", "Send fewer; look at cookies of other sites."),
    "body_too_large": Remedy(
        "The body is longer than this endpoint takes (`limit`, `needed`).", "Send less, in several requests."
    ),
    "body_incomplete": Remedy("The connection ended before the body did.", "Send it again."),
    "body_too_slow": Remedy("The body came too slowly.", "Send it again; look at the network."),
    "expected_seq_needed": Remedy(
        "A change of a run did not say which state it was decided from.",
        "Send `expected_seq` in the body or the run's ETag as `If-Match`; both are in what you read of it.",
    ),
    "key_made": Remedy(
        "A key was made under this `Idempotency-Key`, and a key is shown only once.", "Revoke it, and make another."
    ),
    "busy": Remedy(
        "The server is at other work of this kind: a backup, or large requests.",
        "Wait as long as `Retry-After` says; then repeat.",
    ),
    "not_ready": Remedy(
        "The server runs, and its store does not answer.", "Look at the store and at the server's log; then repeat."
    ),
    "too_many_streams": Remedy(
        "More streams are open at once than the server allows.", "End those that nobody reads; then repeat."
    ),
    "too_many_sessions": Remedy(
        "Assistants hold more sessions (MCP) than the server allows.",
        "End one (`DELETE`), or wait: idle ones end after half an hour.",
    ),
    "refused": Remedy("What is under the server refused the request.", "The message says why."),
    "internal": Remedy("The server failed inside.", "Its log has more, under the `id` in the answer."),
}

# Other words for the same: what HTTP calls a missing right, and how it is spelt elsewhere.
SAME = {"forbidden": "permission", "unauthorized": "unauthorised"}


def known(word: str) -> str | None:
    """Return the word that a code or a reason is explained under, or None if nothing is known of it."""
    meant = SAME.get(word, word)
    return meant if meant in ERRORS or meant in REASONS or meant in REQUESTS else None
