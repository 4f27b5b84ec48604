"""A copy of a conversation in a session of its own: messages, pins and all, in one commit."""

from __future__ import annotations

from collections.abc import Sequence

from strongroom.codec import encode
from strongroom.operations import Plan, itself
from strongroom.services.sessions.counters import required
from strongroom.services.sessions.ids import taken
from strongroom.services.sessions.records import Draft, own_id
from strongroom.services.sessions.state import MESSAGE, State, beginning, dump
from strongroom.services.sessions.view import View
from strongroom.services.sessions.writes import Batch, appending, unused
from strongroom.store import Expect, Key, Put, Range, Receipt, Record


async def copying(view: View, records: Sequence[Record], target: Key, title: str | None) -> Plan[Receipt]:
    """Plan a session that holds these records of another one."""
    scope = view.scope
    if view.state.mixed:
        required(view.tokenizer)
    made = Batch(tuple([_draft(view, record) for record in records]), tuple([record.at for record in records]))
    stream = scope.key(MESSAGE, target.id)
    end = await scope.get(Range(stream, 0, 0))
    state = State(
        title or view.state.title,
        scope.clock(),
        view.tokenizer.name,
        view.tokenizer.name,
        beginning(end),
        pins=tuple(index for index, one in enumerate(records, end.length) if one.index in view.state.pins),
        metadata=view.state.metadata,
        forked_from=view.id,
    )
    new = appending(scope, target.id, state, view.tokenizer, made, end.length, 0)
    expects = [
        Expect(target, 0),
        # Pins are places in the stream, so it must begin where it was seen to.
        Expect(stream, end.length),
        # The version, and not that it exists: what was deleted while it was read must not be copied in part.
        Expect(view.document, view.version),
        # Nothing of an earlier session of that id is visible, so its message ids are free.
        *unused(target, made, await taken(scope, target, made.ids)),
    ]
    return Plan(
        expects,
        [*new, Put(target, dump(state), view.tags)],
        itself,
        encode(target.id),
        lambda conflict: conflict if conflict.key == target else None,
    )


def _draft(view: View, record: Record) -> Draft:
    message = view.message(record)
    value = dict(message)
    return Draft(value, own_id(record), message.tokens, encode(value), message.sidecar)
