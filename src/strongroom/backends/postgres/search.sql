-- Where words stand is found in one of two ways: by looking at one text after the other, newest first, until enough
-- of them hold the word; or by the index of words, which has all that hold it, in no order. The first is right for a word
-- that many texts hold, the second for a rare one, and each is many times too slow for the other. The planner would choose by
-- statistics, which nobody has collected yet when much was just written, and without them it always looked at every
-- text. So each way is a statement with one possible plan, and the choice is ours: it looks at the newest thousand. What
-- `find` sets is in force in what it calls.

-- The newest texts, as many as `back`, among them those that hold all of some tokens, at most `most`.
CREATE FUNCTION :schema.walk(
    p_space text, p_kind text, low bigint, high bigint, held bigint[], back bigint, most bigint
) RETURNS TABLE (ref bigint, index bigint) LANGUAGE plpgsql STABLE SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT t.ref, t.index FROM (
            SELECT w.ref, w.index, w.tokens FROM :schema.word w
            WHERE w.space = p_space AND w.kind = p_kind AND w.ref BETWEEN low AND high
            ORDER BY w.ref DESC, w.index DESC LIMIT back) AS t
        WHERE t.tokens @> held ORDER BY t.ref DESC, t.index DESC LIMIT most;
END $$;

-- The newest texts that hold all of some tokens, at most `most`, newest first. `size` says among how many,
-- about if it is no less than `most`; NULL says that few hold them, which the index finds.
--
-- Walking back costs most / share texts, if the newest thousand are like the others; the index costs all that hold the
-- tokens, each ten times as much since it lies elsewhere, and a look at what is not merged yet. Should the newest not be
-- like the others, the walk ends after twice of what was expected, and the index tells the rest.
CREATE FUNCTION :schema.holding(
    p_space text, p_kind text, low bigint, high bigint, size double precision, held bigint[], most bigint
) RETURNS TABLE (ref bigint, index bigint) LANGUAGE plpgsql STABLE SET enable_bitmapscan = on AS $$
#variable_conflict use_column
DECLARE
    few CONSTANT bigint := 1000;
    share        double precision := 0;
    taken        bigint := 0;
BEGIN
    IF size < least(few, most) THEN
        RETURN QUERY SELECT * FROM :schema.walk(p_space, p_kind, low, high, held, few, most);
        RETURN;
    END IF;
    IF size >= most THEN
        SELECT count(*)::double precision / few INTO share
            FROM :schema.walk(p_space, p_kind, low, high, held, few, few);
    END IF;
    IF share > 0 AND most / share <= few + 10 * share * size THEN
        RETURN QUERY SELECT * FROM :schema.walk(p_space, p_kind, low, high, held, (2 * most / share)::bigint, most);
        GET DIAGNOSTICS taken = ROW_COUNT;
    END IF;
    IF taken < most THEN
        -- A token is of one space and kind. Compared like this they are looked at, and no index offers itself for them.
        RETURN QUERY SELECT w.ref, w.index FROM :schema.word w
            WHERE w.tokens @> held AND w.space IS NOT DISTINCT FROM p_space AND w.kind IS NOT DISTINCT FROM p_kind
            ORDER BY w.ref DESC, w.index DESC OFFSET taken LIMIT most - taken;
    END IF;
END $$;

-- Where the words stand. Row 0 says how many places there are; then, for each word, its places, newest first.
CREATE FUNCTION :schema.find(p_space text, p_kind text, p_id text, wanted bigint[], narrowing bigint[], most bigint)
RETURNS TABLE (word integer, ref bigint, index bigint) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET max_parallel_workers_per_gather = 0 SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    low    bigint := 0;
    high   bigint := 9223372036854775807;
    length bigint;
    total  bigint;
    size   double precision;
BEGIN
    PERFORM set_config('strongroom.space', p_space, true);
    IF p_id IS NOT NULL THEN
        SELECT d.ref, d.ref, d.version - d.first INTO low, high, length FROM :schema.head d
            WHERE d.space = p_space AND d.kind = p_kind AND d.id = p_id AND d.alive;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT count(*) INTO total FROM (
        SELECT FROM :schema.word w WHERE w.space = p_space AND w.kind = p_kind AND w.ref BETWEEN low AND high
        ORDER BY w.ref DESC, w.index DESC LIMIT most) AS t;
    size := total;
    IF total >= most THEN
        -- As far as can be told for nothing: a stream's records, or what room there is for texts of all spaces.
        size := greatest(size, CASE WHEN p_id IS NULL THEN pg_relation_size(':schema.word') / 256 ELSE length END);
    END IF;
    IF cardinality(narrowing) > (p_id IS NOT NULL)::integer THEN
        SELECT count(*) INTO total FROM :schema.holding(p_space, p_kind, low, high, size, narrowing, most);
        IF total < most AND size >= most THEN
            size := NULL;
        END IF;
    END IF;
    RETURN QUERY SELECT 0, total, NULL::bigint;
    FOR i IN 1 .. cardinality(wanted) LOOP
        RETURN QUERY SELECT i, p.ref, p.index
            FROM :schema.holding(p_space, p_kind, low, high, size, wanted[i] || narrowing, most) AS p;
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
