-- memory     key that holds the document now, or ''
-- key        key of the document; '' if it is not known, as of some deletes
-- value      text to store; '' if the document was deleted
-- ttl        its time to live in milliseconds; '0' for none
-- tombstone  how long a position outlives its value, in milliseconds
local function effect(memory, key, value, ttl, tombstone)
  if value == '' then
    local former = memory ~= '' and memory or key
    if former ~= '' then
      redis.call('DEL', former)
    end
    return '', tombstone
  end
  if memory ~= '' and memory ~= key then
    redis.call('DEL', memory)
  end
  if ttl == '0' then
    redis.call('SET', key, value)
    return key, nil
  end
  redis.call('SET', key, value, 'PX', ttl)
  return key, tonumber(ttl) + tonumber(tombstone)
end
