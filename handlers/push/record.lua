-- Records results of one game, and returns the due notifications about scores of
-- their players.
--
-- KEYS[1]  sorted set of best scores
-- KEYS[i]  set of due notifications about scores of the player of result i - 1
-- ARGV[1]  number of the best players that are notified when they are overtaken
-- ARGV[2]  lifetime of a due notification in milliseconds
-- then per result: player, score, time in seconds or '' for no notifications

-- The Lua of embedded Redis servers reads 1e+06 only as 1.0e+06.
local function number(text)
  if not string.find(text, '.', 1, true) then
    text = string.gsub(text, '^(%-?%d+)', '%1.0')
  end
  return tonumber(text)
end

local best, top = KEYS[1], tonumber(ARGV[1])

local function overtakes(former, score, other)
  return other < score and (not former or other >= number(former))
end

local function record(due, player, score, at)
  local former = redis.call('ZSCORE', best, player)
  if former and number(former) >= number(score) then
    return
  end
  local leaders = redis.call('ZREVRANGE', best, 0, top - 1, 'WITHSCORES')
  for i = 1, #leaders, 2 do
    local name, other = leaders[i], leaders[i + 1]
    if at ~= '' and name ~= player and overtakes(former, number(score), number(other)) then
      redis.call('SADD', due, cjson.encode({ player = name, best = other, by = player, score = score, at = at }))
      redis.call('PEXPIRE', due, ARGV[2])
    end
  end
  redis.call('ZADD', best, score, player)
end

-- Removes a due notification if the overtaken player is level or leads again.
local function standing(due, player)
  local mine = number(redis.call('ZSCORE', best, player))
  local entries = {}
  for _, entry in ipairs(redis.call('SMEMBERS', due)) do
    local theirs = redis.call('ZSCORE', best, cjson.decode(entry).player)
    if theirs and number(theirs) >= mine then
      redis.call('SREM', due, entry)
    else
      entries[#entries + 1] = entry
    end
  end
  return entries
end

local function argument(result, offset)
  return ARGV[3 * result + offset]
end

for r = 1, #KEYS - 1 do
  record(KEYS[r + 1], argument(r, 0), argument(r, 1), argument(r, 2))
end

local listed, all = {}, {}
for r = 1, #KEYS - 1 do
  local player = argument(r, 0)
  if not listed[player] then
    listed[player] = true
    for _, entry in ipairs(standing(KEYS[r + 1], player)) do
      all[#all + 1] = entry
    end
  end
end
return all
