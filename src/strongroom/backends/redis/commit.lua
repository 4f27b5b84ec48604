-- One commit. Look at everything, decide, and only then write:
--   A. records and index entries that nobody can see yet, because no head counts them;
--   B. one HSET of all heads, document values, the order counter and the receipt: this is the commit;
--   C. what the new heads no longer count is removed.
-- The server does not roll a failed script back. A failure before B leaves nothing visible, and B itself is one command.
-- After it nothing may fail, or the caller would hear that nothing changed: what C needs (the server's access rules may
-- forbid a command) is tried before B without effect, and C ignores errors. Readers do not need it: they ask the head.
-- Only of what is damaged the head itself goes in C: nobody knows what a tombstone of it would say. Its entries in the
-- index stay, and lead nowhere.
--
-- KEYS: heads, index, then the records of each thing. ARGV: what tells this sending from others ("call|attempt|touch"),
-- the last receipt the caller was given ('' if none), the commit's id, for how many seconds its receipt must be kept
-- ('inf': for ever; '': nobody chose the id), digest and answer that belong to it, how many expectations, claims and
-- writes there are, then those, read in order. encoding.py writes it.
local HEADS, INDEX, last, id, keep = KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[4]
local RECEIPT, DUE, ORDER, KEPT = SEP .. 'receipt' .. SEP, SEP .. 'due' .. SEP, SEP .. 'order', SEP .. SEP
local OUR_SECONDS, GROUP, SWEEP, BATCH, MAX_ERASE = 25 * 3600, 16, 4, 1000, 100000

local at = 6
local function take() at = at + 1 return ARGV[at] end

local fields, name = {}, #HEADS - #'heads' + #'records' + 2
for i = 3, #KEYS do fields[i - 2] = string.sub(KEYS[i], name) end

local receipt = RECEIPT .. id
local found = redis.call('HMGET', HEADS, ORDER, receipt, RECEIPT .. last, unpack(fields))
local order, receipts, swept = 0, 0, 0
if found[1] then
  order, receipts, swept = struct.unpack('>ddd', found[1])
end
local born = order

local function seal_receipt(number, ends, versions, what)
  local rest = number .. '|' .. ends .. '|' .. versions .. '|' .. what
  return string.sub(redis.sha1hex(receipt .. rest), 1, 8) .. rest
end

-- Return the fields that make the next receipt. Receipts are numbered, and every 16th notes the time: asking for it, and
-- looking for receipts that are old enough to be forgotten, cost too much to be done each time.
local forgotten, now = {}, nil

