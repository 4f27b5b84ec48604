-- One commit. Look at everything, decide, and only then write:
--   A. records and index entries that nobody can see yet, because no head counts them;
--   B. one HSET of all heads, document values, the order counter and the receipt: this is the commit;
--   C. what the new heads no longer count is removed.
-- The server does not roll a failed script back. A failure before B leaves nothing visible, and B itself is one command.
-- After it nothing may fail, or the caller would hear that nothing changed: what C needs (the server's access rules may
-- forbid a command) is tried before B without effect, and C ignores errors. Readers do not need it: they ask the head.
--
-- KEYS: heads, index, expiry, then the records of each thing. ARGV is read in order; encoding.py writes it.
local HEADS, INDEX, EXPIRY = KEYS[1], KEYS[2], KEYS[3]
local RECEIPT, ORDER = SEP .. 'receipt' .. SEP, SEP .. 'order'
local KEPT_SECONDS, SWEEP_EVERY, SWEEP, BATCH, MAX_ERASE = 25 * 3600, 16, 64, 1000, 100000

local id, last, call, attempt, touch = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local at = 6 + tonumber(ARGV[6])
local function take() at = at + 1 return ARGV[at] end
local function number() at = at + 1 return tonumber(ARGV[at]) end

local receipt = RECEIPT .. id
local found = redis.call('HMGET', HEADS, ORDER, receipt, RECEIPT .. last, unpack(ARGV, 7, at))

-- Remember when a receipt was written, and now and then forget some that are old enough. Queue entries carry their own
-- time. Runs after the commit is made, so it must not fail: whatever can not be done is left alone.
local function expire_receipts(now)
  local queued = redis.pcall('RPUSH', EXPIRY, now .. ' ' .. receipt)
  if type(queued) ~= 'number' or queued % SWEEP_EVERY ~= 0 then return end
  for _ = 1, SWEEP do
    local oldest = redis.pcall('LINDEX', EXPIRY, 0)
    local since, field = string.match(type(oldest) == 'string' and oldest or '', '^(%d+) (.*)$')
    if not since or tonumber(since) > now - KEPT_SECONDS then return end
    if type(redis.pcall('LPOP', EXPIRY)) ~= 'string' then return end
    local found = redis.pcall('HGET', HEADS, field)
    local written = string.match(type(found) == 'string' and found or '', '^(%d+)|')
    if written and tonumber(written) <= now - KEPT_SECONDS then redis.pcall('HDEL', HEADS, field) end
  end
end

-- Refuse. If this is not the first time this call is sent, an earlier copy may still be on its way: void it, so that
-- "nothing changed" stays true.
local function refuse(...)
  if attempt > 1 then
    local now = redis.call('TIME')[1]
    redis.call('HSET', HEADS, receipt, now .. '|void|' .. call .. '|' .. attempt)
    expire_receipts(tonumber(now))
  end
  return {...}
end

if last ~= '' and not found[3] then return {'regressed'} end
if found[2] then
  local voided, until_attempt = string.match(found[2], '^%d+|void|(%x+)|(%d+)$')
  if not voided then
    -- A repeat writes the receipt again if it must wait for the disk: the server only waits for this caller's writes.
    if touch then redis.call('HSET', HEADS, receipt, found[2]) end
    return found[2]
  end
  if voided == call and attempt <= tonumber(until_attempt) then return {'void'} end
end

local things = {}
for i = 1, at - 6 do
  local field, thing = ARGV[6 + i], nil
  if found[3 + i] then
    thing = open_head(field, found[3 + i])
    if not thing then return {'damaged', field} end
  else
    thing = {exists = false, alive = false, count = 0, first = 0, base = '', chain = '', tags = '', field = field,
      key = '', old_first = 0, old_count = 0, old_tags = '', was_alive = false, changed = false, new = false, order = 0,
      created = false, stream = nil, crc = nil, value = nil}
  end
  thing.key = KEYS[3 + i]
  things[i] = thing
end

for e = 1, number() do
  local thing, wanted = things[number()], number()
  local actual = thing.alive and thing.count or 0
  if not (wanted == actual or (wanted == -1 and actual > 0)) then return refuse('conflict', e, actual) end
