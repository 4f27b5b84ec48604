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

-- Return what a head says, or nil if it is damaged. `count` is a document's version or a stream's length.
local function open_head(field, head)
  local rest = string.sub(head, 9)
  if seal(field, rest) ~= head then return nil end
  local shape, alive, count, order, own = string.match(rest, '^([sd])|([01])|(%d+)|(%d+)|(.*)$')
  if not shape then return nil end
  local thing = {exists = true, stream = shape == 's', alive = alive == '1', count = tonumber(count),
    order = tonumber(order)}
  if thing.stream then
    local first, size, links = string.match(own, '^(%d+)|(%d+)|(.*)$')
    if not first then return nil end
    thing.first = tonumber(first)
    thing.base, thing.chain = string.sub(links, 1, tonumber(size)), string.sub(links, tonumber(size) + 1)
  else
    thing.crc, thing.tags = string.match(own, '^(%x*)|(.*)$')
    if not thing.crc then return nil end
  end
  return thing
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
