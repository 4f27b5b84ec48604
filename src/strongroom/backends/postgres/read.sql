-- A row is looked for by `ref` as the first of an ordered range that holds nothing else: only an index by `ref` has that
-- order. Asked for by equality or in a join, a table that seems to hold a handful of rows is walked, as long as the plan lives.

-- The first document from a place on, in the direction of `step`, that carries a tag.
CREATE FUNCTION :schema.carrier(space_ text, kind_ text, label_ bytea, from_ bigint, step bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF step > 0 THEN
        RETURN (SELECT t.ref FROM :schema.tag t WHERE t.space = space_ AND t.kind = kind_ AND t.label = label_
            AND t.ref >= from_ ORDER BY t.ref LIMIT 1);
    END IF;
    RETURN (SELECT t.ref FROM :schema.tag t WHERE t.space = space_ AND t.kind = kind_ AND t.label = label_
        AND t.ref <= from_ ORDER BY t.ref DESC LIMIT 1);
END $$;

-- All questions of one read in one call. STABLE is what makes it one snapshot: every query in here sees the database as
-- the calling statement saw it, where a VOLATILE function would look afresh each time.
--
-- Rows come in the order of the questions. Get, Range and Tail: first the head, with its flags in `at` (1 stream,
-- 2 alive), then the records. Scan: the documents, with their creation in `number` and their version in `weight`.
-- ReceiptOf: the versions in `text`, the answer in `body`, the digest in `commitment`; one that only voids a copy
-- (commit.sql) is none.
--
-- With `most` >= 0 the read ends at the first value, or body, that brings the bytes of all over that, unless it is the very
-- first: a row with the negative number of the question says where. Sizes are asked first; what does not fit is not read.
CREATE FUNCTION :schema.read(
    ops bigint[], spaces text[], kinds text[], ids text[],
    froms bigint[], tos bigint[], counts bigint[], rooms bigint[], labels_ bytea[], most bigint
) RETURNS TABLE (
    question integer, number bigint, weight bigint, at bigint, type text, sender text, receiver text, text text,
    body bytea, commitment bytea, chain bytea
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    h       record;
    wanted  bytea[];
    w       bigint;
    room    bigint;
    taken   bigint;
    start   bigint;
    stop    bigint;
    step    bigint;
    label   bytea;
    refs   bigint[];
    sizes   refcursor;
    bounded boolean := most >= 0;
    begun   boolean := false;
    full_   boolean := false;
BEGIN
    FOR i IN 1 .. cardinality(ops) LOOP
        PERFORM set_config('strongroom.space', spaces[i], true);
        IF ops[i] = 4 THEN  -- scan, forwards if counts[i] is 0; by several tags it leaps from one's carriers to another's
            wanted := :schema.split(labels_[i]);
            step := CASE WHEN counts[i] = 0 THEN 1 ELSE -1 END;
            IF cardinality(wanted) = 0 AND step > 0 THEN
                refs := ARRAY(SELECT d.ref FROM :schema.head d
                    WHERE d.space = spaces[i] AND d.kind = kinds[i] AND d.ref > froms[i] AND d.alive AND NOT d.stream
                    ORDER BY d.ref LIMIT rooms[i]);
            ELSIF cardinality(wanted) = 0 THEN
                refs := ARRAY(SELECT d.ref FROM :schema.head d
                    WHERE d.space = spaces[i] AND d.kind = kinds[i] AND d.ref < froms[i] AND d.alive AND NOT d.stream
                    ORDER BY d.ref DESC LIMIT rooms[i]);
            ELSIF cardinality(wanted) > 1 THEN
                refs := '{}';
                start := froms[i] + step;
                WHILE cardinality(refs) < rooms[i] LOOP
                    start := :schema.carrier(spaces[i], kinds[i], wanted[1], start, step);
                    stop := start;
                    FOREACH label IN ARRAY wanted[2:] LOOP
                        EXIT WHEN stop IS DISTINCT FROM start;
                        stop := :schema.carrier(spaces[i], kinds[i], label, start, step);
                    END LOOP;
                    EXIT WHEN stop IS NULL;
                    IF stop <> start THEN
                        start := stop;
                        CONTINUE;
                    END IF;
                    refs := refs || start;
                    start := start + step;
                END LOOP;
            ELSIF step > 0 THEN
                refs := ARRAY(SELECT t.ref FROM :schema.tag t
                    WHERE t.space = spaces[i] AND t.kind = kinds[i] AND t.label = wanted[1] AND t.ref > froms[i]
                    ORDER BY t.ref LIMIT rooms[i]);
            ELSE
                refs := ARRAY(SELECT t.ref FROM :schema.tag t
                    WHERE t.space = spaces[i] AND t.kind = kinds[i] AND t.label = wanted[1] AND t.ref < froms[i]
                    ORDER BY t.ref DESC LIMIT rooms[i]);
            END IF;
            taken := 0;
            IF bounded THEN
                FOREACH start IN ARRAY refs LOOP
                    -- The one beyond the limit only tells that there is a next page.
                    w := (SELECT coalesce(octet_length(d.value), 0) + coalesce(octet_length(d.text), 0) FROM :schema.head d
                          WHERE d.space = spaces[i] AND d.ref BETWEEN start AND start AND taken < rooms[i] - 1
                          ORDER BY d.ref LIMIT 1);
                    full_ := begun AND w > most;
                    EXIT WHEN full_;
                    begun := true;
                    most := most - coalesce(w, 0);
                    taken := taken + 1;
                END LOOP;
                refs := refs[:taken];
            END IF;
            RETURN QUERY SELECT i, d.ref, d.version, NULL::bigint, NULL, d.id, NULL, d.text, d.value, d.tags, NULL::bytea
                FROM unnest(refs) WITH ORDINALITY AS f (ref, place) CROSS JOIN LATERAL (
                    SELECT * FROM :schema.head h
                    WHERE h.space = spaces[i] AND h.ref BETWEEN f.ref AND f.ref AND h.kind = kinds[i] AND h.alive
                        AND NOT h.stream
                    ORDER BY h.ref LIMIT 1) AS d
                ORDER BY f.place;
            IF full_ THEN
                RETURN QUERY SELECT -i, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL, NULL, NULL, NULL::bytea, NULL::bytea, NULL::bytea;
                RETURN;
            END IF;
            CONTINUE;
        END IF;
        IF ops[i] = 5 THEN  -- receipt
            RETURN QUERY SELECT i, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL, NULL,
                                array_to_string(r.versions, ','), r.answer, r.digest, NULL::bytea
                FROM :schema.receipt r
                WHERE r.space = spaces[i] AND r.id = ids[i] AND r.versions[1] IS DISTINCT FROM -1;
            CONTINUE;
        END IF;

        SELECT d.ref, d.stream, d.alive, d.version, d.first, d.value, d.tags, d.text INTO h FROM :schema.head d
            WHERE d.space = spaces[i] AND d.kind = kinds[i] AND d.id = ids[i];
        CONTINUE WHEN NOT FOUND;
        IF bounded AND h.alive AND NOT h.stream THEN
            w := octet_length(h.value) + coalesce(octet_length(h.text), 0);
            IF begun AND w > most THEN
                RETURN QUERY SELECT -i, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL, NULL, NULL, NULL::bytea, NULL::bytea, NULL::bytea;
                RETURN;
            END IF;
            begun := true;
            most := most - w;
        END IF;
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
        IF bounded THEN
            taken := 0;
            step := CASE WHEN ops[i] = 2 THEN 1 ELSE -1 END;
            IF step > 0 THEN
                OPEN sizes FOR SELECT coalesce(octet_length(r.body), 0) + coalesce(octet_length(r.text), 0)
                    FROM :schema.record r
                    WHERE r.space = spaces[i] AND r.ref = h.ref AND r.index >= start AND r.index < stop ORDER BY r.index;
            ELSE
                OPEN sizes FOR SELECT coalesce(octet_length(r.body), 0) + coalesce(octet_length(r.text), 0)
                    FROM :schema.record r
                    WHERE r.space = spaces[i] AND r.ref = h.ref AND r.index >= start AND r.index < stop ORDER BY r.index DESC;
            END IF;
            LOOP
                FETCH sizes INTO w;
                EXIT WHEN NOT FOUND;
                full_ := begun AND w > most;
                EXIT WHEN full_;
                begun := true;
                most := most - w;
                taken := taken + 1;
            END LOOP;
            CLOSE sizes;
            IF full_ AND step > 0 THEN
                stop := start + taken;
            ELSIF full_ THEN
                start := stop - taken;
            END IF;
        END IF;
        RETURN QUERY SELECT i, r.index, r.weight, r.at, r.type, r.sender, r.receiver, r.text, r.body, r.commitment, r.chain
            FROM :schema.record r
            WHERE r.space = spaces[i] AND r.ref = h.ref AND r.index >= start AND r.index < stop
            ORDER BY r.index;
        IF full_ THEN
            RETURN QUERY SELECT -i, NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL, NULL, NULL, NULL::bytea, NULL::bytea, NULL::bytea;
            RETURN;
        END IF;
    END LOOP;
END $$;
