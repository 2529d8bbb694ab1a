// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// The scripts that the server executes in one step.
enum RedisScript {
  /// Writes a value and ends the claim of its key.
  static let put = "redis.call('DEL', KEYS[2])\n" + write
  /// Removes a value and ends the claim of its key.
  static let remove = "redis.call('DEL', KEYS[2])\nreturn redis.call('UNLINK', KEYS[1])"

  private static let write = """
    if not ARGV[2] then return 1 end
    if ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2])
    else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
    return 1
    """

  /// Writes or removes a value if it has a version; an empty one is that of a key without a value.
  static let replace = """
    local header = redis.call('GETRANGE', KEYS[1], 0, 15)
    local version = string.sub(header, 9, 16)
    if #header == 16 and string.byte(header, 5) % 2 == 1 then version = '' end
    if version ~= ARGV[1] then return 0 end
    redis.call('DEL', KEYS[2])
    if not ARGV[2] then redis.call('UNLINK', KEYS[1]) end

    """ + write

  /// Ends a claim, and writes a value if there is one.
  static let complete = """
    if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
    redis.call('DEL', KEYS[2])

    """ + write

  /// Takes a lock and returns its number, or returns its holder. The number is the server's time in
  /// microseconds, or one more than the last: it also grows if the server has lost the last.
  static let lock = """
    if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      local time = redis.call('TIME')
      local number = math.max(
        (tonumber(redis.call('GET', KEYS[2])) or 0) + 1, time[1] * 1000000 + time[2])
      redis.call('SET', KEYS[2], string.format('%.0f', number))
      return number
    end
    return redis.call('GET', KEYS[1])
    """

  /// Ends the use of a lock.
  static let release = """
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('DEL', KEYS[1])
    """

  static let renew = """
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
    """
}
#endif
