-- What both scripts know: how the head of a document or stream is written. See layout.py for all keys and fields.
--
-- A head is 8 hex digits of SHA-1 over field and rest, then the rest: is it a stream, does it live, count, order, first,
-- then two texts, the size of the first one before it: base and chain of a stream (0 or 32 bytes each), crc32 and tags of
-- a document. `count` is a stream's length or a document's version, `first` a stream's oldest index. `base` is the hash
-- chain just before the oldest record, `chain` after the newest. A number is packed as a double, exact up to 2^53.
local SEP = '\31'
local HEAD, TEXTS = '>BBdddB', 36

local function seal(field, stream, alive, count, order, first, one, two)
  local rest = struct.pack(HEAD, stream and 1 or 0, alive and 1 or 0, count, order, first, #one) .. one .. two
  return string.sub(redis.sha1hex(field .. rest), 1, 8) .. rest
end

-- Return what a head says, or nil if it is damaged. All fields that a commit will set have their place from the start: a
-- table that grows is moved.
local function open_head(field, head)
  if #head < TEXTS - 1 or string.sub(redis.sha1hex(field .. string.sub(head, 9)), 1, 8) ~= string.sub(head, 1, 8) then
    return nil
  end
  local stream, alive, count, order, first, size = struct.unpack(HEAD, head, 9)
  local one, two = string.sub(head, TEXTS, TEXTS + size - 1), string.sub(head, TEXTS + size)
  alive = alive == 1
  if stream == 1 then
    return {stream = true, alive = alive, count = count, order = order, first = first, base = one, chain = two,
      field = field, key = '', old_first = first, old_count = count, changed = false, fresh = false}
  end
  return {stream = false, alive = alive, count = count, order = order, crc = one, tags = two, value = false,
    field = field, key = '', was_alive = alive, old_tags = two, changed = false}
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
