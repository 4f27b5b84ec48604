-- The word :schema stands for the quoted name of the schema that holds everything.
--
-- The space comes first in every key, so that the same tables can be partitioned by it or distributed over machines.
-- Values are canonical JSON bytes (jsonb would reorder them). Text cannot hold NUL in Postgres; see wire.py.
--
-- Plans are made while the tables are nearly empty and kept while they grow, so every statement needs one way that never
-- looks dearer than another, without statistics (tests/postgres/test_plans.py). Of two indexes that seem to cost the same
-- the planner takes the one that was made last. A key is given in full far more often than a space alone, so the primary
-- keys of tables with several indexes are made last; what is looked for by `ref` asks for its order too (read.sql).

CREATE TABLE :schema.format (version integer NOT NULL);

CREATE SEQUENCE :schema.creation;              -- orders documents; gaps mean nothing

CREATE TABLE :schema.head (                    -- one row a key: what it is, and the lock its writers take
    space   text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    ref     bigint NOT NULL,                   -- order of creation; names a stream's records
    stream  boolean NOT NULL,
    alive   boolean NOT NULL,                  -- false: a tombstone, which keeps the count
    version bigint NOT NULL,                   -- a document's version, a stream's length
    first   bigint NOT NULL,                   -- stream: the oldest index still stored
    value   bytea,                             -- document: its value
    tags    bytea,                             -- document: its tags, a JSON object of strings
    labels  bytea,                             -- document: the digests of its tags, 16 bytes each
    text    text,                              -- document: what can be searched
    base    bytea,                             -- stream: its hash chain just before the oldest record
    chain   bytea                              -- stream: the end of its hash chain
) WITH (fillfactor = 75);                      -- room to update a row on its own page, without touching an index
CREATE UNIQUE INDEX head_by_ref ON :schema.head (space, ref);
CREATE INDEX head_by_creation ON :schema.head (space, kind, ref) WHERE alive AND NOT stream;
ALTER TABLE :schema.head ADD PRIMARY KEY (space, kind, id);

CREATE TABLE :schema.tag (
    space text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    label bytea NOT NULL,                      -- 16 bytes of sha256(name, value): short, whatever the tag
    ref   bigint NOT NULL,
    PRIMARY KEY (space, kind, label, ref)
);

CREATE TABLE :schema.record (
    space      text COLLATE "C" NOT NULL,
    ref        bigint NOT NULL,
    index      bigint NOT NULL,
    weight     bigint NOT NULL,
    at         bigint NOT NULL,
    type       text NOT NULL,
    sender     text,
    receiver   text,
    text       text,
    body       bytea,                          -- NULL once erased
    commitment bytea,
    chain      bytea,
    PRIMARY KEY (space, ref, index)
);

-- Which words stand where, each as a number that depends on its space and kind: a query can only be made of one space's
-- numbers. Not behind row-level security, because GIN's operators are not leakproof, and the planner would then never
-- use the index. What is found is read from the tables above, which are.
CREATE TABLE :schema.word (
    space  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    ref    bigint NOT NULL,
    index  bigint NOT NULL,                    -- -1: the document itself
    tokens bigint[] NOT NULL,
    PRIMARY KEY (space, kind, ref, index)
);
-- A short list of what is not merged yet, so that no single commit has to wait for a long merge.
CREATE INDEX word_by_token ON :schema.word USING gin (tokens) WITH (gin_pending_list_limit = 512);

CREATE TABLE :schema.receipt (                 -- what makes a repeated commit safe
    space    text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    until    timestamptz NOT NULL,             -- when it may be swept
    versions bigint[] NOT NULL,
    digest   bytea NOT NULL,                   -- what was asked for
    answer   bytea                             -- what was answered, where the versions do not tell
);
CREATE INDEX receipt_by_end ON :schema.receipt (space, until);
ALTER TABLE :schema.receipt ADD PRIMARY KEY (space, id);

CREATE UNLOGGED TABLE :schema.watcher (        -- who wants a NOTIFY; losing it costs a little patience, no data
    space text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    id    text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (space, kind, id)
);

-- The second wall. The first is that every statement names its space; should one ever forget, it sees nothing else.
-- FORCE, because the owner of a table is otherwise exempt. Moving everything elsewhere sets strongroom.operator.
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['head', 'tag', 'record', 'receipt', 'watcher'] LOOP
        EXECUTE format('ALTER TABLE :schema.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE :schema.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_space ON :schema.%I USING (
            space = current_setting(''strongroom.space'', true) OR current_setting(''strongroom.operator'', true) = ''on'')', t);
    END LOOP;
END $$;
