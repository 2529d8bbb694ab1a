// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
internal import LarderEngine
internal import Synchronization

/// The operations of a link, as commands.
final class RedisService: RemoteService {
  let client: RedisClient
  let keys: RedisKeys
  let name: String
  private let trackers = Mutex<[ObjectIdentifier: RedisTracker]>([:])

  init(_ configuration: RedisConfiguration, prefix: String) {
    client = RedisClient(configuration)
    keys = RedisKeys(prefix: prefix)
    name = "\(configuration), prefix \(prefix)"
    guard case .sentinels = configuration.address else { return }
    // The server may be a former primary, which has acknowledged writes that the new one does not have. The
    // link of the host may already be to the new one.
    client.onEnd { [weak self] in
      guard let self else { return }
      _ = BlockingWork.task { self.restartLinks() }
    }
  }

  private func restartLinks() {
    for tracker in trackers.withLock({ Array($0.values) }) { tracker.restartLink() }
  }

  var server: String { "\(client.configuration.address)" }

  func attach(to store: SharedStore) {
    trackers.withLock { trackers in
      let identity = ObjectIdentifier(store.core)
      if let tracker = trackers[identity], tracker.isRunning { return }
      trackers[identity] = RedisTracker(self, store)
    }
  }

  func detach() {
    let ended = trackers.withLock { trackers in
      defer { trackers = [:] }
      return Array(trackers.values)
    }
    for tracker in ended { tracker.cancel() }
  }

  func close() async {
    detach()
    await client.close()
  }

  func isLoss(_ error: any Error) -> Bool { (error as? RedisError)?.isLoss ?? false }

  /// Sends commands, and throws the first error among their replies.
  private func execute(_ commands: [RedisCommand], timeout: Duration? = nil) async throws
    -> [RedisValue]
  {
    let replies = try await client.send(commands, timeout: timeout)
    for reply in replies {
      if case .error(let error) = reply { throw RedisError.reply(error, from: server) }
    }
    return replies
  }

  // MARK: Reading

  func read(_ wanted: [RemoteKey]) async throws -> [RemoteEntry?] {
    let replies = try await execute(
      wanted.flatMap { key in
        // The lifetime first: it may be too short, and never too long.
        [RedisCommand("PTTL", keys.value(key)), RedisCommand("GET", keys.value(key))]
      })
    var found: [RedisEntry?] = []
    for (index, key) in wanted.enumerated() {
      guard let bytes = replies[2 * index + 1].bytes else {
        found.append(nil)
        continue
      }
      guard let entry = RedisEntry(bytes, lifetime: Self.lifetime(replies[2 * index])) else {
        throw RedisError(
          .unreadableValue, server,
          "The key \(keys.value(key)) has bytes that no link has written. Remove it, or use another "
            + "prefix.")
      }
      found.append(entry)
    }
    return try await checkingTags(found, wanted)
  }

  /// Leaves out the values whose tags were removed.
  private func checkingTags(
    _ found: [RedisEntry?], _ wanted: [RemoteKey]
  ) async throws -> [RemoteEntry?] {
    let names = Set(
      zip(found, wanted).flatMap { entry, key in
        (entry?.entry.tags ?? []).map { keys.tag($0, in: key.namespace) }
      }
    ).sorted()
    if names.isEmpty { return found.map { $0?.entry } }
    let replies = try await execute(names.map { RedisCommand("GET", $0) })
    let tokens = Dictionary(uniqueKeysWithValues: zip(names, replies.map(\.bytes)))
    return zip(found, wanted).map { entry, key in
      guard let entry else { return nil }
      let isValid = zip(entry.entry.tags, entry.tokens).allSatisfy { tag, token in
        tokens[keys.tag(tag, in: key.namespace)] == token
      }
      return isValid ? entry.entry : nil
    }
  }

  func versions(of wanted: [RemoteKey]) async throws -> [RemoteVersion?] {
    try await versions(of: wanted) { try await self.execute($0) }
  }

  /// Reads versions over any connection.
  func versions(
    of wanted: [RemoteKey], _ execute: ([RedisCommand]) async throws -> [RedisValue]
  ) async throws -> [RemoteVersion?] {
    let replies = try await execute(
      wanted.flatMap { key in
        [
          RedisCommand("PTTL", keys.value(key)),
          RedisCommand("GETRANGE", keys.value(key), 0, RedisEntry.headerSize - 1),
        ]
      })
    return wanted.indices.map { index in
      replies[2 * index + 1].bytes.flatMap(RedisEntry.version).map {
        RemoteVersion($0, lifetime: Self.lifetime(replies[2 * index]))
      }
    }
  }

  private static func lifetime(_ reply: RedisValue) -> Int64? {
    guard let time = reply.integer, time >= 0 else { return nil }
    return Int64(time)
  }

  // MARK: Writing

  func write(
    _ writes: [RemoteWrite], _ acknowledgement: RemoteOptions.Acknowledgement
  ) async throws {
    let values = try await bytes(of: writes)
    var commands: [RedisCommand] = []
    for (write, value) in zip(writes, values) {
      // First the claim: a computation that ends in between is not stored.
      commands.append(RedisCommand("DEL", keys.claim(write.key)))
      commands.append(
        RedisCommand("SET", [keys.value(write.key), value] + Self.expiry(write.entry)))
    }
    try await execute(commands, acknowledgement)
  }