end

-- A record: 8 hex digits of SHA-1, index, weight, size of the kept part, size of the chain, chain, the part that is
-- kept for good, the part that Erase removes. The client's parts begin with their own CRC.
local RECORD = 30

local function record(index, weight, chain, kept, erasable)
  local head = struct.pack('>ddI4B', index, weight, #kept, #chain) .. chain
  local sum = redis.sha1hex(head .. string.sub(kept, 1, 4) .. string.sub(erasable, 1, 4))
  return string.sub(sum, 1, 8) .. head .. kept .. erasable
end

local order = tonumber(found[1] or '0')
if not order then return {'damaged', 'order'} end

local function create(thing)
  if thing.exists then return end
  order = order + 1
  thing.exists, thing.created, thing.order = true, true, order
end

local function put(thing, w)
  local crc, value, tags = take(), take(), take()
  if thing.stream then return refuse('shape', w, 1) end
  create(thing)
  thing.stream, thing.alive = false, true
  thing.count = thing.count + 1
  thing.crc, thing.value, thing.tags = crc, value, tags
end

local function append(thing, w)
  local most, n = number(), number()
  if thing.stream == false then return refuse('shape', w, 0) end
  if most >= 0 and thing.count + n > most then return refuse('budget', w, thing.count) end
  create(thing)
  thing.stream, thing.alive, thing.new = true, true, thing.new or {}
  for _ = 1, n do
    local weight, commitment, kept, erasable = number(), take(), take(), take()
    if commitment ~= '' then
      thing.chain = sha256((thing.chain == '' and string.rep('\0', 32) or thing.chain) .. commitment)
    end
    thing.new[thing.count] = record(thing.count, weight, thing.chain, kept, erasable)
    thing.count = thing.count + 1
  end
end

-- What few commits do is made only when one does it: a script starts from its first line each time.
local rare

local function make_rare()
  local change = {}

  local function blanked(raw)
    if not raw or #raw < RECORD - 1 then return nil end
    local index, weight, size, links = struct.unpack('>ddI4B', raw, 9)
    local chain = string.sub(raw, RECORD, RECORD + links - 1)
    local kept = string.sub(raw, RECORD + links, RECORD + links + size - 1)
    if record(index, weight, chain, kept, string.sub(raw, RECORD + links + size)) ~= raw then return nil end
    return record(index, weight, chain, kept, '')
  end

  function change.T(thing, w)
    local before = number()
    if thing.stream == false then return refuse('shape', w, 0) end
    thing.stream = true
    local first = math.min(math.max(before, thing.first), thing.count)
    if first == thing.first then return end
    local raw = (thing.new or {})[first - 1] or redis.call('HGET', thing.key, first - 1)
    if not blanked(raw) then return {'damaged', thing.field, first - 1} end
    thing.first, thing.base = first, string.sub(raw, RECORD, RECORD + string.byte(raw, RECORD - 1) - 1)
  end

  function change.E(thing, w)
    local start, stop = number(), number()
    if thing.stream == false then return refuse('shape', w, 0) end
    thing.stream = true
    local new = thing.new or {}
    thing.blank = thing.blank or {}
    start, stop = math.max(start, thing.first), math.min(stop, thing.count)
    if stop - start > MAX_ERASE then return refuse('erase', w, MAX_ERASE) end
    for index = start, stop - 1 do
      if new[index] then
        new[index] = blanked(new[index])
      else
        local raw = redis.call('HGET', thing.key, index)
        thing.blank[index] = blanked(raw)
        if not thing.blank[index] then return {'damaged', thing.field, index} end
        thing.same = {index, raw}
      end
    end
  end

  function change.D(thing)
    if not thing.exists then return end
    if thing.stream then
      thing.first, thing.alive, thing.base = thing.count, false, thing.chain
    elseif thing.alive then
      thing.count, thing.alive = thing.count + 1, false
      thing.crc, thing.value, thing.tags = '', '', ''
    end
  end

  -- X and Y put a document or a stretch of a stream in place as another store had it; see moving.py. What is there
  -- already stays as it is.
  function change.X(thing, w)
    local version, alive, crc, value, tags = number(), take() == '1', take(), take(), take()
    if thing.stream then return refuse('shape', w, 1) end
    create(thing)
    thing.stream, thing.alive, thing.count = false, alive, version
    thing.crc, thing.value, thing.tags = crc, value, tags
  end

  function change.Y(thing, w)
    local first, base, alive, n = number(), take(), take() == '1', number()
    if thing.stream == false then return refuse('shape', w, 0) end
    create(thing)
    thing.stream, thing.alive, thing.new = true, alive, thing.new or {}
    if thing.first == thing.count then
      thing.first, thing.count, thing.base, thing.chain = first, first, base, base
      thing.old_first, thing.old_count = first, first
    end
    for _ = 1, n do
      local index, weight, chain, kept, erasable = number(), number(), take(), take(), take()
      if index == thing.count then
        thing.new[index] = record(index, weight, chain, kept, erasable)
        thing.count, thing.chain = index + 1, chain
      end
    end
  end

  return change
end

local versions = {}
for w = 1, number() do
  local kind, thing = take(), things[number()]
  local refusal
  if kind == 'A' then
    refusal = append(thing, w)
  elseif kind == 'P' then
    refusal = put(thing, w)
  else
    rare = rare or make_rare()
    refusal = rare[kind](thing, w)
  end
  if refusal then return refusal end
  thing.changed = thing.exists
  versions[w] = string.format('%.0f', thing.count)
end

-- Everything is decided. From here on the only question is the order of the writes.

local function in_batches(command, key, arguments, call)
  for from = 1, #arguments, BATCH do
    (call or redis.call)(command, key, unpack(arguments, from, math.min(from + BATCH - 1, #arguments)))
  end
end

local function entry(thing, pair)
  local kind, name = string.match(thing.field, '^([^' .. SEP .. ']*)' .. SEP .. '(.*)$')
  return kind .. SEP .. pair .. SEP .. string.format('%016.0f', thing.order) .. SEP .. name
end

local heads, added, removed = {}, {}, {}
for _, thing in ipairs(things) do
  local alive = thing.alive and 1 or 0
  if thing.created then
    added[#added + 1] = 0
    added[#added + 1] = SEP .. string.format('%016.0f', thing.order) .. SEP .. thing.field
  end
  if thing.changed and thing.stream then
    local fresh = {}
    for index = math.max(thing.old_count, thing.first), thing.count - 1 do
      fresh[#fresh + 1] = index
      fresh[#fresh + 1] = thing.new[index]
    end
    in_batches('HSET', thing.key, fresh)
    if thing.first > thing.old_first then redis.call('HDEL', thing.key, '') end
    if thing.same then redis.call('HSET', thing.key, unpack(thing.same)) end
    heads[#heads + 1] = thing.field
    heads[#heads + 1] = seal(thing.field, string.format('s|%d|%.0f|%.0f|%.0f|%d|',
      alive, thing.count, thing.order, thing.first, #thing.base) .. thing.base .. thing.chain)
  elseif thing.changed then
    local before, after = split_tags(thing.old_tags), split_tags(thing.tags)
    before[''], after[''] = thing.was_alive or nil, thing.alive or nil
    for pair in pairs(after) do
      if not before[pair] then
        added[#added + 1] = 0
        added[#added + 1] = entry(thing, pair)
      end
    end
    for pair in pairs(before) do
      if not after[pair] then removed[#removed + 1] = entry(thing, pair) end
    end
    heads[#heads + 1] = thing.field
    heads[#heads + 1] = seal(thing.field,
      string.format('d|%d|%.0f|%.0f|%s|', alive, thing.count, thing.order, thing.crc) .. thing.tags)
    if thing.value then
      heads[#heads + 1] = thing.field .. SEP
      heads[#heads + 1] = thing.value
    end
  end
end
in_batches('ZADD', INDEX, added)

local now = redis.call('TIME')[1]
local answer = now .. '|' .. table.concat(versions, ',')
redis.call('HSET', HEADS, ORDER, string.format('%.0f', order), receipt, answer, unpack(heads))

in_batches('ZREM', INDEX, removed, redis.pcall)
for _, thing in ipairs(things) do
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
expire_receipts(tonumber(now))
return answer
