-- All questions of one read in one call. STABLE is what makes it one snapshot: every query in here sees the database as
-- the calling statement saw it, where a VOLATILE function would look afresh each time.
--
-- Rows come in the order of the questions. Get, Range and Tail: first the head, with its flags in `at` (1 stream,
-- 2 alive), then the records. Scan: the documents, with their creation in `number` and their version in `weight`.
CREATE FUNCTION :schema.read(
    ops bigint[], spaces text[], kinds text[], ids text[],
    froms bigint[], tos bigint[], counts bigint[], rooms bigint[], labels_ bytea[]
) RETURNS TABLE (
    question integer, number bigint, weight bigint, at bigint, type text, sender text, receiver text, text text,
    body bytea, commitment bytea, chain bytea
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    h       record;
    wanted  bytea[];
    w       bigint;
    room    bigint;
    taken   bigint;
    start   bigint;
    stop    bigint;
BEGIN
    FOR i IN 1 .. cardinality(ops) LOOP
        PERFORM set_config('holdfast.space', spaces[i], true);
        IF ops[i] = 4 THEN  -- scan, forwards if counts[i] is 0
            wanted := :schema.split(labels_[i]);
            IF cardinality(wanted) > 1 THEN  -- begin with the rarest; which it is matters only while both are not many
                SELECT array_agg(l ORDER BY (SELECT count(*) FROM (
                    SELECT FROM :schema.tag o WHERE o.space = spaces[i] AND o.kind = kinds[i] AND o.label = l LIMIT 256
                    ) AS few)) INTO wanted FROM unnest(wanted) AS l;
            END IF;
            IF cardinality(wanted) = 0 AND counts[i] = 0 THEN
                RETURN QUERY SELECT i, d.ref, d.version, NULL::bigint, NULL, d.id, NULL, d.text, d.value, d.tags, NULL::bytea
                    FROM :schema.head d
                    WHERE d.space = spaces[i] AND d.kind = kinds[i] AND d.ref > froms[i] AND d.alive AND NOT d.stream
                    ORDER BY d.ref LIMIT rooms[i];
            ELSIF cardinality(wanted) = 0 THEN
                RETURN QUERY SELECT i, d.ref, d.version, NULL::bigint, NULL, d.id, NULL, d.text, d.value, d.tags, NULL::bytea
                    FROM :schema.head d
                    WHERE d.space = spaces[i] AND d.kind = kinds[i] AND d.ref < froms[i] AND d.alive AND NOT d.stream
                    ORDER BY d.ref DESC LIMIT rooms[i];
            ELSIF counts[i] = 0 THEN
                RETURN QUERY SELECT i, d.ref, d.version, NULL::bigint, NULL, d.id, NULL, d.text, d.value, d.tags, NULL::bytea
                    FROM :schema.tag t JOIN :schema.head d
                        ON d.space = t.space AND d.kind = t.kind AND d.ref = t.ref AND d.alive AND NOT d.stream
                    WHERE t.space = spaces[i] AND t.kind = kinds[i] AND t.label = wanted[1] AND t.ref > froms[i]
                        AND (cardinality(wanted) = 1 OR NOT EXISTS (
                            SELECT FROM unnest(wanted[2:]) AS l WHERE NOT EXISTS (
                                SELECT FROM :schema.tag o WHERE o.space = spaces[i] AND o.kind = kinds[i]
                                    AND o.label = l AND o.ref = t.ref)))
                    ORDER BY t.ref LIMIT rooms[i];
            ELSE
                RETURN QUERY SELECT i, d.ref, d.version, NULL::bigint, NULL, d.id, NULL, d.text, d.value, d.tags, NULL::bytea
                    FROM :schema.tag t JOIN :schema.head d
                        ON d.space = t.space AND d.kind = t.kind AND d.ref = t.ref AND d.alive AND NOT d.stream
                    WHERE t.space = spaces[i] AND t.kind = kinds[i] AND t.label = wanted[1] AND t.ref < froms[i]
                        AND (cardinality(wanted) = 1 OR NOT EXISTS (
                            SELECT FROM unnest(wanted[2:]) AS l WHERE NOT EXISTS (
                                SELECT FROM :schema.tag o WHERE o.space = spaces[i] AND o.kind = kinds[i]
                                    AND o.label = l AND o.ref = t.ref)))
                    ORDER BY t.ref DESC LIMIT rooms[i];
            END IF;
            CONTINUE;
        END IF;

        SELECT d.ref, d.stream, d.alive, d.version, d.first, d.value, d.tags, d.text INTO h FROM :schema.head d
            WHERE d.space = spaces[i] AND d.kind = kinds[i] AND d.id = ids[i];
        CONTINUE WHEN NOT FOUND;
        question := i;
        number := h.version;
        weight := h.first;
        at := h.stream::integer + 2 * h.alive::integer;
        text := h.text;
        body := h.value;
        commitment := h.tags;
        RETURN NEXT;
        CONTINUE WHEN ops[i] = 1 OR NOT h.stream OR NOT h.alive;

        IF ops[i] = 2 THEN  -- range
            start := greatest(froms[i], h.first);
            stop := least(tos[i], h.version);
            IF counts[i] < stop - start THEN
                stop := start + counts[i];
            END IF;
        ELSE  -- tail: walk back only as far as the weights allow
            stop := greatest(h.first, least(tos[i], h.version));
            start := h.first;
            IF counts[i] < stop - start THEN
                start := stop - counts[i];
            END IF;
            IF rooms[i] >= 0 THEN
                room := rooms[i];
                taken := 0;
                FOR w IN SELECT r.weight FROM :schema.record r
                    WHERE r.space = spaces[i] AND r.ref = h.ref AND r.index >= start AND r.index < stop
                    ORDER BY r.index DESC
                LOOP
                    EXIT WHEN w > room;
                    room := room - w;
                    taken := taken + 1;
                END LOOP;
                start := stop - taken;
            END IF;
        END IF;
        CONTINUE WHEN start >= stop;
        RETURN QUERY SELECT i, r.index, r.weight, r.at, r.type, r.sender, r.receiver, r.text, r.body, r.commitment, r.chain
            FROM :schema.record r
            WHERE r.space = spaces[i] AND r.ref = h.ref AND r.index >= start AND r.index < stop
            ORDER BY r.index;
    END LOOP;
END $$;
