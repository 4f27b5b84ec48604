"""StrongroomArtifactService: files of agents, every version of them.

A stream for each artifact, a record for each version, and a document that says where its life began: an artifact that
was deleted and saved anew counts its versions from 0 again.
"""

from __future__ import annotations

from typing import Any

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from strongroom.adapters import large
from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.retry import attempts
from strongroom.services.sessions import layouts
from strongroom.services.sessions.beside import Taking
from strongroom.services.sessions.layouts import digest, owned_by
from strongroom.store import (
    Append,
    Commit,
    Entry,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Record,
    Scan,
    Write,
    new_id,
)

KIND = layouts.ADK_ARTIFACT
VERSION = layouts.ADK_ARTIFACT_VERSION
USER = "user:"
PAGE = 500
DEEPEST = 10  # references that lead to references


class StrongroomArtifactService(BaseArtifactService, Closing):
    """Keep artifacts in a Strongroom store: `Runner(artifact_service=StrongroomArtifactService("agent.db"), ...)`.

    One version holds up to 256 MiB.
    """

    def __init__(self, where: Where, **options: Any) -> None:
        self.opened = Opened(where, options)

    @property
    def _scope(self) -> Any:
        return self.opened.awaitable

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        key, stream = self._keys(app_name, user_id, filename, session_id)
        part = ensure_part(artifact)
        mime_type = self._mime_type(part, app_name, user_id, session_id)
        place = "" if is_users(filename) else f"/sessions/{session_id}"
        text = part.model_dump_json(exclude_none=True)
        body = {
            "mime_type": mime_type,
            "metadata": custom_metadata or {},
            "uri": f"strongroom://apps/{app_name}/users/{user_id}{place}/artifacts/{filename}/versions/",
        }
        tags = self._tags(app_name, user_id, None if is_users(filename) else session_id)
        tags |= owned_by(user_id)
        async with large.Staging(self._scope, key.id) as staging:
            for _ in attempts(f"artifact {filename!r:.80}"):
                document, end = await self._scope.read(Get(key), Range(stream, 0, 0))
                base = end.length if document is None else document.value.load()["base"]
                try:
                    told = await staging.named(text)
                    entry = Entry("version", encode({"part": told.texts[0], **body}), at=self._scope.clock())
                    expects = (Expect(key, 0 if document is None else document.version), *told.expects)
                    put = Put(key, encode({"filename": filename, "base": base}), tags)
                    writes: tuple[Write, ...] = (Append(stream, (entry,)), put, *told.writes)
                    receipt = await self._scope.store.commit(Commit(new_id(), expects, writes))
                except Conflict:
                    continue
                version: int = receipt.versions[0] - 1 - base
                return version
        raise AssertionError("attempts() raises when it is enough")

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        for left in range(DEEPEST, -1, -1):
            found = await self._version(app_name, user_id, filename, session_id, version)
            if found is None:
                return None
            part = types.Part.model_validate_json(await large.whole(self._scope, found[1]["part"]))
            if not artifact_util.is_artifact_ref(part):
                return None if part == types.Part() or is_tombstone(part) else part
            file = part.file_data
            assert file is not None
            target = artifact_util.resolve_artifact_reference(
                file_uri=str(file.file_uri),
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=left,
            )
            app_name, user_id, filename = target.app_name, target.user_id, target.filename
            session_id, version = target.session_id, target.version
        return None

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        self._check(app_name, user_id, session_id)
        found: list[str] = []
        for session in {None, session_id}:
            tags = self._tags(app_name, user_id, session)
            async for page in self._scope.pages(Scan(self._scope.space, KIND, tags, limit=PAGE)):
                found += [one.value.load()["filename"] for one in page]
        return sorted(found)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        key, _ = self._keys(app_name, user_id, filename, session_id)
        await Taking(self._scope).artifact(key)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        key, stream = self._keys(app_name, user_id, filename, session_id)
        document, end = await self._scope.read(Get(key), Range(stream, 0, 0))
        return [] if document is None else list(range(end.length - document.value.load()["base"]))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        key, stream = self._keys(app_name, user_id, filename, session_id)
        document = await self._scope.get(Get(key))
        if document is None:
            return []
        base = document.value.load()["base"]
        part = await self._scope.get(Range(stream, base))
        return [version_of(record, base) for record in part.records]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        found = await self._version(app_name, user_id, filename, session_id, version)
        return None if found is None else found[0]

    async def _version(
        self, app: str, user: str, filename: str, session: str | None, version: int | None
    ) -> tuple[ArtifactVersion, dict[str, Any]] | None:
        """Return a version, or the newest one."""
        key, stream = self._keys(app, user, filename, session)
        document, end = await self._scope.read(Get(key), Range(stream, 0, 0))
        if document is None or (version is not None and version < 0):
            return None
        base = document.value.load()["base"]
        index = end.length - 1 if version is None else base + version
        part = await self._scope.get(Range(stream, index, index + 1))
        if not part.records:
            return None
        return version_of(part.records[0], base), part.records[0].body.load()

    def _keys(self, app: str, user: str, filename: str, session: str | None) -> tuple[Key, Key]:
        self._check(app, user, session)
        if not is_users(filename) and session is None:
            raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
        name = digest(app, user, "" if is_users(filename) else f"/{session}", filename)
        return self._scope.key(KIND, name), self._scope.key(VERSION, name)

    def _check(self, app: str, user: str, session: str | None) -> None:
        artifact_util.validate_path_segment(app, "app_name")
        artifact_util.validate_path_segment(user, "user_id")
        if session is not None:
            artifact_util.validate_path_segment(session, "session_id")

    def _tags(self, app: str, user: str, session: str | None) -> dict[str, str]:
        return layouts.artifacts_of(digest(app, user) if session is None else digest(app, user, session))

    def _mime_type(self, part: types.Part, app: str, user: str, session: str | None) -> str | None:
        """Return what a part is; refuse one that is nothing, or points to where its owner may not look."""
        if part.inline_data is not None:
            return str(part.inline_data.mime_type)
        if part.text is not None:
            return "text/plain"
        if part.file_data is None:
            raise InputValidationError("Not supported artifact type.")
        if not artifact_util.is_artifact_ref(part):
            return None if part.file_data.mime_type is None else str(part.file_data.mime_type)
        uri = str(part.file_data.file_uri)
        parsed = artifact_util.parse_artifact_uri(uri)
        if not parsed:
            raise InputValidationError(f"Invalid artifact reference URI: {uri}")
        artifact_util.validate_artifact_reference_scope(
            app_name=app, user_id=user, session_id=session, parsed_uri=parsed
        )
        return None


def is_users(filename: str) -> bool:
    """Tell whether an artifact is its user's, whatever the session."""
    return filename.startswith(USER)


def is_tombstone(part: types.Part) -> bool:
    """Tell whether a rewind has left nothing, which ADK says by bytes without a byte."""
    empty = types.Blob(mime_type="application/octet-stream", data=b"")
    return bool(part == types.Part(inline_data=empty))


def version_of(record: Record, base: int) -> ArtifactVersion:
    assert record.body is not None
    body = record.body.load()
    number = record.index - base
    made = ArtifactVersion(
        version=number, canonical_uri=f"{body['uri']}{number}", create_time=record.at / 1e6, mime_type=body["mime_type"]
    )
    if body["metadata"]:
        made.custom_metadata = body["metadata"]
    return made