local function receive(versions, what)
  receipts = receipts + 1
  local due = id
  if receipts % GROUP == 0 then
    now = redis.call('TIME')[1]
    due = now .. ' ' .. id
    while #forgotten < SWEEP and (swept + 1) * GROUP < receipts do
      local marker = redis.call('HGET', HEADS, DUE .. (swept + 1) * GROUP)
      local since = tonumber(string.match(marker or '', '^(%d+) ') or '0')
      if since > now - OUR_SECONDS then break end
      swept = swept + 1
      forgotten[#forgotten + 1] = swept
    end
  end
  return ORDER, struct.pack('>ddd', order, receipts, swept), receipt, seal_receipt(receipts, '', versions, what),
    DUE .. receipts, due
end

-- The same for an id that a caller chose: its receipt says itself when it ends, and the index lists it by that time. An
-- entry there without its receipt means nothing.
local function receive_kept(versions, what, added)
  local ends = keep
  if keep ~= 'inf' then
    now = redis.call('TIME')[1]
    ends = string.format('%012.0f', now + keep)
    added[1], added[2] = 0, KEPT .. ends .. SEP .. id
  end
  return ORDER, struct.pack('>ddd', order, receipts, swept), receipt, seal_receipt(0, ends, versions, what)
end

-- A record: 8 hex digits of SHA-1, index, size of the chain, chain, and the entry as the client packed it. That begins
-- with the CRC of what is kept for good, the CRC of what Erase removes, and where in it the latter begins.
local CHAIN, COMMITMENT = 18, 21

local function record(index, chain, entry)
  local head = struct.pack('>dB', index, #chain) .. chain
  return string.sub(redis.sha1hex(head .. string.sub(entry, 1, 8)), 1, 8) .. head .. entry
end

local function create(thing)
  if thing.order > 0 then return end
  order = order + 1
  thing.order = order
end

-- Where `fresh`, the list of a stream's new indexes and records, has the record of an index.
local function place(thing, index)
  return 2 * (index - thing.old_count) + 2
end

-- What few commits need is made only when one does: a script starts from its first line each time.
local rare

local function make_rare()
  local change = {}

  -- Remove the receipts of groups that are old enough. Runs after the commit is made, so it must not fail: whatever can
  -- not be done is left alone. A receipt with another number was written again since.
  local function forget()
    for _, group in ipairs(forgotten) do
      local due, gone = {}, {}
      for n = (group - 1) * GROUP + 1, group * GROUP do due[#due + 1] = DUE .. n end
      local ids = redis.pcall('HMGET', HEADS, unpack(due))
      for i = 1, GROUP do
        local name = ids[i] and RECEIPT .. (i < GROUP and ids[i] or string.gsub(ids[i], '^%d+ ', '', 1))
        local kept = name and redis.pcall('HGET', HEADS, name)
        local written = type(kept) == 'string' and string.match(kept, '^%x%x%x%x%x%x%x%x(%d+)|')
        gone[i] = written and tonumber(written) == (group - 1) * GROUP + i and name or due[i]
      end
      redis.pcall('HDEL', HEADS, unpack(gone))
      redis.pcall('HDEL', HEADS, unpack(due))
    end
  end

  -- The same for those that say themselves when they end, given their entries in the index.
  function change.forget_kept(members)
    for _, member in ipairs(members) do
      local ends, name = string.match(member, '^' .. KEPT .. '(%d+)' .. SEP .. '(.*)$')
      local kept = name and redis.pcall('HGET', HEADS, RECEIPT .. name)
      if type(kept) == 'string' and string.match(kept, '^%x%x%x%x%x%x%x%x0|(%d+)|') == ends then
        redis.pcall('HDEL', HEADS, RECEIPT .. name)
      end
      redis.pcall('ZREM', INDEX, member)
    end
  end

  local function sending()
    local call, attempt, touch = string.match(ARGV[1], '^(%x+)|(%d+)|([01])$')
    return call, tonumber(attempt), touch == '1'
  end

  -- Refuse. If this is not the first time this call is sent, an earlier copy may still be on its way: void it, so that
  -- "nothing changed" stays true.
  local function refuse(...)
    local call, attempt = sending()
    if attempt > 1 then
      order = born
      redis.call('HSET', HEADS, receive('void,' .. call .. ',' .. attempt, ''))
      forget()
    end
    return {...}
  end
  change.forget, change.sending, change.refuse = forget, sending, refuse

  -- What the index has for a pair of a document's tags.
  function change.entry(thing, pair)
    local kind, name = string.match(thing.field, '^([^' .. SEP .. ']*)' .. SEP .. '(.*)$')
    return kind .. SEP .. pair .. SEP .. string.format('%016.0f', thing.order) .. SEP .. name
  end

  local function opened(raw)
    if not raw or #raw < CHAIN + COMMITMENT - 1 then return nil end
    local index, links = struct.unpack('>dB', raw, 9)
    local chain, entry = string.sub(raw, CHAIN, CHAIN + links - 1), string.sub(raw, CHAIN + links)
    if record(index, chain, entry) ~= raw then return nil end
    return index, chain, entry
  end

  local function blanked(raw)
    local index, chain, entry = opened(raw)
    if not index then return nil end
    local size = struct.unpack('>I4', entry, 9)
    return record(index, chain, string.sub(entry, 1, 4) .. '\0\0\0\0' .. string.sub(entry, 9, size))
  end

  function change.T(thing, w, write)
    local before = struct.unpack('>d', write, 6)
    if thing.stream == false then return refuse('shape', w, 0) end
    thing.stream = true
    local first = math.min(math.max(before, thing.first), thing.count)
    if first == thing.first then return end
    local raw = (thing.fresh or {})[place(thing, first - 1)] or redis.call('HGET', thing.key, first - 1)
    local index, chain = opened(raw)
    if not index then return {'damaged', thing.field, first - 1} end
    thing.first, thing.base = first, chain
  end

  local erased = 0  -- by all of this commit

  function change.E(thing, w, write)
    local start, stop = struct.unpack('>dd', write, 6)
    if thing.stream == false then return refuse('shape', w, 0) end
    thing.stream = true
    local fresh = thing.fresh or {}
    thing.blank = thing.blank or {}
    start, stop = math.max(start, thing.first), math.min(stop, thing.count)
    erased = erased + math.max(stop - start, 0)
    if erased > MAX_ERASE then return refuse('erase', w, MAX_ERASE) end
    for index = start, stop - 1 do
      local new = fresh[place(thing, index)]
      if new then
        fresh[place(thing, index)] = blanked(new)
      else
        local raw = redis.call('HGET', thing.key, index)
        thing.blank[index] = blanked(raw)
        if not thing.blank[index] then return {'damaged', thing.field, index} end
        thing.same = {index, raw}
      end
    end
  end

  function change.D(thing)
    if thing.order == 0 then return end
    if thing.stream then
      thing.first, thing.alive, thing.base = thing.count, false, thing.chain
    elseif thing.alive then
      thing.count, thing.alive = thing.count + 1, false
      thing.crc, thing.value, thing.tags = '', '', ''
    end
  end

  -- X and Y put a document or a stretch of a stream in place as another store had it; see export.py. What is there
  -- already stays as it is.
  function change.X(thing, w, write)
    local version, alive = struct.unpack('>dB', write, 6)
    local value, tags = take(), take()
    if thing.stream then return refuse('shape', w, 1) end
    create(thing)
    thing.stream, thing.alive, thing.count = false, alive == 1, version
    thing.crc, thing.value, thing.tags = string.sub(write, 15), value, tags
  end

  function change.Y(thing, w, write)
    local first, alive, n = struct.unpack('>dBI4', write, 6)
    local base = string.sub(write, 19)
    if thing.stream == false then return refuse('shape', w, 0) end
    create(thing)
    thing.stream, thing.alive, thing.fresh = true, alive == 1, thing.fresh or {}
    if thing.first == thing.count then
      thing.first, thing.count, thing.base, thing.chain = first, first, base, base
      thing.old_first, thing.old_count = first, first
    end
    for _ = 1, n do
      local place, entry = take(), take()
      local index, chain = struct.unpack('>d', place), string.sub(place, 9)
      if index == thing.count then
        thing.fresh[#thing.fresh + 1] = index
        thing.fresh[#thing.fresh + 1] = record(index, chain, entry)
        thing.count, thing.chain = index + 1, chain
      end
    end
  end

  return change
end

if last ~= '' and not found[3] then return {'regressed'} end
if found[2] then
  rare = make_rare()
  local call, attempt, touch = rare.sending()
  local voided, until_attempt = string.match(found[2], '^%x%x%x%x%x%x%x%x%d+||void,(%x+),(%d+)|$')
  if not voided then
    -- A repeat writes the receipt again if it must wait for the disk: the server only waits for this caller's writes.
    if touch then redis.call('HSET', HEADS, receipt, found[2]) end
    return {'repeated', found[2]}
  end
  if voided == call and attempt <= tonumber(until_attempt) then return {'void'} end
end

local things, unsound = {}, {}
for i, field in ipairs(fields) do
  local head, thing = found[3 + i], nil
  if head then thing = open_head(field, head) end
  if not thing then
    if head then unsound[field] = true end
    thing = {stream = nil, alive = false, count = 0, order = 0, first = 0, base = '', chain = '', field = field,
      key = '', old_first = 0, old_count = 0, changed = false, fresh = false, crc = '', tags = '', value = false,
      was_alive = false, old_tags = ''}
  end
  thing.key = KEYS[2 + i]
  things[i] = thing
end

local expects, claims, writes = struct.unpack('>I4I4I4', ARGV[6])
for e = 1, expects do
  local place, wanted = struct.unpack('>I4d', take())
  local thing = things[place]
  if unsound[thing.field] then return {'damaged', thing.field} end
  local actual = thing.alive and thing.count or 0
  if not (wanted == actual or (wanted == -1 and actual > 0)) then return make_rare().refuse('conflict', e, actual) end
end

-- A claim is where the index has it: kind and tag. What a document that this commit puts or deletes has claimed so far is
-- the commit's own to decide; those are told by their places. The index may be behind, so the head decides.
if claims > 0 then
  local settled = {}
  for from = 1, #ARGV[at + 1], 4 do settled[things[struct.unpack('>I4', ARGV[at + 1], from)].field] = true end
  take()
  for c = 1, claims do
    local kind, pair = take(), take()
    local low = kind .. SEP .. pair .. SEP
    for _, member in ipairs(redis.call('ZRANGEBYLEX', INDEX, '[' .. low, '(' .. low .. '\255')) do
      local field = kind .. SEP .. string.match(member, SEP .. '%d+' .. SEP .. '([^' .. SEP .. ']*)$')
      local head = not settled[field] and redis.call('HGET', HEADS, field)
      local thing = head and open_head(field, head)
      if head and not thing then return {'damaged', field} end
      if thing and not thing.stream and thing.alive and split_tags(thing.tags)[pair] then
        return make_rare().refuse('claimed', c)
      end
    end
  end
end

local function put(thing, w, write)
  local value, tags = take(), take()
  if thing.stream then return make_rare().refuse('shape', w, 1) end
  create(thing)
  thing.stream, thing.alive = false, true
  thing.count = thing.count + 1
  thing.crc, thing.value, thing.tags = string.sub(write, 6), value, tags
end

local function append(thing, w, write)
  local most, n = struct.unpack('>dI4', write, 6)
  if thing.stream == false then return make_rare().refuse('shape', w, 0) end
  if most >= 0 and thing.count + n > most then return make_rare().refuse('budget', w, thing.count) end
  create(thing)
  local fresh, count, chain = thing.fresh or {}, thing.count, thing.chain
  for _ = 1, n do
    local entry = take()
    if string.byte(entry, COMMITMENT) > 0 then
      local commitment = string.sub(entry, COMMITMENT + 1, COMMITMENT + 32)
      chain = sha256((chain == '' and string.rep('\0', 32) or chain) .. commitment)
    end
    fresh[#fresh + 1] = count
    fresh[#fresh + 1] = record(count, chain, entry)
    count = count + 1
  end
  thing.stream, thing.alive, thing.fresh, thing.count, thing.chain = true, true, fresh, count, chain
end

local versions, lost = {}, {}
for w = 1, writes do
  local write = take()
  local kind, thing = string.sub(write, 1, 1), things[struct.unpack('>I4', write, 2)]
  local refusal
  if unsound[thing.field] then
    local start, stop = 0, 1
    if kind == 'E' then start, stop = struct.unpack('>dd', write, 6) end
    if kind == 'D' then
      lost[#lost + 1] = thing
    elseif start < stop then
      return {'damaged', thing.field}
    end
  end
  if kind == 'A' then
    refusal = append(thing, w, write)
  elseif kind == 'P' then
    refusal = put(thing, w, write)
  else
    rare = rare or make_rare()
    refusal = rare[kind](thing, w, write)
  end
  if refusal then return refusal end
  thing.changed = thing.order > 0
  versions[w] = string.format('%.0f', thing.count)
end

-- Everything is decided. From here on the only question is the order of the writes.

local function in_batches(command, key, arguments, call, start)
  for from = start or 1, #arguments, BATCH do
    (call or redis.call)(command, key, unpack(arguments, from, math.min(from + BATCH - 1, #arguments)))
  end
end

versions = table.concat(versions, ',')
local added, removed, cleaning = {}, {}, false
local heads = keep == '' and {receive(versions, ARGV[5])} or {receive_kept(versions, ARGV[5], added)}
local function put_head(thing, one, two)
  heads[#heads + 1] = thing.field
  heads[#heads + 1] = seal(thing.field, thing.stream, thing.alive, thing.count, thing.order, thing.first or 0, one, two)
end

for _, thing in ipairs(things) do
  if thing.order > born then
    added[#added + 1] = 0
    added[#added + 1] = SEP .. string.format('%016.0f', thing.order) .. SEP .. thing.field
  end
  if thing.changed and thing.stream then
    if thing.fresh then
      in_batches('HSET', thing.key, thing.fresh, redis.call, math.max(place(thing, thing.first) - 1, 1))
    end
    if thing.first > thing.old_first then redis.call('HDEL', thing.key, '') end
    if thing.same then redis.call('HSET', thing.key, unpack(thing.same)) end
    cleaning = cleaning or thing.first > thing.old_first or thing.same
    put_head(thing, thing.base, thing.chain)
  elseif thing.changed then
    local before, after = split_tags(thing.old_tags), split_tags(thing.tags)
    before[''], after[''] = thing.was_alive or nil, thing.alive or nil
    for pair in pairs(after) do
      if not before[pair] then
        rare = rare or make_rare()
        added[#added + 1] = 0
        added[#added + 1] = rare.entry(thing, pair)
      end
    end
    for pair in pairs(before) do
      if not after[pair] then
        rare = rare or make_rare()
        removed[#removed + 1] = rare.entry(thing, pair)
      end
    end
    put_head(thing, thing.crc, thing.tags)
    if thing.value then
      heads[#heads + 1] = thing.field .. SEP
      heads[#heads + 1] = thing.value
    end
  end
end
in_batches('ZADD', INDEX, added)

if lost[1] then redis.call('HDEL', HEADS, '') end
redis.call('HSET', HEADS, unpack(heads))

for _, thing in ipairs(lost) do
  redis.pcall('HDEL', HEADS, thing.field, thing.field .. SEP)
  in_batches('HDEL', thing.key, redis.pcall('HKEYS', thing.key), redis.pcall)
end

in_batches('ZREM', INDEX, removed, redis.pcall)
for _, thing in ipairs(cleaning and things or {}) do
  if thing.changed and thing.stream and (thing.first > thing.old_first or thing.same) then
    local all = thing.first == thing.count
    -- Where UNLINK is forbidden the records go one by one.
    if not all or type(redis.pcall('UNLINK', thing.key)) ~= 'number' then
      local gone, blank = {}, {}
      for index = thing.old_first, math.min(thing.first, thing.old_count) - 1 do gone[#gone + 1] = index end
      for index, raw in pairs(thing.blank or {}) do
        if index >= thing.first then
          blank[#blank + 1] = index
          blank[#blank + 1] = raw
        end
      end
      in_batches('HDEL', thing.key, gone, redis.pcall)
      in_batches('HSET', thing.key, blank, redis.pcall)
    end
  end
end
if forgotten[1] then (rare or make_rare()).forget() end
if now then
  local high = '(' .. KEPT .. string.format('%012.0f', now)
  local ended = redis.pcall('ZRANGEBYLEX', INDEX, '[' .. KEPT, high, 'LIMIT', 0, GROUP)
  if ended[1] then (rare or make_rare()).forget_kept(ended) end
end
return versions
