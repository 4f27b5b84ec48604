-- One commit in one call: lock, check everything, write last. A refusal is an answer, not an error: it has changed
-- nothing, and it must not fill the server's log.
--
-- Keys come sorted and are locked in that order, so two commits never wait for each other in a circle. A key that does
-- not exist is locked by inserting its row; the row is deleted again if the commit does not create the key after all,
-- so nobody else ever sees it. That is also what makes "must not exist" safe against another commit's creation.
--
-- The same commit may come several times, when a connection was lost: `p_copy` counts how often `p_call` has sent it. All
-- copies take the same locks, so one that runs is waited for, and its receipt found. One that has not begun yet may come
-- after a later one was refused, and must not apply what its caller believes refused: so the later one leaves a receipt
-- of {-1, call, copy}, which voids that copy and those before it. Another call may still use the id.
--
-- outcome: 0 done, 6 done before (then with the first one's digest and answer), 1 expectation `place` found `actual`, 2 write `place` meets the other shape
-- (actual 1: stream), 3 append `place` would pass its limit at length `actual`, 4 void, 5 another document has claim
-- `place`. Places count from 1.
--
-- Its statements are planned once, for any arguments: each has one index that answers it (schema.sql), so planning again
-- by the arguments would find nothing better.
--
-- Whoever claims something in a kind of a space locks that kind's claims first, before any key: no two commits look for
-- the same claim at once, and the locks are still taken in one order.
CREATE FUNCTION :schema.commit(
    p_space text, p_id text, patience bigint,                                   -- milliseconds to wait for a lock
    p_digest bytea, p_answer bytea, keep_seconds double precision,
    kinds text[], ids text[],
    shapes bigint[], births bigint[],           -- shape: 0 none, 1 document, 2 stream; birth: rank by first write
    expect_keys bigint[], expect_versions bigint[],
    claim_kinds text[], claim_labels bytea[],
    ops bigint[], keys bigint[], froms bigint[], tos bigint[],                  -- one of each a write
    values_ bytea[], tags_ bytea[], labels_ bytea[], texts_ text[], tokens_ text[],
    types text[], bodies bytea[], weights bigint[], ats bigint[],               -- one of each a new record
    senders text[], receivers text[], texts text[], commitments bytea[], tokens text[],
    p_call bigint, p_copy bigint,
    OUT outcome integer, OUT place integer, OUT actual bigint, OUT versions bigint[],
    OUT digest bytea, OUT answer bytea
) LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    h         :schema.head;
    fresh     bigint[];     -- references for new keys, so that creation follows the order of writes, not of locks
    refs      bigint[];
    is_new    boolean[];
    streams   boolean[];
    alives    boolean[];
    counts    bigint[];     -- versions and lengths
    lengths   bigint[];     -- as they will be, while checking
    firsts    bigint[];
    bases     bytea[];      -- each stream's chain before its oldest record
    chains    bytea[];      -- and at its end
    olds      bytea[];      -- the labels each document has now
    old_texts text[];       -- and its text
    puts      bigint[];     -- which write gave a document its value (0: none, it was deleted)
    links     bytea[];      -- the chain value of each new record
    chain_    bytea;
    known     boolean;
    wants     boolean;
    voided    boolean;
    k         bigint;
    last      bigint;
    done      bigint[] := '{}';
BEGIN
    PERFORM set_config('strongroom.space', p_space, true), set_config('lock_timeout', patience::text, true),
            CASE WHEN current_setting('synchronous_commit') <> 'remote_apply'
                 THEN set_config('synchronous_commit', 'on', true) END;
    outcome := 0;
    place := 0;

    IF cardinality(claim_kinds) > 0 THEN
        PERFORM pg_advisory_xact_lock(number) FROM (
            SELECT DISTINCT hashtextextended(':schema' || chr(10) || p_space || chr(10) || kind, 0) AS number
            FROM unnest(claim_kinds) AS kind ORDER BY number) AS locks;
    END IF;

    FOR i IN 1 .. cardinality(kinds) LOOP
        LOOP
            SELECT * INTO h FROM :schema.head
                WHERE space = p_space AND kind = kinds[i] AND id = ids[i] FOR NO KEY UPDATE;
            is_new[i] := NOT FOUND;
            EXIT WHEN FOUND;
            IF fresh IS NULL THEN
                SELECT array_agg(nextval(':schema.creation')) INTO fresh FROM generate_series(1, cardinality(kinds));
            END IF;
            INSERT INTO :schema.head (space, kind, id, ref, stream, alive, version, first)
                VALUES (p_space, kinds[i], ids[i], fresh[births[i]], shapes[i] = 2, true, 0, 0)
                ON CONFLICT DO NOTHING RETURNING * INTO h;
            EXIT WHEN FOUND;  -- else somebody created it meanwhile: look again
        END LOOP;
        refs[i] := h.ref;
        streams[i] := CASE WHEN NOT is_new[i] THEN h.stream END;
        alives[i] := h.alive AND NOT is_new[i];
        counts[i] := h.version;
        firsts[i] := h.first;
        bases[i] := h.base;
        chains[i] := h.chain;
        olds[i] := h.labels;
        old_texts[i] := h.text;
    END LOOP;

    SELECT r.versions, r.digest, r.answer INTO done, digest, answer FROM :schema.receipt r
        WHERE r.space = p_space AND r.id = p_id;
    voided := FOUND AND coalesce(done[1] = -1, false);
    IF FOUND AND NOT voided THEN
        outcome := 6;
        versions := done;
    ELSIF voided AND done[2] = p_call AND p_copy <= done[3] THEN
        outcome := 4;
    ELSE
        done := '{}';
        FOR i IN 1 .. cardinality(expect_keys) LOOP
            k := expect_keys[i];
            actual := CASE WHEN alives[k] THEN counts[k] ELSE 0 END;
            IF NOT (expect_versions[i] = actual OR (expect_versions[i] = -1 AND actual > 0)) THEN
                outcome := 1;
                place := i;
                EXIT;
            END IF;
        END LOOP;
        IF outcome = 0 AND cardinality(claim_kinds) > 0 THEN
            -- What a document that this commit puts or deletes has claimed so far is the commit's own to decide.
            SELECT claim.place, 1 INTO place, actual
                FROM unnest(claim_kinds, claim_labels) WITH ORDINALITY AS claim (kind, label, place)
                CROSS JOIN LATERAL (
                    SELECT FROM :schema.tag t
                    WHERE t.space = p_space AND t.kind = claim.kind AND t.label = claim.label
                        AND t.ref NOT IN (SELECT refs[write.key] FROM unnest(ops, keys) AS write (op, key)
                                          WHERE write.op IN (1, 5))
                    LIMIT 1) AS other
                ORDER BY claim.place LIMIT 1;
            IF FOUND THEN
                outcome := 5;
            ELSE
                place := 0;
            END IF;
        END IF;
        IF outcome = 0 THEN
            lengths := counts;
            FOR i IN 1 .. cardinality(ops) LOOP
                CONTINUE WHEN ops[i] = 5;
                k := keys[i];
                wants := ops[i] <> 1;
                known := streams[k];
                IF known <> wants THEN
                    outcome := 2;
                    place := i;
                    actual := known::integer;
                    EXIT;
                END IF;
                streams[k] := wants;
                IF ops[i] = 2 THEN
                    IF tos[i] >= 0 AND lengths[k] + froms[i] > tos[i] THEN
                        outcome := 3;
                        place := i;
                        actual := lengths[k];
                        EXIT;
                    END IF;
                    lengths[k] := lengths[k] + froms[i];
                END IF;
            END LOOP;
        END IF;
    END IF;

    IF outcome <> 0 THEN
        IF true = ANY (is_new) THEN
            FOR i IN 1 .. cardinality(kinds) LOOP
                CONTINUE WHEN NOT is_new[i];
                DELETE FROM :schema.head WHERE space = p_space AND kind = kinds[i] AND id = ids[i];
            END LOOP;
        END IF;
        IF outcome IN (1, 2, 3, 5) AND p_copy > 1 THEN
            INSERT INTO :schema.receipt AS r (space, id, until, versions, digest)
                VALUES (p_space, p_id, clock_timestamp() + interval '1 hour', ARRAY[-1, p_call, p_copy], '')
                ON CONFLICT (space, id) DO UPDATE SET until = excluded.until, versions = excluded.versions
                WHERE r.versions[1] = -1;
        END IF;
        RETURN;
    END IF;

    -- Certain from here on: only a failing server can keep this from being committed.
    last := 0;
    FOR i IN 1 .. cardinality(ops) LOOP
        k := keys[i];
        CASE ops[i]
        WHEN 1 THEN  -- put
            counts[k] := counts[k] + 1;
            alives[k] := true;
            puts[k] := i;
        WHEN 2 THEN  -- append froms[i] records
            chain_ := chains[k];
            FOR j IN last + 1 .. last + froms[i] LOOP
                IF commitments[j] IS NOT NULL THEN
                    chain_ := sha256(coalesce(chain_, decode(repeat('00', 32), 'hex')) || commitments[j]);
                END IF;
                links[j] := chain_;
            END LOOP;
            INSERT INTO :schema.record
                (space, ref, index, weight, at, type, sender, receiver, text, body, commitment, chain)
                SELECT p_space, refs[k], counts[k] + j - last - 1, weights[j], ats[j], types[j], senders[j],
                       receivers[j], texts[j], bodies[j], commitments[j], links[j]
                FROM generate_series(last + 1, last + froms[i]) AS j;
            IF cardinality(tokens) > 0 THEN
                INSERT INTO :schema.word (space, kind, ref, index, tokens)
                    SELECT p_space, kinds[k], refs[k], counts[k] + j - last - 1, tokens[j]::bigint[]
                    FROM generate_series(last + 1, last + froms[i]) AS j WHERE tokens[j] IS NOT NULL;
            END IF;
            chains[k] := chain_;
            counts[k] := counts[k] + froms[i];
            last := last + froms[i];
            alives[k] := true;
            puts[k] := 0;
        WHEN 3 THEN  -- truncate
            IF firsts[k] < least(froms[i], counts[k]) THEN
                firsts[k] := least(froms[i], counts[k]);
                SELECT chain INTO chain_ FROM :schema.record
                    WHERE space = p_space AND ref = refs[k] AND index = firsts[k] - 1;
                bases[k] := chain_;
                DELETE FROM :schema.record WHERE space = p_space AND ref = refs[k] AND index < firsts[k];
                DELETE FROM :schema.word
                    WHERE space = p_space AND kind = kinds[k] AND ref = refs[k] AND index < firsts[k];
                puts[k] := 0;
            END IF;
        WHEN 4 THEN  -- erase
            UPDATE :schema.record SET body = NULL, text = NULL, sender = NULL, receiver = NULL
                WHERE space = p_space AND ref = refs[k] AND index >= froms[i] AND index < tos[i];
            DELETE FROM :schema.word WHERE space = p_space AND kind = kinds[k] AND ref = refs[k]
                AND index >= greatest(froms[i], 0) AND index < tos[i];
        WHEN 5 THEN  -- delete
            IF alives[k] THEN
                alives[k] := false;
                puts[k] := 0;
                IF streams[k] THEN
                    DELETE FROM :schema.record WHERE space = p_space AND ref = refs[k];
                    DELETE FROM :schema.word WHERE space = p_space AND kind = kinds[k] AND ref = refs[k];
                    firsts[k] := counts[k];
                    bases[k] := chains[k];
                ELSE
                    counts[k] := counts[k] + 1;
                END IF;
            END IF;
        END CASE;
        done := done || counts[k];
    END LOOP;

    FOR i IN 1 .. cardinality(kinds) LOOP
        IF puts[i] IS NULL THEN
            IF is_new[i] THEN
                DELETE FROM :schema.head WHERE space = p_space AND kind = kinds[i] AND id = ids[i];
            END IF;
        ELSIF streams[i] THEN
            UPDATE :schema.head SET version = counts[i], first = firsts[i], base = bases[i], chain = chains[i],
                                    alive = alives[i]
                WHERE space = p_space AND kind = kinds[i] AND id = ids[i];
            IF EXISTS (SELECT FROM :schema.watcher
                       WHERE space = p_space AND kind = kinds[i] AND id = ids[i] AND until > now()) THEN
                PERFORM pg_notify('strongroom', :schema.channel(p_space, kinds[i], ids[i]));
            END IF;
        ELSE
            -- An array's element 0 is NULL, which is what a deleted document holds.
            UPDATE :schema.head SET version = counts[i], alive = alives[i],
                                    value = values_[puts[i]], tags = tags_[puts[i]], labels = labels_[puts[i]],
                                    text = texts_[puts[i]]
                WHERE space = p_space AND kind = kinds[i] AND id = ids[i];
            IF olds[i] IS DISTINCT FROM labels_[puts[i]] THEN
                -- One by one: older servers would rather look at all tags of the kind than for each of a list.
                FOR j IN 1 .. coalesce(length(olds[i]), 0) BY 16 LOOP
                    DELETE FROM :schema.tag WHERE space = p_space AND kind = kinds[i]
                        AND label = substring(olds[i] FROM j FOR 16) AND ref = refs[i];
                END LOOP;
                IF labels_[puts[i]] IS NOT NULL THEN
                    INSERT INTO :schema.tag (space, kind, label, ref)
                        SELECT p_space, kinds[i], substring(labels_[puts[i]] FROM place FOR 16), refs[i]
                        FROM generate_series(1, length(labels_[puts[i]]), 16) AS place;
                END IF;
            END IF;
            IF (olds[i], old_texts[i]) IS DISTINCT FROM (labels_[puts[i]], texts_[puts[i]]) THEN
                IF NOT is_new[i] THEN
                    DELETE FROM :schema.word WHERE space = p_space AND kind = kinds[i] AND ref = refs[i];
                END IF;
                IF tokens_[puts[i]] IS NOT NULL THEN
                    INSERT INTO :schema.word (space, kind, ref, index, tokens)
                        VALUES (p_space, kinds[i], refs[i], -1, tokens_[puts[i]]::bigint[]);
                END IF;
            END IF;
        END IF;
    END LOOP;

    IF voided THEN
        DELETE FROM :schema.receipt WHERE space = p_space AND id = p_id;
    END IF;
    INSERT INTO :schema.receipt (space, id, until, versions, digest, answer) VALUES (p_space, p_id,
        CASE WHEN keep_seconds < 1e10 THEN clock_timestamp() + make_interval(secs => keep_seconds) ELSE 'infinity' END,
        done, p_digest, p_answer);
    IF random() < 1.0 / 256 THEN
        DELETE FROM :schema.receipt WHERE space = p_space AND id IN (
            SELECT id FROM :schema.receipt WHERE space = p_space AND until < clock_timestamp()
            ORDER BY until LIMIT 1024);
    END IF;
    versions := done;
END $$;

CREATE FUNCTION :schema.split(labels bytea) RETURNS bytea[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(substring(labels FROM place FOR 16)), '{}')
    FROM generate_series(1, length(labels), 16) AS place
$$;

-- What a notification says: a digest, because everybody in the database hears it.
CREATE FUNCTION :schema.channel(p_space text, p_kind text, p_id text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to(':schema' || chr(10) || p_space || chr(10) || p_kind || chr(10) || p_id, 'UTF8')), 'hex')
$$;

CREATE FUNCTION :schema.watch(p_space text, p_kind text, p_id text, seconds double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- A hint needs no fsync.
    PERFORM set_config('strongroom.space', p_space, true), set_config('synchronous_commit', 'off', true);
    DELETE FROM :schema.watcher WHERE space = p_space AND until < now();
    INSERT INTO :schema.watcher AS w (space, kind, id, until)
        VALUES (p_space, p_kind, p_id, now() + make_interval(secs => seconds))
        ON CONFLICT (space, kind, id) DO UPDATE SET until = greatest(w.until, excluded.until);
END $$;
