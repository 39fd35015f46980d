-- Runs the function effect, which precedes this text, for each change of a batch that comes
-- after the position of its document, and moves the position. Halley's package once has
-- the rule, and why it holds; the lines of comes_after are those of Position.After.
--
-- KEYS[i]  hash with the position of the document of change i
-- ARGV     per change: epoch, LSN, time, version, number of arguments, arguments of effect

local function names(versions, version)
  return string.find(' ' .. versions .. ' ', ' ' .. version .. ' ', 1, true)
end

local function comes_after(stored, epoch, lsn, time, version)
  if names(stored.versions, version) then
    return false
  elseif epoch > stored.epoch then
    return lsn >= stored.lsn or time > stored.time
  elseif epoch < stored.epoch then
    return lsn >= stored.lsn and time >= stored.time
  end
  return lsn >= stored.lsn
end

local function position(key)
  local values = redis.call('HMGET', key, 'epoch', 'lsn', 'time', 'versions', 'memory')
  if not values[1] then
    return nil
  end
  return {
    epoch = tonumber(values[1]), lsn = tonumber(values[2]), time = tonumber(values[3]),
    versions = values[4], memory = values[5],
  }
end

local at, fresh = 1, 0
for i, key in ipairs(KEYS) do
  local epoch, lsn, time, version, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
  local stored = position(key)
  if not stored or comes_after(stored, tonumber(epoch), tonumber(lsn), tonumber(time), version) then
    local memory, keep = effect(stored and stored.memory or '', unpack(ARGV, at + 5, at + 4 + count))
    local versions = version
    if stored and stored.lsn == tonumber(lsn) then
      versions = stored.versions .. ' ' .. version
    end
    redis.call('HSET', key, 'epoch', epoch, 'lsn', lsn, 'time', time, 'versions', versions, 'memory', memory)
    if keep then
      redis.call('PEXPIRE', key, keep)
    else
      redis.call('PERSIST', key)
    end
    fresh = fresh + 1
  end
  at = at + 5 + count
end
return fresh
