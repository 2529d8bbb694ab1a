// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderCache
internal import LarderEngine
internal import Synchronization

/// The operations of a link, as commands.
final class RedisService: RemoteService {
  let client: RedisClient
  let keys: RedisKeys
  let name: String
  private struct Trackers {
    var running: [ObjectIdentifier: RedisTracker] = [:]
    var isClosed = false
  }

  private let trackers = Mutex(Trackers())
  /// The longest time for the removal of a namespace.
  private static let sweepLimit: Duration = .seconds(60)

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
    for tracker in trackers.withLock({ Array($0.running.values) }) { tracker.restartLink() }
  }

  var server: String { "\(client.configuration.address)" }

  func attach(to store: SharedStore) {
    trackers.withLock { trackers in
      if trackers.isClosed { return }
      trackers.running = trackers.running.filter { $0.value.isRunning }
      let identity = ObjectIdentifier(store.core)
      if trackers.running[identity] == nil {
        trackers.running[identity] = RedisTracker(self, store)
      }
    }
  }

  func detach() {
    let ended = trackers.withLock { trackers in
      defer { trackers.running = [:] }
      return Array(trackers.running.values)
    }
    for tracker in ended { tracker.cancel() }
  }

  func close() async {
    trackers.withLock { $0.isClosed = true }
    detach()
    await client.close()
  }

  var topology: RemoteTopology { client.cluster?.topology ?? .single }

  func refreshTopology() { client.cluster?.refreshLater() }

  func isLoss(_ error: any Error) -> Bool { (error as? RedisError)?.isLoss ?? false }

  func isUnanswered(_ error: any Error) -> Bool {
    // The other servers of a cluster answer.
    guard client.cluster == nil, let error = error as? RedisError else { return false }
    return [.unreachable, .connectionLost, .timeout].contains(error.code)
  }

  func isUnsent(_ error: any Error) -> Bool { (error as? RedisError)?.code == .unreachable }

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
    let names = wanted.map { keys.value($0) }
    // Not in one step. If a value is written in between, the lifetime is that of the new one, and the version
    // is the old one's: by it the link removes the copy, and the server refuses a conditional write.
    let replies = try await execute(
      names.flatMap { [RedisCommand("GET", $0), RedisCommand("PTTL", $0)] })
    var found: [RedisEntry?] = []
    found.reserveCapacity(names.count)
    for (index, name) in names.enumerated() {
      guard let bytes = replies[2 * index].bytes else {
        found.append(nil)
        continue
      }
      guard let entry = RedisEntry(bytes, lifetime: Self.lifetime(replies[2 * index + 1])) else {
        throw RedisError(
          .unreadableValue, server,
          "The key \(name) has bytes that no link has written. Remove it, or use another prefix.")
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
    // Not in one step, as in `read(_:)`.
    let replies = try await execute(
      wanted.flatMap { key in
        let name = keys.value(key)
        return [RedisCommand("GETRANGE", name, 0, 15), RedisCommand("PTTL", name)]
      })
    return wanted.indices.map { index in
      replies[2 * index].bytes.flatMap(RedisEntry.version).map {
        RemoteVersion($0, lifetime: Self.lifetime(replies[2 * index + 1]))
      }
    }
  }

  /// Returns the lifetime in a reply to PTTL; `nil` without an end. A key that has gone has the shortest one.
  private static func lifetime(_ reply: RedisValue) -> Int64? {
    guard let time = reply.integer, time != -1 else { return nil }
    return Int64(max(time, 1))
  }

  // MARK: Writing

  func write(
    _ writes: [RemoteWrite], _ acknowledgement: RemoteOptions.Acknowledgement
  ) async throws {
    let values = try await bytes(of: writes)
    // With the claim in one step: a computation that begins in between would replace the value.
    try await execute(
      zip(writes, values).map { write, value in
        command(RedisScript.put, write.key, [[], value, write.lifetime])
      }, acknowledgement)
  }

  func remove(
    _ removed: [RemoteKey], _ acknowledgement: RemoteOptions.Acknowledgement
  ) async throws -> Int {
    let replies = try await execute(
      removed.map { command(RedisScript.remove, $0, []) }, acknowledgement)
    return replies.prefix(removed.count).reduce(0) { $0 + ($1.integer ?? 0) }
  }

  private func command(
    _ script: String, _ key: RemoteKey, _ arguments: [any RedisArgument]
  ) -> RedisCommand {
    RedisCommand("EVAL", [script, 2, keys.value(key), keys.claim(key)] + arguments)
  }

  @discardableResult
  private func execute(
    _ commands: [RedisCommand], _ acknowledgement: RemoteOptions.Acknowledgement
  ) async throws -> [RedisValue] {
    guard case .replicas(let wanted) = acknowledgement else { return try await execute(commands) }
    let limit = client.configuration.timeout
    let milliseconds = Self.milliseconds(limit / 2)
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
      writes.flatMap { write in
        write.entry.tags.filter { write.tokens[Array($0.utf8)] == nil }
          .map { keys.tag($0, in: write.key.namespace) }
      })
    let tokens = try await tokens(of: names.sorted())
    return writes.map { write in
      RedisEntry.bytes(
        write.entry,
        tokens: write.entry.tags.map {
          write.tokens[Array($0.utf8)] ?? tokens[keys.tag($0, in: write.key.namespace)]!
        })
    }
  }

  func tokens(of tags: [String], in namespace: String) async throws -> RemoteTokens {
    let names = Set(tags.map { keys.tag($0, in: namespace) })
    let tokens = try await tokens(of: names.sorted())
    return Dictionary(
      tags.map { (Array($0.utf8), tokens[keys.tag($0, in: namespace)]!) },
      uniquingKeysWith: { $1 })
  }

  /// Returns the bytes of the keys of tags, and writes those that are missing.
  private func tokens(of names: [String]) async throws -> [String: [UInt8]] {
    if names.isEmpty { return [:] }
    let replies = try await execute(
      names.flatMap { [RedisCommand("SET", $0, Self.token(), "NX"), RedisCommand("GET", $0)] })
    var tokens: [String: [UInt8]] = [:]
    for (index, name) in names.enumerated() {
      guard let token = replies[2 * index + 1].bytes, token.count == 8 else {
        throw RedisError(
          .unreadableValue, server,
          "The key \(name) has bytes that no link has written, or was evicted at once. Remove it, or "
            + "raise maxmemory.")
      }
      tokens[name] = token
    }
    return tokens
  }

  private static func token() -> [UInt8] {
    RedisEntry.versionBytes(UInt64.random(in: 0...UInt64.max))
  }

  func removeAll(in namespace: String) async throws {
    // First the claims: the results of computations that have begun are not stored.
    let end = ContinuousClock.now.advanced(by: Self.sweepLimit)
    for pattern in [keys.claimPattern(of: namespace), keys.pattern(of: namespace)] {
      try await removeAll(matching: pattern, until: end)
    }
  }

  private func removeAll(
    matching pattern: String, until end: ContinuousClock.Instant
  ) async throws {
    // Slots that move while the servers are searched may be searched in neither place.
    var before: ClusterMap?
    repeat {
      before = try await client.cluster?.settledMap(until: end)
      for server in try await client.primaries() {
        try await removeAll(matching: pattern, on: server, until: end)
      }
      guard let before, let after = try await client.cluster?.settledMap(until: end) else { return }
      if after.hasOwners(of: before) { return }
    } while true
  }

  private func removeAll(
    matching pattern: String, on node: RedisNode, until end: ContinuousClock.Instant
  ) async throws {
    var cursor = "0"
    repeat {
      if ContinuousClock.now >= end {
        throw RedisError(
          .timeout, server,
          "The keys of the namespace were not all found within \(Self.sweepLimit). Some are removed. "
            + "Repeat the removal.")
      }
      let reply = try await node.send(
        RedisCommand("SCAN", cursor, "MATCH", pattern, "COUNT", 1000))
      guard let parts = reply.elements, parts.count == 2, let next = parts[0].text else {
        throw RedisError(.protocolViolation, server, "The answer to SCAN has another form.")
      }
      let found = (parts[1].elements ?? []).compactMap(\.bytes)
      _ = try await execute(found.map { RedisCommand("UNLINK", $0) })
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
    var arguments: [any RedisArgument] = [condition]
    if let write { arguments += [try await bytes(of: [write])[0], write.lifetime] }
    return try await execute([command(script, key, arguments)])[0].integer == 1
  }

  static func milliseconds(_ time: Duration) -> Int {
    Int(clamping: max(time.milliseconds, 1))
  }
}

extension RemoteWrite {
  /// The lifetime as scripts get it; zero without an end.
  fileprivate var lifetime: Int { entry.version.lifetime.map { Int(clamping: $0) } ?? 0 }
}
#endif
