-- What both scripts know: how the head of a document or stream is written. See layout.py for all keys and fields.
--
-- A head is 8 hex digits of SHA-1 over field and rest, then the rest:
--   s|alive|length|order|first|size of base|base and chain (0 or 32 bytes each)
--   d|alive|version|order|crc32 of the value in hex|tags
-- `base` is the hash chain just before the oldest record, `chain` after the newest.
local SEP = '\31'

local function seal(field, rest)
  return string.sub(redis.sha1hex(field .. rest), 1, 8) .. rest
end

-- Return what a head says, or nil if it is damaged. `count` is a document's version or a stream's length. All fields that
-- a commit will set have their place from the start: a table that grows is moved.
local function open_head(field, head)
  local rest = string.sub(head, 9)
  if string.sub(redis.sha1hex(field .. rest), 1, 8) ~= string.sub(head, 1, 8) then return nil end
  local alive, count, order, first, size, links = string.match(rest, '^s|([01])|(%d+)|(%d+)|(%d+)|(%d+)|(.*)$')
  if alive then
    count, first, size, alive = tonumber(count), tonumber(first), tonumber(size), alive == '1'
    return {exists = true, stream = true, alive = alive, count = count, order = tonumber(order), first = first,
      base = string.sub(links, 1, size), chain = string.sub(links, size + 1), tags = '', field = field, key = '',
      old_first = first, old_count = count, old_tags = '', was_alive = alive, changed = false, new = false}
  end
  local crc, tags
  alive, count, order, crc, tags = string.match(rest, '^d|([01])|(%d+)|(%d+)|(%x*)|(.*)$')
  if not alive then return nil end
  count, alive = tonumber(count), alive == '1'
  return {exists = true, stream = false, alive = alive, count = count, order = tonumber(order), first = 0,
    base = '', chain = '', tags = tags, field = field, key = '', crc = crc, value = nil,
    old_first = 0, old_count = count, old_tags = tags, was_alive = alive, changed = false}
end

-- Tags are stored as name and value, each as `bytes:text`. Return the set of such pairs.
local function split_tags(tags)
  local pairs_found, at = {}, 1
  while at <= #tags do
    local from = at
    for _ = 1, 2 do
      local size, start = string.match(tags, '^(%d+):()', at)
      at = start + tonumber(size)
    end
    pairs_found[string.sub(tags, from, at - 1)] = true
  end
  return pairs_found
end
