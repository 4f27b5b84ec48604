"""What was meant by a name that there is not: what others call the same thing, or else the nearest spelling.

Two tables, one of attributes and one of arguments, in words of LangGraph, mem0, the OpenAI Agents SDK, ADK and Redis.
They are looked at only once Python has found nothing, so whoever asks on purpose (`hasattr`, `copy`, a mock) gets the
AttributeError it expects. Type checkers see none of it: a `__getattr__` would make every mistake legal. A class that
has one pays for it at every attribute that is there, so what comes by the hundred (events, memories) has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

MOST_NAMED = 7  # names in one message

# What is told to whoever asks for one of the words; {} is the word itself. Written for async code; blocking code reads
# it without the awaits.
_SAID: dict[str, dict[str, str]] = {
    "Context": {
        "run task tasks job jobs agent agents workflow checkpoint checkpoints checkpointer": "`ctx.runs`",
        "session chat chats conversation conversations history messages": "`ctx.sessions`",
        "append add_message add_messages": "`await session.append(message)`, of `await ctx.sessions.open(session_id)`",
        "memory mem facts knowledge": "`ctx.memories`",
        "add remember": "`await ctx.memories.add(text, user_id=...)`",
        "search recall query find retrieve": "`await ctx.memories.search(text, user_id=...)`",
        "thread queue queues mailbox channel": "`ctx.threads`",
        "publish send": "`await ctx.threads.append(thread_id, payload, from_id=...)`",
        "subscribe listen watch stream": "`ctx.threads.follow(thread_id)` or `run.follow()`",
        "file notes documents docs artifacts": "`ctx.files`",
        "get set put hget hset mget mset": "`ctx.files` for text by a path, `run.update(state=...)` for JSON of a run",
        "transaction begin commit pipeline atomic batch unit_of_work rollback": "`async with ctx.turn() as turn`",
        "context window build_prompt compose": "`await ctx.prompt(session=session, max_tokens=...)`",
        "dump pack save backup snapshot": "`await ctx.export(path)`; `strongroom backup` copies a whole store",
        "load unpack": "`await ctx.restore(path)`",
        "delete remove forget purge clear delete_user": "`await ctx.erase(user_id=...)`, or delete of what holds it",
        "tenant namespace workspace": "`ctx.space`",
        "disconnect quit shutdown stop aclose": "`await ctx.close()`",
        "flush sync fsync": "nothing: an acknowledged write survives what `ctx.durability` says",
    },
    "Runs": {
        "new start begin add insert": "`await ctx.runs.create(objective=...)`",
        "get_or_create ensure upsert": "`await ctx.runs.open(run_id, objective=...)`",
        "load fetch find read resume": "`await ctx.runs.get(run_id)`",
        "all ls items search query": "`await ctx.runs.list()`",
        "update save put record": "`await run.update(...)`, of `await ctx.runs.get(run_id)`",
        "delete remove rm drop clear purge delete_thread": "`await ctx.runs.erase(run_id, reason=...)`",
    },
    "Run": {
        "status objective blockers next_action constraints current_stage acceptance_criteria pinned_context "
        "sliding_context last_action_summary artifact_refs": "`run.working_set.{}`, what this handle saw last",
        "stage": "`run.working_set.current_stage`, what this handle saw last",
        "goal task": "`run.working_set.objective`",
        "run_id uuid": "`run.id`",
        "version revision": "`run.seq`",
        "history log logs ledger trace audit steps get_state_history": "`await run.events()`, or `run.replay()`",
        "values data get_state": "`run.state`, what this handle saw last",
        "update_state set_state patch": "`await run.update(state_patch={...})`",
        "save put set commit": "`await run.update(...)`: it is durable when it returns",
        "log_event add_event emit append add": "`await run.record(type, payload)`",
        "checkpoint snapshot": "`await run.milestone(reason)`; every update stays readable by `run.at(seq)`",
        "undo revert": "`await run.rollback(seq)`",
        "load reload read get": "`await run.refresh()`",
        "copy clone branch": "`await run.fork()`",
        "stream watch subscribe tail listen": "`run.follow()`",
        "delete remove erase clear": "`await ctx.runs.erase(run.id, reason=...)`",
        "finish complete done end stop close cancel": "`await run.update(status='DONE')`",
        "artifacts files": "`run.working_set.artifact_refs`",
        "add_artifact save_artifact upload": "`await run.attach(source, type=...)`",
        "dump pack": "`await run.export(path)`",
        "cost tokens": "`await run.usage()`",
        "prompt summary context": "`await run.brief()`, or `await ctx.prompt(run=run, max_tokens=...)`",
        "messages session chat conversation": "`ctx.sessions`: a run has a ledger, a session has messages",
    },
    "Sessions": {
        "create new start add begin get_or_create ensure create_session": "`await ctx.sessions.open(session_id)`",
        "load fetch find get_session": "`await ctx.sessions.get(session_id)`",
        "all ls items list_sessions": "`await ctx.sessions.list()`",
        "append add_message messages history": "`await session.append(message)` and `await session.load()`, of "
        "`await ctx.sessions.open(session_id)`",
        "remove rm drop clear delete_session": "`await ctx.sessions.delete(session_id)`",
        "query find_messages recall": "`await ctx.sessions.search(text)`",
    },
    "Session": {
        "messages history items get_items get_messages get_history events turns all list read": "`await "
        "session.load()`; what fits a model: `await session.window(max_tokens=...)`",
        "add add_message add_messages add_items add_user_message add_ai_message append_event send push extend insert "
        "put say write": "`await session.append(message)`",
        "clear reset clear_session truncate": "`await session.truncate_from(message_id)` hides, `await "
        "session.erase(all=True)` erases",
        "pop_item": "`await session.pop()`",
        "remove rm drop": "`await session.delete()`",
        "remove_message delete_message": "`await session.erase([message_id])`",
        "update edit set": "`await session.replace_from(message_id, messages)`",
        "session_id name key": "`session.id`",
        "title metadata tags revision pinned": "{} of `await session.info()`",
        "user_id owner user": "tags['user_id'] of `await session.info()`",
        "count size length": "messages of `await session.info()`, which is how many",
        "context prompt trim trim_messages to_messages": "`await session.window(max_tokens=...)`, or `await "
        "ctx.prompt(session=session, max_tokens=...)`",
        "summary summarize": "`await session.window(max_tokens=..., summarizer=...)`",
        "copy clone branch": "`await session.fork()`",
        "undo": "`await session.restore()`",
        "query find recall": "`await session.search(text)`",
        "save commit flush": "nothing: what is appended is durable when `session.append` returns",
        "state get_state": "`run.state`, of a run: a session has messages, title and metadata",
    },
    "Memories": {
        "approve accept confirm publish apply merge": "`await ctx.memories.commit(batch, reviewer=...)`",
        "decline deny refuse discard dismiss": "`await ctx.memories.reject(batch, reason=...)`",
        "review reviews queue proposals proposed waiting inbox staged": "`await ctx.memories.pending()`",
        "get_all all ls items": "`await ctx.memories.list(user_id=...)`",
        "save put insert remember create write set upsert aadd add_memory": "`await ctx.memories.add(text, "
        "user_id=...)`",
        "query find recall retrieve lookup similarity_search asearch": "`await ctx.memories.search(text, user_id=...)`",
        "edit patch modify": "`await ctx.memories.update(memory_id, text)`",
        "remove rm adelete": "`await ctx.memories.delete(memory_id)`",
        "delete_all forget purge clear reset": "`await ctx.memories.erase(user_id=...)`",
        "versions changes log": "`await ctx.memories.history(memory_id)`",
        "extract": "`await ctx.memories.learn(session, model=...)`",
        "dedupe deduplicate": "`await ctx.memories.consolidate(model=...)`",
        "expire": "`await ctx.memories.sweep()`",
        "embed reindex": "`await ctx.memories.reembed(embedder)`",
    },
    "Threads": {
        "create new open start send publish push put post write add": "`await ctx.threads.append(thread_id, payload, "
        "from_id=...)`, which begins a thread too",
        "read load fetch": "`ctx.threads.get(thread_id)`",
        "all ls items": "`await ctx.threads.list()`",
        "remove rm drop": "`await ctx.threads.delete(thread_id)`",
        "subscribe listen watch stream pop receive consume": "`ctx.threads.follow(thread_id)`, or a worker: "
        "`strongroom.dispatch`",
    },
    "Thread": {
        "messages slots items history events all read load list": "`await thread.slice()`",
        "append send add push put post": "`await ctx.threads.append(thread.id, payload, from_id=...)`",
        "thread_id name": "`thread.id`",
        "count size": "`await thread.length()`",
        "last latest": "`await thread[-1]`",
        "subscribe listen watch stream": "`thread.follow()`",
        "delete close remove": "`await ctx.threads.delete(thread.id)`",
    },
    "Files": {
        "open load get cat read_text": "`await ctx.files.read(path)`",
        "save put set create add upload write_text append edit update": "`await ctx.files.write(path, text)`",
        "remove rm unlink": "`await ctx.files.delete(path)`",
        "mv move": "`await ctx.files.rename(path, to)`",
        "ls all glob walk listdir": "`await ctx.files.list(folder)`",
        "versions log": "`await ctx.files.history(path)`",
        "undo revert rollback": "`await ctx.files.restore(path, version)`",
        "grep find query": "`await ctx.files.search(text)`",
    },
    "Turn": {
        "commit save flush execute": "nothing: the end of its block commits all of it, or an exception none",
        "rollback abort cancel discard": "an exception: whatever leaves its block by one writes nothing",
        "add add_message say": "`turn.append(session, message)`",
        "log log_event add_event emit": "`turn.record(run, type, payload)`",
        "publish post push": "`turn.send(thread_id, payload, from_id=...)`",
        "remember add_memory memories": "`turn.propose(request, proposer=...)`",
        "set_state update_state": "`turn.update(run, state_patch={...})`",
    },
    "Batch": {
        "approve accept confirm commit": "`await ctx.memories.commit(batch, reviewer=...)`",
        "reject decline deny discard": "`await ctx.memories.reject(batch, reason=...)`",
        "memories requests items contents content": "`batch.proposals`: each has its `request`",
        "batch_id": "`batch.id`",
    },
    "Written": {
        "memory_id": "`written.id`",
        "content memory text": "`await ctx.memories.get(written.id)`, once it is known",
    },
    "Hit": {
        "text": "`hit.content`",
        "memory_id": "`hit.id`",
        "metadata tags type scope user_id created_at updated_at confidence": "`hit.memory.{}`",
    },
    "Prompt": {
        "text content prompt": "`prompt.messages`",
        "tokens usage": "`prompt.total_tokens`; by part: `prompt.receipt`",
        "left_out parts query": "`prompt.receipt.{}`",
    },
    "Brief": {
        "content prompt messages": "`brief.text`",
        "tokens usage": "`brief.total_tokens`",
        "left_out tokenizer": "`brief.receipt.{}`",
    },
    "Window": {
        "text content prompt": "`window.messages`",
        "tokens": "`window.total_tokens`",
        "left_out kept tokenizer": "`window.receipt.{}`",
    },
}
ATTRIBUTES = {
    kind: {word: told.replace("{}", word) for words, told in said.items() for word in words.split()}
    for kind, said in _SAID.items()
}

# Arguments: what we call it, and what others do. Of several names the first that a call takes is meant.
_GIVEN = {
    "key": "api_key apikey token auth auth_token access_token password passphrase secret encryption_key",
    "space": "tenant tenant_id namespace workspace app_name organization",
    "read_only": "readonly ro",
    "timeout_seconds retry_seconds": "timeout connect_timeout busy_timeout timeout_seconds",
    "retry_seconds": "retry retries max_retries",
    "ca_file": "verify cafile ca cert ca_cert ca_certs ca_bundle ssl ssl_context",
    "address url path": "path db db_path db_url database dsn uri connection_string conn_string filename file base_url",
    "durability": "synchronous sync durable",
    "max_connections": "pool_size max_pool_size connections",
    "embedder": "embedding embeddings embedding_model embedding_function embed",
    "user_id": "user owner owner_id username",
    "session_id": "conversation_id chat_id",
    "max_tokens": "token_limit max_length budget tokens",
    "k limit": "top_k topk n n_results num_results size count limit",
    "limit": "k page_size max",
    "after": "cursor offset start page",
    "commit_id": "idempotency_key transaction_id request_id",
    "objective": "goal task title name",
    "content messages query": "text message",
    "metadata": "meta",
    "where": "filters filter conditions",
    "tags": "agent_id actor_id categories labels",
    "reviewer by": "approved_by approver author",
}
ARGUMENTS: dict[str, list[str]] = {}
for _ours, _words in _GIVEN.items():
    for _word in _words.split():
        ARGUMENTS.setdefault(_word, []).extend(_ours.split())


def meant_argument(word: str, taken: Sequence[str]) -> str | None:
    """Return which of the names that a call takes was meant by another one, or None."""
    said = next((ours for ours in ARGUMENTS.get(word, ()) if ours in taken), None)
    return said or next(iter(get_close_matches(word, taken, n=1, cutoff=0.6)), None)


def meant_value(name: str, value: object) -> str:
    """Return what to add where a conversation was given as the content of a memory, as mem0 has it, or an object of a
    client library as a message; else nothing."""
    messages = value if isinstance(value, Sequence) else [value]
    if name == "messages" and any(hasattr(each, "model_dump") for each in messages):
        return ": pass its .model_dump(exclude_none=True)"
    if name != "content" or not messages or not all(isinstance(each, Mapping) and "role" in each for each in messages):
        return ""
    return " (a conversation is a session, which `memories.learn(session, model=...)` makes memories of)"


def some_of(names: Sequence[str], nearest: Sequence[str] = ()) -> str:
    """Return names in words, in their order. Of many the nearest and the first: a line of twenty is read by nobody."""
    if len(names) <= MOST_NAMED + 1:
        return ", ".join(names)
    some = [*dict.fromkeys([*nearest, *names])][:MOST_NAMED]
    return f"{', '.join(sorted(some, key=names.index))} and {len(names) - MOST_NAMED} more, which `help` of it lists"


def meant_attribute(kind: str, word: str, known: Sequence[str]) -> str:
    """Return what to say after "no attribute": what to write instead, or else what there is."""
    said: Mapping[str, str] = ATTRIBUTES.get(kind.removeprefix("Async"), {})
    if told := said.get(word.lower()):
        return f"use {told if kind.startswith('Async') else _blocking(told)}"
    if near := get_close_matches(word, known, n=3, cutoff=0.6):
        return f"did you mean {' or '.join(near)}?"
    return f"it has {some_of(known)}"


def _blocking(told: str) -> str:
    return re.sub(r"\b(?:await|async) ", "", told)


class Meant:
    """Whose missing attributes are told with what was meant."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            kind = type(self)
            if hasattr(kind, name):  # a property that failed by an AttributeError of its own, which is to be seen
                return object.__getattribute__(self, name)
            if name.startswith("_"):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=self)
            known = [each for each in dir(self) if not each.startswith("_")]
            # Without `obj`, or a trace would go on to guess beside what is said here.
            raise AttributeError(
                f"{kind.__name__} has no attribute {name!r:.80}; {meant_attribute(kind.__name__, name, known)}",
                name=name,
            )


# What changes what a handle shows, by its class.
_CHANGED_BY = {
    "Run": "`await run.update(...)`",
    "Session": "`await session.rename(title)`, `await session.set_metadata(value)` or `await session.append(message)`",
    "Thread": "`await ctx.threads.append(thread.id, payload, from_id=...)`",
}


class Unsettable(Meant):
    """A handle on something that is stored. It shows that; calls change it, and no attribute that is set."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __setattr__(self, name, value):
            if name.startswith("_"):
                object.__setattr__(self, name, value)
                return
            kind = type(self).__name__
            told = _CHANGED_BY[kind.removeprefix("Async")]
            use = told if kind.startswith("Async") else _blocking(told)
            raise AttributeError(f"setting {name!r:.80} would change nothing that is stored; use {use}", name=name)
