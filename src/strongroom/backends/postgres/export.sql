-- Everything, of all spaces, in order of creation: a head (index NULL, its length or version in `at`), then its records.
--
-- It ends after `most` records and documents, or at the first value, or body, that brings the bytes of all over `room`,
-- unless it is the very first. Sizes are asked first; what does not fit is not read. A last row with an index and a space
-- says where to go on, if there may be more.
CREATE FUNCTION :schema.unload(p_space text, p_ref bigint, p_index bigint, most bigint, room bigint)
RETURNS TABLE (
    ref bigint, index bigint, weight bigint, at bigint, type text, sender text, receiver text, text text, body bytea,
    commitment bytea, chain bytea, space text, kind text, id text, stream boolean, alive boolean
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    h     :schema.head;
    start bigint;
    stop  bigint;
    taken bigint;
    place bigint;
    size  bigint;
    begun boolean := false;
    full_ boolean := false;
BEGIN
    PERFORM set_config('strongroom.operator', 'on', true);
    FOR h IN SELECT * FROM :schema.head d WHERE (d.space, d.ref) >= (p_space, p_ref) ORDER BY d.space, d.ref LOOP
        start := h.first;
        IF h.space = p_space AND h.ref = p_ref THEN
            start := greatest(p_index, h.first);
        END IF;
        stop := start;
        taken := 0;
        IF h.stream THEN
            FOR place, size IN SELECT r.index, coalesce(octet_length(r.body), 0) + coalesce(octet_length(r.text), 0)
                FROM :schema.record r WHERE r.space = h.space AND r.ref = h.ref AND r.index >= start
                ORDER BY r.index LIMIT most
            LOOP
                full_ := begun AND size > room;
                EXIT WHEN full_;
                begun := true;
                room := room - size;
                taken := taken + 1;
                stop := place + 1;
            END LOOP;
        ELSE
            size := coalesce(octet_length(h.value), 0) + coalesce(octet_length(h.text), 0);
            full_ := begun AND size > room;
            begun := true;
            room := room - size;
        END IF;
        IF taken > 0 OR NOT full_ THEN
            RETURN QUERY SELECT h.ref, NULL::bigint, CASE WHEN h.stream THEN h.first ELSE h.version END, h.version, NULL,
                                NULL, NULL, h.text, h.value, h.tags, h.base, h.space, h.kind, h.id, h.stream, h.alive;
        END IF;
        IF taken > 0 THEN
            RETURN QUERY SELECT r.ref, r.index, r.weight, r.at, r.type, r.sender, r.receiver, r.text, r.body,
                                r.commitment, r.chain, NULL, NULL, NULL, NULL::boolean, NULL::boolean
                FROM :schema.record r WHERE r.space = h.space AND r.ref = h.ref AND r.index >= start AND r.index < stop
                ORDER BY r.index;
        END IF;
        most := most - greatest(taken, 1);
        IF full_ OR most <= 0 THEN
            ref := CASE WHEN full_ OR taken > 0 THEN h.ref ELSE h.ref + 1 END;
            index := CASE WHEN full_ OR taken > 0 THEN stop ELSE 0 END;
            space := h.space;
            RETURN NEXT;
            RETURN;
        END IF;
    END LOOP;
END $$;

-- Put things in place as they are. What is there already stays, so this can be repeated.
CREATE FUNCTION :schema.load(
    spaces text[], kinds text[], ids text[], streams bigint[], alives bigint[], versions bigint[], firsts bigint[],
    values_ bytea[], tags_ bytea[], labels_ bytea[], texts_ text[], tokens_ text[], bases bytea[], chains bytea[],
    parcels bigint[], indexes bigint[], types text[], bodies bytea[], weights bigint[], ats bigint[],
    senders text[], receivers text[], texts text[], commitments bytea[], links bytea[], tokens text[]
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    refs bigint[];
    r    bigint;
BEGIN
    PERFORM set_config('strongroom.operator', 'on', true),
            CASE WHEN current_setting('synchronous_commit') <> 'remote_apply'
                 THEN set_config('synchronous_commit', 'on', true) END;
    FOR i IN 1 .. cardinality(spaces) LOOP
        INSERT INTO :schema.head AS h
            (space, kind, id, ref, stream, alive, version, first, value, tags, labels, text, base, chain)
            VALUES (spaces[i], kinds[i], ids[i], nextval(':schema.creation'), streams[i] = 1, alives[i] = 1, versions[i],
                    firsts[i], values_[i], tags_[i], labels_[i], texts_[i], bases[i], chains[i])
            ON CONFLICT (space, kind, id) DO UPDATE SET
                alive = excluded.alive, value = excluded.value, tags = excluded.tags, labels = excluded.labels,
                text = excluded.text, first = excluded.first, base = excluded.base,
                version = greatest(h.version, excluded.version),
                chain = CASE WHEN excluded.version >= h.version THEN excluded.chain ELSE h.chain END
            RETURNING ref INTO r;
        refs[i] := r;
        IF labels_[i] IS NOT NULL THEN
            INSERT INTO :schema.tag (space, kind, label, ref)
                SELECT spaces[i], kinds[i], label, r FROM unnest(:schema.split(labels_[i])) AS label
                ON CONFLICT DO NOTHING;
        END IF;
        IF tokens_[i] IS NOT NULL THEN
            INSERT INTO :schema.word (space, kind, ref, index, tokens)
                VALUES (spaces[i], kinds[i], r, -1, tokens_[i]::bigint[]) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
    INSERT INTO :schema.record
        (space, ref, index, weight, at, type, sender, receiver, text, body, commitment, chain)
        SELECT spaces[parcels[j]], refs[parcels[j]], indexes[j], weights[j], ats[j], types[j], senders[j], receivers[j],
               texts[j], bodies[j], commitments[j], links[j]
        FROM generate_series(1, cardinality(parcels)) AS j ON CONFLICT DO NOTHING;
    INSERT INTO :schema.word (space, kind, ref, index, tokens)
        SELECT spaces[parcels[j]], kinds[parcels[j]], refs[parcels[j]], indexes[j], tokens[j]::bigint[]
        FROM generate_series(1, cardinality(parcels)) AS j WHERE tokens[j] IS NOT NULL ON CONFLICT DO NOTHING;
END $$;