  func remove(
    _ removed: [RemoteKey], _ acknowledgement: RemoteOptions.Acknowledgement
  ) async throws -> Int {
    let replies = try await execute(
      removed.flatMap { key in
        [RedisCommand("DEL", keys.claim(key)), RedisCommand("UNLINK", keys.value(key))]
      }, acknowledgement)
    return removed.indices.reduce(0) { $0 + (replies[2 * $1 + 1].integer ?? 0) }
  }

  @discardableResult
  private func execute(
    _ commands: [RedisCommand], _ acknowledgement: RemoteOptions.Acknowledgement
  ) async throws -> [RedisValue] {
    guard case .replicas(let wanted) = acknowledgement else { return try await execute(commands) }
    let limit = client.configuration.timeout
    let milliseconds = Int(limit.components.seconds * 1000) / 2 + 1
    let replies = try await execute(
      commands + [RedisCommand("WAIT", wanted, milliseconds)], timeout: limit * 2)
    let reached = replies.last?.integer ?? 0
    if reached >= wanted { return replies }
    throw RedisError(
      .notReplicated, server,
      "\(reached) of \(wanted) replicas have the write after \(milliseconds) ms. The server has it, and "
        + "loses it if it fails now. Check the replicas with INFO replication.")
  }

  /// Returns the bytes of values, with the present bytes of the keys of their tags.
  private func bytes(of writes: [RemoteWrite]) async throws -> [[UInt8]] {
    for write in writes where write.entry.payload.count >= 512 << 20 - 65_536 {
      throw RedisError(
        .valueTooLarge, server,
        "The value of \(keys.value(write.key)) has \(write.entry.payload.count) bytes, and a server takes "
          + "at most 512 MiB. Split the value.")
    }
    let names = Set(
      writes.flatMap { write in write.entry.tags.map { keys.tag($0, in: write.key.namespace) } }
    ).sorted()
    var tokens: [String: [UInt8]] = [:]
    if !names.isEmpty {
      let replies = try await execute(
        names.flatMap { [RedisCommand("SET", $0, Self.token(), "NX"), RedisCommand("GET", $0)] })
      for (index, name) in names.enumerated() {
        guard let token = replies[2 * index + 1].bytes, token.count == 8 else {
          throw RedisError(
            .unreadableValue, server,
            "The key \(name) has bytes that no link has written, or was evicted at once. Remove it, or "
              + "raise maxmemory.")
        }
        tokens[name] = token
      }
    }
    return writes.map { write in
      RedisEntry.bytes(
        write.entry,
        tokens: write.entry.tags.map { tokens[keys.tag($0, in: write.key.namespace)]! })
    }
  }

  private static func token() -> [UInt8] {
    RedisEntry.versionBytes(UInt64.random(in: 0...UInt64.max))
  }

  private static func expiry(_ entry: RemoteEntry) -> [any RedisArgument] {
    entry.version.lifetime.map { ["PX", Int(clamping: $0)] } ?? []
  }

  func removeAll(in namespace: String) async throws {
    var cursor = "0"
    repeat {
      let reply = try await execute([
        RedisCommand("SCAN", cursor, "MATCH", keys.pattern(of: namespace), "COUNT", 1000)
      ])[0]
      guard let parts = reply.elements, parts.count == 2, let next = parts[0].text else {
        throw RedisError(.protocolViolation, server, "The answer to SCAN has another form.")
      }
      let found = (parts[1].elements ?? []).compactMap(\.bytes)
      if !found.isEmpty {
        _ = try await execute([RedisCommand("UNLINK", found.map { $0 as any RedisArgument })])
      }
      cursor = next
    } while cursor != "0"
  }

  func removeAll(tagged tag: String, in namespace: String) async throws {
    _ = try await execute([RedisCommand("SET", keys.tag(tag, in: namespace), Self.token())])
  }

  // MARK: In one step on the server

  func replace(
    _ key: RemoteKey, ifVersion version: UInt64, with write: RemoteWrite?
  ) async throws -> Bool {
    let expected = version == 0 ? [] : RedisEntry.versionBytes(version)
    return try await run(RedisScript.replace, key, expected, write)
  }

  func claim(_ key: RemoteKey, token: UInt64, for time: Duration) async throws -> Bool {
    let reply = try await execute([
      RedisCommand("SET", keys.claim(key), "\(token)", "NX", "PX", Self.milliseconds(time))
    ])[0]
    return reply != .null
  }

  func renew(_ key: RemoteKey, token: UInt64, for time: Duration) async throws -> Bool {
    let reply = try await execute([
      RedisCommand(
        "EVAL", RedisScript.renew, 1, keys.claim(key), "\(token)", Self.milliseconds(time))
    ])[0]
    return reply.integer == 1
  }

  func complete(_ key: RemoteKey, token: UInt64, _ write: RemoteWrite?) async throws -> Bool {
    try await run(RedisScript.complete, key, Array("\(token)".utf8), write)
  }

  private func run(
    _ script: String, _ key: RemoteKey, _ condition: [UInt8], _ write: RemoteWrite?
  ) async throws -> Bool {
    var arguments: [any RedisArgument] = [script, 2, keys.value(key), keys.claim(key), condition]
    if let write {
      arguments.append(try await bytes(of: [write])[0])
      arguments.append(write.entry.version.lifetime.map { Int(clamping: $0) } ?? 0)
    }
    return try await execute([RedisCommand("EVAL", arguments)])[0].integer == 1
  }

  private static func milliseconds(_ time: Duration) -> Int {
    max(
      Int(time.components.seconds) * 1000
        + Int(time.components.attoseconds / 1_000_000_000_000_000), 1)
  }
}

/// The scripts that the server executes in one step.
enum RedisScript {
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

  static let renew = """
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
    """
}
