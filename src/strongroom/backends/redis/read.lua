-- Answer any number of questions from one snapshot. Heads, values and records go back as they are stored; decoding.py
-- checks and opens them, and knows what a damaged or missing one means.
--
-- KEYS are named by number in ARGV, which is read in order; encoding.py writes it. -1 means "no limit".
local BATCH, LIMB = 1000, 2 ^ 52

local at = 0
local function take() at = at + 1 return ARGV[at] end
local function number() return tonumber(take()) end
local function key() return KEYS[number()] end

-- What a read may hold, in bytes as they are stored. The very first thing always comes; `full` once one did not.
local room, begun, full = number(), false, false
if room < 0 then room = math.huge end

local function fits(hash, name)
  if room == math.huge then return true end
  local size = redis.call('HSTRLEN', hash, name)
  full = full or (begun and size > room)
  if not full then begun, room = begun or size > 0, room - size end
  return not full
end

local ask = {}

function ask.G()
  local heads, field = key(), take()
  if not fits(heads, field .. SEP) then return false end
  return redis.call('HMGET', heads, field, field .. SEP)
end

-- A receipt. Whoever must wait for the server's disk writes it again, since it only waits for a caller's own writes.
function ask.C()
  local heads, field, touch = key(), take(), take() == '1'
  local receipt = redis.call('HGET', heads, field)
  if receipt and touch then redis.call('HSET', heads, field, receipt) end
  return receipt
end

-- Take a stream question's head and bounds; return nothing to walk if there is no living stream.
local function stream()
  local heads, records, field = key(), key(), take()
  local head = redis.call('HGET', heads, field)
  local thing = head and open_head(field, head)
  if not thing or not thing.stream or not thing.alive then thing = {first = 0, count = 0} end
  return head, records, thing
end

-- A stream that claims more records than there are is damaged: do not walk it, the caller sees the gap.
local function add_records(answer, records, start, stop, newest)
  if stop - start > redis.call('HLEN', records) then return answer end
  if room < math.huge then
    local from, to, step = start, stop - 1, 1
    if newest then from, to, step = stop - 1, start, -1 end
    for index = from, to, step do
      if not fits(records, index) then
        if newest then start = index + 1 else stop = index end
        break
      end
    end
    answer[2], answer[3] = start, stop
  end
  for from = start, stop - 1, BATCH do
    local wanted = {}
    for index = from, math.min(from + BATCH, stop) - 1 do wanted[#wanted + 1] = index end
    for _, raw in ipairs(redis.call('HMGET', records, unpack(wanted))) do answer[#answer + 1] = raw end
  end
  return answer
end

function ask.R()
  local head, records, thing = stream()
  local start, stop, limit = math.max(number(), thing.first), number(), number()
  stop = stop < 0 and thing.count or math.min(stop, thing.count)
  if limit >= 0 then stop = math.min(stop, start + limit) end
  stop = math.max(start, stop)
  return add_records({head, start, stop}, records, start, stop)
end

-- A weight limit comes in two limbs, because a Lua number is exact below 2^53 only.
function ask.T()
  local head, records, thing = stream()
  local count, before, high, low = number(), number(), number(), number()
  local stop = before < 0 and thing.count or math.max(thing.first, math.min(before, thing.count))
  local start = count < 0 and thing.first or math.max(thing.first, stop - count)
  if high < 0 then return add_records({head, start, stop}, records, start, stop, true) end
  local walked, index = {}, stop
  while index > start do
    local raw = redis.call('HGET', records, index - 1)
    local links = raw and string.byte(raw, 17) or 0
    low = low - (raw and #raw >= 37 + links and struct.unpack('>d', raw, 30 + links) or 0)
    while low < 0 do
      low, high = low + LIMB, high - 1
    end
    if high < 0 or not fits(records, index - 1) then break end
    index = index - 1
    walked[#walked + 1] = raw
  end
  local answer = {head, index, stop}
  for i = #walked, 1, -1 do answer[#answer + 1] = walked[i] end
  return answer
end

-- Walk the index entries of the rarest tag; the head decides whether an entry counts.
function ask.S()
  local heads, index, kind, reverse, limit = key(), key(), take(), take() == '1', number()
  local wanted, low, high, rarest = {}, nil, nil, nil
  for _ = 1, number() do
    local pair, from, to = take(), take(), take()
    if pair ~= '' then wanted[#wanted + 1] = pair end
    local size = redis.call('ZLEXCOUNT', index, from, to)
    if not rarest or size < rarest then rarest, low, high = size, from, to end
  end
  local answer = {0}
  if rarest == 0 or limit == 0 then return answer end
  while true do
    local members
    if reverse then
      members = redis.call('ZREVRANGEBYLEX', index, high, low, 'LIMIT', 0, BATCH)
    else
      members = redis.call('ZRANGEBYLEX', index, low, high, 'LIMIT', 0, BATCH)
    end
    for _, member in ipairs(members) do
      local order, name = string.match(member, SEP .. '(%d+)' .. SEP .. '([^' .. SEP .. ']*)$')
      local field = kind .. SEP .. (name or '')
      local head = redis.call('HGET', heads, field)
      local thing = head and open_head(field, head)
      local counts = head and not thing
      if thing and thing.alive and not thing.stream and thing.order == tonumber(order) then
        local tags = split_tags(thing.tags)
        counts = true
        for _, pair in ipairs(wanted) do counts = counts and tags[pair] end
      end
      if counts then
        if #answer == 1 + 4 * limit then
          answer[1] = 1
          return answer
        end
        if not fits(heads, field .. SEP) then
          answer[1] = 1
          return answer
        end
        answer[#answer + 1] = order
        answer[#answer + 1] = name
        answer[#answer + 1] = head
        answer[#answer + 1] = redis.call('HGET', heads, field .. SEP)
      end
    end
    if #members < BATCH then return answer end
    if reverse then high = '(' .. members[#members] else low = '(' .. members[#members] end
  end
end

-- List everything there is in a space, tombstones included, in order of creation, as far as there is room.
function ask.L()
  local heads, index, low, limit = key(), key(), take(), number()
  local answer = {}
  for _, member in ipairs(redis.call('ZRANGEBYLEX', index, low, '(' .. SEP .. '\255', 'LIMIT', 0, limit)) do
    local order, field = string.match(member, '^' .. SEP .. '(%d+)' .. SEP .. '(.*)$')
    if not fits(heads, (field or '') .. SEP) then break end
    local head, value = unpack(redis.call('HMGET', heads, field or '', (field or '') .. SEP))
    local thing = head and open_head(field, head)
    -- A failed script may have left an entry behind: it has no head, or the head knows another order.
    if not thing or thing.order ~= tonumber(order) then head = head and not thing and head end
    for _, part in ipairs({order, field, head, value}) do answer[#answer + 1] = part end
  end
  return answer
end

-- A read that ended early has the answer it ended in behind all others, and a word that says so.
local answers = {}
for q = 1, number() do
  answers[q] = ask[take()]()
  if full then
    answers[q + 1] = 'full'
    break
  end
end
return answers
