-- The calls of an engine that must see and change a crawl at one moment. The server runs a script without another
-- command in between. A script that fails leaves what it has written, so every check comes before the first write,
-- and the first write is of a command that a server without memory refuses (it refuses none after that).
--
-- KEYS[1] is the beginning of the names of all keys of a crawl, with its hash tag. ARGV[1] is the name of the call.
-- The answer is a list that begins with a word; "ok" means done.
--
-- crawl    hash of the crawl's row                   plan     text
-- parts    hash: fN "owner epoch seq hash granted" (owner is - for none), sN "idle busy least counted COUNTS", bN beat
-- s:ID     hash of a session                         all      list of sessions in the order of joining
-- live     set of sessions that have not ended       tokens   hash: name to holder, - for none
-- scope    list                                      log:N    stream, the id of a row is its place: seq-hash
-- in:N:ID  stream of what session ID has sent to partition N, by batch
-- inbox    sorted set of the in:N:ID that exist, as NNN:ID
local K, call = KEYS[1], redis.call

local function num(n) return string.format('%.0f', n) end -- tostring would write 1e+15

local function now()
  local t = call('TIME')
  return t[1] * 1000000 + t[2]
end

-- living returns why a session cannot go on, nil if it can.
local function living(id)
  local ended = call('HGET', K .. 's:' .. id, 'ended')
  if not ended then return 'rolled back' end
  if ended == '1' then return 'fenced' end
end

-- elapsed is the time since the last call of countTime, 0 if no machine was there meanwhile.
local function elapsed(t)
  local c = call('HMGET', K .. 'crawl', 'state', 'active')
  local gap = t - tonumber(c[2])
  if c[1] == 'running' and gap > 0 and gap <= LEASE and call('SCARD', K .. 'live') > 0 then return gap end
  return 0
end

local function countTime(t)
  local used = call('HGET', K .. 'crawl', 'used')
  call('HSET', K .. 'crawl', 'used', num(used + elapsed(t)), 'active', num(t))
end

-- release reports whether a session has nothing any more: it is none, has ended, or has expired and is ended by this
-- call of another session.
local function release(owner, self, t)
  if owner == '-' then return true end
  local o = call('HMGET', K .. 's:' .. owner, 'ended', 'beat')
  if not o[1] or o[1] == '1' then return true end
  local s = call('HMGET', K .. 's:' .. self, 'beat', 'since')
  if owner ~= self and t - o[2] > LEASE and t - s[1] <= LEASE and t - s[2] >= LEASE then
    call('HSET', K .. 's:' .. owner, 'ended', '1')
    call('SREM', K .. 'live', owner)
    return true
  end
  return false
end

-- sum adds up what conditions are made of.
local function sum()
  local r = {working = 0, busy = 0, counted = 0, least = 4294967295}
  local all = call('HGETALL', K .. 'parts')
  for i = 1, #all, 2 do
    if all[i]:byte() == 115 then -- s
      local idle, busy, least, counted = all[i + 1]:match('^(%d) (%d+) (%d+) (%d+) ')
      if idle == '0' then r.working = r.working + 1 end
      if busy ~= '0' then r.busy = r.busy + 1 end
      r.counted = r.counted + counted
      r.least = math.min(r.least, tonumber(least))
    end
  end
  r.quiet = call('HGET', K .. 'crawl', 'waiting') == '0' and call('HLEN', K .. 'tokens') == 0
  return r
end

local function snapshot(t, plan, scope)
  local row = call('HGETALL', K .. 'crawl')
  local text = false
  if call('HGET', K .. 'crawl', 'plan_version') ~= plan then text = call('GET', K .. 'plan') end
  local members = {}
  for i, id in ipairs(call('SMEMBERS', K .. 'live')) do
    members[i] = {id, call('HGETALL', K .. 's:' .. id)}
  end
  return {'ok', num(t), num(elapsed(t)), row, members, call('HGETALL', K .. 'parts'), call('HGETALL', K .. 'tokens'),
    call('LLEN', K .. 'scope'), call('LRANGE', K .. 'scope', scope, -1), text}
