-- Everything, of all spaces, in order of creation: a head (index NULL, its length or version in `at`), then its records.
CREATE FUNCTION :schema.unload(p_space text, p_ref bigint, p_index bigint, most bigint)
RETURNS TABLE (
    ref bigint, index bigint, weight bigint, at bigint, type text, sender text, receiver text, text text, body bytea,
    commitment bytea, chain bytea, space text, kind text, id text, stream boolean, alive boolean
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    h     :schema.head;
    start bigint;
    taken bigint;
BEGIN
    PERFORM set_config('strongroom.operator', 'on', true);
    FOR h IN SELECT * FROM :schema.head d WHERE (d.space, d.ref) >= (p_space, p_ref) ORDER BY d.space, d.ref LOOP
        start := h.first;
        IF h.space = p_space AND h.ref = p_ref THEN
            start := greatest(p_index, h.first);
        END IF;
        RETURN QUERY SELECT h.ref, NULL::bigint, CASE WHEN h.stream THEN h.first ELSE h.version END, h.version, NULL,
                            NULL, NULL, h.text, h.value, h.tags, h.base, h.space, h.kind, h.id, h.stream, h.alive;
        taken := 0;
        IF h.stream THEN
            RETURN QUERY SELECT r.ref, r.index, r.weight, r.at, r.type, r.sender, r.receiver, r.text, r.body,
                                r.commitment, r.chain, NULL, NULL, NULL, NULL::boolean, NULL::boolean
                FROM :schema.record r WHERE r.space = h.space AND r.ref = h.ref AND r.index >= start
                ORDER BY r.index LIMIT most;
            GET DIAGNOSTICS taken = ROW_COUNT;
        END IF;
        most := most - greatest(taken, 1);
        EXIT WHEN most <= 0;
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
