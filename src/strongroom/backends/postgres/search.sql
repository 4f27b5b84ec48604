-- Where the words stand. Row 0 says how many places there are; then, for each word, its places, newest first. Each word
-- is planned for by itself: the newest of a frequent one are found by walking back, all of a rare one by the index, and a
-- plan for any word walks back through everything (measured: six times as long for three words in 200,000 texts).
CREATE FUNCTION :schema.find(p_space text, p_kind text, p_id text, wanted bigint[], narrowing bigint[], most bigint)
RETURNS TABLE (word integer, ref bigint, index bigint) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    h record;
BEGIN
    PERFORM set_config('strongroom.space', p_space, true);
    IF p_id IS NOT NULL THEN
        SELECT d.ref INTO h FROM :schema.head d WHERE d.space = p_space AND d.kind = p_kind AND d.id = p_id AND d.alive;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        RETURN QUERY SELECT 0, count(*), NULL::bigint FROM (
            SELECT FROM :schema.word w WHERE w.space = p_space AND w.kind = p_kind AND w.ref = h.ref
                AND (cardinality(narrowing) = 1 OR w.tokens @> narrowing) LIMIT most) AS t;
    ELSIF cardinality(narrowing) > 0 THEN
        RETURN QUERY SELECT 0, count(*), NULL::bigint FROM (
            SELECT FROM :schema.word w WHERE w.space = p_space AND w.kind = p_kind AND w.tokens @> narrowing LIMIT most
        ) AS t;
    ELSE
        RETURN QUERY SELECT 0, count(*), NULL::bigint FROM (
            SELECT FROM :schema.word w WHERE w.space = p_space AND w.kind = p_kind LIMIT most) AS t;
    END IF;
    FOR i IN 1 .. cardinality(wanted) LOOP
        RETURN QUERY SELECT i, w.ref, w.index FROM :schema.word w
            WHERE w.tokens @> (wanted[i] || narrowing) AND w.space = p_space AND w.kind = p_kind
            ORDER BY w.ref DESC, w.index DESC LIMIT most;
    END LOOP;
END $$;

-- What stands at some places: a record, or (index -1) a document with its version in `weight` and its tags in
-- `commitment`. Places that hold nothing any more are left out, and those behind the first whose contents do not fit
-- into `most` bytes together with all before it (-1: everything fits).
CREATE FUNCTION :schema.places(p_space text, p_kind text, refs bigint[], indexes bigint[], most bigint)
RETURNS TABLE (
    place bigint, id text, index bigint, weight bigint, at bigint, type text, sender text, receiver text, text text,
    body bytea, commitment bytea, chain bytea
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('strongroom.space', p_space, true);
    RETURN QUERY SELECT f.place, f.id, f.index, f.weight, f.at, f.type, f.sender, f.receiver, f.text, f.body, f.commitment, f.chain
        FROM (
            SELECT t.*, row_number() OVER way AS nth,
                   sum(coalesce(octet_length(t.body), 0) + coalesce(octet_length(t.text), 0)) OVER way AS total
            FROM (
                SELECT p.place, d.id, p.index, coalesce(r.weight, d.version) AS weight, r.at, r.type, r.sender, r.receiver,
                       coalesce(r.text, d.text) AS text, coalesce(r.body, d.value) AS body,
                       coalesce(r.commitment, d.tags) AS commitment, r.chain
                FROM unnest(refs, indexes) WITH ORDINALITY AS p (ref, index, place)
                CROSS JOIN LATERAL (
                    SELECT * FROM :schema.head h
                    WHERE h.space = p_space AND h.ref BETWEEN p.ref AND p.ref AND h.kind = p_kind AND h.alive
                    ORDER BY h.ref LIMIT 1) AS d
                LEFT JOIN LATERAL (
                    SELECT * FROM :schema.record o
                    WHERE o.space = p_space AND o.ref = p.ref AND o.index = p.index AND o.text IS NOT NULL
                    LIMIT 1) AS r ON true
                WHERE r.index IS NOT NULL OR (p.index = -1 AND d.text IS NOT NULL)
            ) AS t
            WINDOW way AS (ORDER BY t.place)
        ) AS f
        WHERE most < 0 OR f.nth = 1 OR f.total <= most
        ORDER BY f.place;
END $$;