end

-- keysOf returns the keys of the crawl without their beginning.
local function keysOf()
  local keys = {'crawl', 'plan', 'parts', 'tokens', 'scope', 'inbox', 'live', 'all'}
  for _, id in ipairs(call('LRANGE', K .. 'all', 0, -1)) do keys[#keys + 1] = 's:' .. id end
  for _, m in ipairs(call('ZRANGE', K .. 'inbox', 0, -1)) do
    keys[#keys + 1] = 'in:' .. tonumber(m:sub(1, 3)) .. m:sub(4)
  end
  for n = 0, 255 do keys[#keys + 1] = 'log:' .. n end
  return keys
end

local calls = {}

-- create: name seed identity plan max_urls tokens
function calls.create(a)
  local name = call('HGET', K .. 'crawl', 'name')
  if name then return {name == a[1] and 'ok' or 'exists'} end
  local t = num(now())
  call('HSET', K .. 'crawl', 'name', a[1], 'seed', a[2], 'identity', a[3], 'created', t, 'plan_version', '1',
    'state', 'running', 'reason', '', 'decided_by', '-', 'run', '1', 'level', '0', 'max_urls', a[5], 'granted', '0',
    'used', '0', 'active', '0', 'begun', t, 'begun_used', '0', 'begun_counted', '0', 'waiting', '0', 'confirmed', '0')
  call('SET', K .. 'plan', a[4])
  local parts = {}
  for n = 0, 255 do
    parts[#parts + 1] = 'f' .. n
    parts[#parts + 1] = '- 0 0 0 0'
    parts[#parts + 1] = 's' .. n
    parts[#parts + 1] = '1 0 4294967295 0 '
  end
  call('HSET', K .. 'parts', unpack(parts))
  for i = 6, #a do call('HSET', K .. 'tokens', a[i], '-') end
  return {'ok'}
end

function calls.row()
  local t = now()
  return {'ok', num(elapsed(t)), call('HGETALL', K .. 'crawl')}
end

-- delete works on a server without memory too.
function calls.delete()
  for _, key in ipairs(keysOf()) do call('UNLINK', K .. key) end
  return {'ok'}
end

-- look: known plan, known scope
function calls.look(a) return snapshot(now(), a[1], a[2]) end

function calls.sessions()
  local list = {}
  for i, id in ipairs(call('LRANGE', K .. 'all', 0, -1)) do list[i] = {id, call('HGETALL', K .. 's:' .. id)} end
  return {'ok', list}
end

-- join: session, machine, name
function calls.join(a)
  if call('EXISTS', K .. 's:' .. a[1]) == 1 then
    local over = living(a[1])
    if over then return {over} end
  end
  local t = now()
  countTime(t)
  if call('EXISTS', K .. 's:' .. a[1]) == 0 then
    t = num(t)
    call('HSET', K .. 's:' .. a[1], 'machine', a[2], 'name', a[3], 'joined', t, 'since', t, 'beat', t, 'beats', '1',
      'batch', '0', 'digest', '0', 'ended', '0', 'left', '0', 'tally', '')
    call('SADD', K .. 'live', a[1])
    call('RPUSH', K .. 'all', a[1])
  end
  return {'ok'}
end

-- beat: session, tally, known plan, known scope
function calls.beat(a)
  local over = living(a[1])
  if over then return {over} end
  local t, key = now(), K .. 's:' .. a[1]
  countTime(t)
  if t - call('HGET', key, 'beat') > LEASE then call('HSET', key, 'since', num(t)) end
  call('HSET', key, 'beat', num(t), 'tally', a[2])
  call('HINCRBY', key, 'beats', 1)
  return snapshot(t, a[3], a[4])
end

-- leave: session, tally
function calls.leave(a)
  local key = K .. 's:' .. a[1]
  local ended = call('HGET', key, 'ended')
  if not ended then return {'ok'} end
  countTime(now())
  if ended == '0' then call('HSET', key, 'left', '1') end
  call('HSET', key, 'ended', '1', 'tally', a[2])
  call('SREM', K .. 'live', a[1])
  return {'ok'}
end

-- claim: session, partitions
function calls.claim(a)
  local over = living(a[1])
  if over then return {over} end
  call('HINCRBY', K .. 'crawl', 'confirmed', 1) -- a write, for WAIT
  local t, list = now(), {}
  for i = 2, #a do
    local n = a[i]
    local p = call('HMGET', K .. 'parts', 'f' .. n, 's' .. n, 'b' .. n)
    local owner, epoch, rest = p[1]:match('^(%S+) (%d+) (.*)$')
    local mine = owner == a[1]
    if not mine and release(owner, a[1], t) then
      local beat = owner ~= '-' and call('HGET', K .. 's:' .. owner, 'beat')
      if beat and tonumber(beat) > tonumber(p[3] or 0) then
        p[3] = beat
        call('HSET', K .. 'parts', 'b' .. n, beat)
      end
      p[1] = a[1] .. ' ' .. num(epoch + 1) .. ' ' .. rest
      call('HSET', K .. 'parts', 'f' .. n, p[1])
      mine = true
    end
    if mine then list[#list + 1] = {n, p[1], p[2], p[3] or '0'} end
  end
  return {'ok', list}
end

-- commit: session, session as bytes, number, digest, number before, and how many of each follow:
-- writes (partition, fence, next fence, status, id or nothing, epoch, body), sent (partition, body), received
-- (partition, session, number of the first that is kept), released tokens, held tokens, scope extensions
function calls.commit(a)
  local key = K .. 's:' .. a[1]
  local s = call('HMGET', key, 'ended', 'batch', 'digest')
  if not s[1] then return {'rolled back'} end
  if s[1] == '1' then return {'fenced'} end
  if s[2] == a[3] then
    if s[3] ~= a[4] then return {'usage', 'batch ' .. a[3] .. ' was committed with another content'} end
    call('HINCRBY', K .. 'crawl', 'confirmed', 1) -- a write, so that WAIT waits for what was written before it
    return {'ok'}
  end
  if s[2] ~= a[5] then
    if tonumber(a[3]) > tonumber(s[2]) then return {'rolled back'} end
    return {'usage', 'batch ' .. a[3] .. ' comes after batch ' .. s[2]}
  end
  local writes = 12
  local sent = writes + 7 * a[6]
  local received = sent + 2 * a[7]
  local released = received + 3 * a[8]
  local held = released + a[9]
  local scope = held + a[10]
  if #a ~= scope + a[11] - 1 then return {'usage', 'the batch is cut off'} end

  for i = writes, sent - 1, 7 do
    local found = call('HGET', K .. 'parts', 'f' .. a[i])
    if found ~= a[i + 1] then return {'fence', (i - writes) / 7, found} end
  end
  for i = released, held - 1 do
    if call('HGET', K .. 'tokens', a[i]) ~= a[1] then return {'tokens'} end
  end
  for i = held, scope - 1 do
    if call('HEXISTS', K .. 'tokens', a[i]) == 1 then return {'tokens'} end
  end

  call('HSET', key, 'batch', a[3], 'digest', a[4])
  for i = writes, sent - 1, 7 do
    if a[i + 4] ~= '' then
      call('XADD', K .. 'log:' .. a[i], a[i + 4], 'e', a[i + 5], 's', a[2], 'b', a[i + 6])
    end
    call('HSET', K .. 'parts', 'f' .. a[i], a[i + 2], 's' .. a[i], a[i + 3])
  end
  local waiting = 0
  for i = received, released - 1, 3 do
    local stream = K .. 'in:' .. a[i] .. ':' .. a[i + 1]
    waiting = waiting - call('XTRIM', stream, 'MINID', '=', a[i + 2])
    if call('XLEN', stream) == 0 then
      call('DEL', stream)
      call('ZREM', K .. 'inbox', string.format('%03d:%s', a[i], a[i + 1]))
    end
  end
  for i = sent, received - 1, 2 do
    call('XADD', K .. 'in:' .. a[i] .. ':' .. a[1], a[3] .. '-0', 'b', a[i + 1])
    call('ZADD', K .. 'inbox', 0, string.format('%03d:%s', a[i], a[1]))
    waiting = waiting + 1
  end
  if waiting ~= 0 then call('HINCRBY', K .. 'crawl', 'waiting', num(waiting)) end
  for i = released, held - 1 do call('HDEL', K .. 'tokens', a[i]) end
  for i = held, scope - 1 do call('HSET', K .. 'tokens', a[i], a[1]) end
  for i = scope, #a do call('RPUSH', K .. 'scope', a[i]) end
  return {'ok'}
end

-- read: partition, place as an id or nothing, limit in bytes
function calls.read(a)
  local key, from, left = K .. 'log:' .. a[1], '-', tonumber(a[3])
  if a[2] ~= '' then
    if #call('XRANGE', key, a[2], a[2]) == 0 then return {'rolled back'} end
    from = '(' .. a[2]
  end
  local list = {}
  while #list < MOST do
    local page = call('XRANGE', key, from, '+', 'COUNT', 16)
    for _, row in ipairs(page) do
      list[#list + 1] = row
      left = left - #row[2][6]
      if left <= 0 then return {'ok', list} end
    end
    if #page < 16 then break end
    from = '(' .. page[16][1]
  end
  return {'ok', list}
end

-- inbox: session, limit in bytes, marks (NNN:ID, number of the first that is wanted)
function calls.inbox(a)
  local marks, list, left, owned = {}, {}, tonumber(a[2]), {}
  for i = 3, #a, 2 do
    -- of several marks, the highest counts
    if not marks[a[i]] or tonumber(a[i + 1]) > tonumber(marks[a[i]]) then marks[a[i]] = a[i + 1] end
  end
  for _, m in ipairs(call('ZRANGE', K .. 'inbox', 0, -1)) do
    local n, from = tonumber(m:sub(1, 3)), marks[m] or '-'
    if owned[n] == nil then
      owned[n] = call('HGET', K .. 'parts', 'f' .. n):sub(1, #a[1] + 1) == a[1] .. ' '
    end
    while owned[n] do
      local page = call('XRANGE', K .. 'in:' .. n .. m:sub(4), from, '+', 'COUNT', 16)
      for _, e in ipairs(page) do
        list[#list + 1] = {m, e[1], e[2][2]}
        left = left - #e[2][2]
        if left <= 0 or #list >= MOST then return {'ok', list} end
      end
      if #page < 16 then break end
      from = '(' .. page[16][1]
    end
  end
  return {'ok', list}
end

local function change(a, do_it)
  local over = living(a[1])
  if over then return {over} end
  call('HINCRBY', K .. 'crawl', 'confirmed', 1) -- a write, for WAIT
  return do_it(a)
end

-- state: session, from, to, reason, new run, condition, anew
function calls.state(a)
  return change(a, function()
    local c = call('HMGET', K .. 'crawl', 'state', 'reason', 'decided_by', 'max_urls')
    if c[1] == a[3] and c[2] == a[4] and c[3] == a[1] then return {'ok', 1} end
    if c[1] ~= a[2] then return {'ok', 0} end
    local s, most = sum(), tonumber(c[4])
    if a[6] == 'complete' and not (s.working == 0 and s.quiet) then return {'ok', 0} end
    if a[6] == 'limit' and not (most > 0 and s.counted >= most and s.busy == 0) then return {'ok', 0} end
    local t = now()
    countTime(t)
    if a[5] == '1' then
      call('HINCRBY', K .. 'crawl', 'run', 1)
      call('HSET', K .. 'crawl', 'begun', num(t), 'begun_used', call('HGET', K .. 'crawl', 'used'),
        'begun_counted', num(s.counted))
    end
    if a[7] == '1' then
      call('HSET', K .. 'crawl', 'level', '0', 'granted', '0')
      for n = 0, 255 do
        call('HSET', K .. 'parts', 'f' .. n, (call('HGET', K .. 'parts', 'f' .. n):gsub('%d+$', '0')))
      end
    end
    call('HSET', K .. 'crawl', 'state', a[3], 'reason', a[4], 'decided_by', a[1])
    return {'ok', 1}
  end)
end

-- plan: session, version, next version, plan, max_urls
function calls.plan(a)
  return change(a, function()
    local c = call('HMGET', K .. 'crawl', 'plan_version', 'max_urls')
    if c[1] == a[3] and call('GET', K .. 'plan') == a[4] and c[2] == a[5] then return {'ok', 1} end
    if c[1] ~= a[2] then return {'ok', 0} end
    call('HSET', K .. 'crawl', 'plan_version', a[3], 'max_urls', a[5])
    call('SET', K .. 'plan', a[4])
    return {'ok', 1}
  end)
end

-- level: session, from, to
function calls.level(a)
  return change(a, function()
    local level = call('HGET', K .. 'crawl', 'level')
    if level == a[3] then return {'ok', 1} end
    if level ~= a[2] or tonumber(a[3]) < tonumber(a[2]) then return {'ok', 0} end
    local s = sum()
    if s.least < tonumber(a[3]) or not s.quiet then return {'ok', 0} end
    call('HSET', K .. 'crawl', 'level', a[3])
    return {'ok', 1}
  end)
end

-- grant: session, partition, epoch, from, to
function calls.grant(a)
  return change(a, function()
    local owner, epoch, head, granted = call('HGET', K .. 'parts', 'f' .. a[2]):match('^(%S+) (%d+) (%d+ %d+) (%d+)$')
    if owner ~= a[1] or epoch ~= a[3] then return {'fenced'} end
    if granted == a[5] then return {'ok', 1} end
    local c = call('HMGET', K .. 'crawl', 'granted', 'state', 'max_urls')
    local all = c[1] - a[4] + a[5]
    if granted ~= a[4] or c[2] ~= 'running' or all > tonumber(c[3]) then return {'ok', 0} end
    call('HSET', K .. 'parts', 'f' .. a[2], owner .. ' ' .. epoch .. ' ' .. head .. ' ' .. a[5])
    call('HSET', K .. 'crawl', 'granted', num(all))
    return {'ok', 1}
  end)
end

-- token: session, name
function calls.token(a)
  return change(a, function()
    local holder = call('HGET', K .. 'tokens', a[2])
    if not holder then return {'ok', 0} end
    if holder == a[1] then return {'ok', 1} end
    if call('HGET', K .. 'crawl', 'state') ~= 'running' or not release(holder, a[1], now()) then return {'ok', 0} end
    call('HSET', K .. 'tokens', a[2], a[1])
    return {'ok', 1}
  end)
end

-- memory is what the keys of the crawl use, by the server's estimate.
function calls.memory()
  local bytes = 0
  for _, key in ipairs(keysOf()) do bytes = bytes + (call('MEMORY', 'USAGE', K .. key) or 0) end
  return {'ok', bytes}
end

if ARGV[1] ~= 'create' and ARGV[1] ~= 'delete' and call('EXISTS', K .. 'crawl') == 0 then return {'no crawl'} end
local args = {} -- unpack has a limit
for i = 2, #ARGV do args[i - 1] = ARGV[i] end
return calls[ARGV[1]](args)
