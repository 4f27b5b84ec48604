-- SHA-256 of exactly 64 bytes, which is all that a hash chain needs: the server offers SHA-1 only. A script runs from
-- its first line each time, so nothing is set up here until an entry with a commitment needs it.
local chain_hash

local function make_chain_hash()
  local band, bxor, ror, shr, tobit = bit.band, bit.bxor, bit.ror, bit.rshift, bit.tobit
  local K = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2}
  local start = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}

  -- Return the 64 words of a block, each with its round constant added.
  local function schedule(w)
    for i = 17, 64 do
      local x, y = w[i - 15], w[i - 2]
      w[i] = tobit(w[i - 16] + bxor(ror(x, 7), ror(x, 18), shr(x, 3))
        + w[i - 7] + bxor(ror(y, 17), ror(y, 19), shr(y, 10)))
    end
    for i = 1, 64 do w[i] = w[i] + K[i] end
    return w
  end

  local function compress(s, w)
    local a, b, c, d, e, f, g, h = s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]
    for i = 1, 64 do
      local t = h + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(g, band(e, bxor(f, g))) + w[i]
      local u = bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bxor(band(a, b), band(c, bxor(a, b)))
      h, g, f, e, d, c, b, a = g, f, e, tobit(d + t), c, b, a, tobit(t + u)
    end
    return {tobit(s[1] + a), tobit(s[2] + b), tobit(s[3] + c), tobit(s[4] + d),
      tobit(s[5] + e), tobit(s[6] + f), tobit(s[7] + g), tobit(s[8] + h)}
  end

  -- The second block is padding, the same for every input of 64 bytes, so its schedule need not be computed.
  local padding = {
    0xc28a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf374,
    0x649b69c1, 0xf0fe4786, 0x0fe1edc6, 0x240cf254, 0x4fe9346f, 0x6cc984be, 0x61b9411e, 0x16f988fa,
    0xf2c65152, 0xa88e5a6d, 0xb019fc65, 0xb9d99ec7, 0x9a1231c3, 0xe70eeaa0, 0xfdb1232b, 0xc7353eb0,
    0x3069bad5, 0xcb976d5f, 0x5a0f118f, 0xdc1eeefd, 0x0a35b689, 0xde0b7a04, 0x58f4ca9d, 0xe15d5b16,
    0x007f3e86, 0x37088980, 0xa507ea32, 0x6fab9537, 0x17406110, 0x0d8cd6f1, 0xcdaa3b6d, 0xc0bbbe37,
    0x83613bda, 0xdb48a363, 0x0b02e931, 0x6fd15ca7, 0x521afaca, 0x31338431, 0x6ed41a95, 0x6d437890,
    0xc39c91f2, 0x9eccabbd, 0xb5c9a0e6, 0x532fb63c, 0xd2c741c6, 0x07237ea3, 0xa4954b68, 0x4c191d76}
  local words, digest = '>' .. string.rep('I4', 16), '>' .. string.rep('i4', 8)
  return function(input)
    return struct.pack(digest, unpack(compress(compress(start, schedule({struct.unpack(words, input)})), padding)))
  end
end

local function sha256(input)
  chain_hash = chain_hash or make_chain_hash()
  return chain_hash(input)
end
