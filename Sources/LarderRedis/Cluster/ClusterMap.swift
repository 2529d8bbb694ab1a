// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderEngine

/// The primaries of a cluster and their slots, as one of its servers knows them.
struct ClusterMap: Sendable {
  /// A primary with slots.
  struct Primary: Sendable, Hashable {
    /// The name that the cluster has given it, which it keeps at another address.
    let id: String
    let address: RedisConfiguration.Address
  }

  let primaries: [Primary]
  /// The index of the primary of each slot, or `UInt16.max`.
  private(set) var owners = [UInt16](repeating: .max, count: RedisSlot.count)
  /// The number of the last election or move of a slot that the server has heard of.
  let epoch: Int
  /// Whether the server takes commands.
  let isOK: Bool

  /// A number for the set of primaries: equal for the same names. Stored, because each read of a cache has it.
  let servers: UInt64

  func primary(of slot: Int) -> Primary? {
    let index = Int(owners[slot])
    return index < primaries.count ? primaries[index] : nil
  }

  /// Whether each slot has the same primary.
  func hasOwners(of other: ClusterMap) -> Bool {
    if owners == other.owners, primaries.map(\.id) == other.primaries.map(\.id) { return true }
    return (0..<RedisSlot.count).allSatisfy { primary(of: $0)?.id == other.primary(of: $0)?.id }
  }

  /// The commands whose replies ``init(_:from:)`` reads.
  static let commands = [RedisCommand("CLUSTER", "INFO"), RedisCommand("CLUSTER", "SLOTS")]

  /// Reads a map.
  ///
  /// - Parameters:
  ///   - replies: The replies to ``commands``.
  ///   - address: The server, which may leave its own address out.
  init(_ replies: [RedisValue], from address: RedisConfiguration.Address) throws(RedisError) {
    let state = try ClusterState(replies[0], from: address)
    (epoch, isOK) = (state.epoch, state.isOK)
    if case .error(let error) = replies[1] { throw RedisError.reply(error, from: "\(address)") }
    var primaries: [Primary] = []
    for range in replies[1].elements ?? [] {
      guard let parts = range.elements, parts.count >= 3, let first = parts[0].integer,
        let last = parts[1].integer, first >= 0, first <= last, last < RedisSlot.count,
        let primary = Self.primary(parts[2], address), primaries.count < RedisSlot.count
      else {
        throw RedisError(
          .protocolViolation, "\(address)", "The answer to CLUSTER SLOTS has another form.")
      }
      var index = primaries.firstIndex(of: primary)
      if index == nil {
        index = primaries.count
        primaries.append(primary)
      }
      for slot in first...last { owners[slot] = UInt16(index!) }
    }
    self.primaries = primaries
    servers = RemoteName(primaries.map(\.id).sorted().joined(separator: " ")).hash
  }

  private static func primary(
    _ reply: RedisValue, _ address: RedisConfiguration.Address
  ) -> Primary? {
    guard let words = reply.elements, words.count >= 3, let port = words[1].integer,
      let id = words[2].text
    else { return nil }
    return Primary(id: id, address: address.sibling(host: words[0].text ?? "", port: port))
  }
}

/// The state of a cluster in the reply to `CLUSTER INFO`.
struct ClusterState {
  let epoch: Int
  let isOK: Bool

  init(_ reply: RedisValue, from address: RedisConfiguration.Address) throws(RedisError) {
    if case .error(let error) = reply {
      guard error.description.contains("cluster support disabled") else {
        throw RedisError.reply(error, from: "\(address)")
      }
      throw RedisError(
        .invalidOption, "\(address)",
        "The server belongs to no cluster. Use redis:// or rediss://.", reply: error)
    }
    var fields: [Substring: Substring] = [:]
    for line in (reply.text ?? "").split(whereSeparator: \.isNewline) {
      guard let colon = line.firstIndex(of: ":") else { continue }
      fields[line[..<colon]] = line[line.index(after: colon)...]
    }
    guard let epoch = fields["cluster_current_epoch"].flatMap({ Int($0) }) else {
      throw RedisError(
        .protocolViolation, "\(address)", "The answer to CLUSTER INFO has another form.")
    }
    self.epoch = epoch
    isOK = fields["cluster_state"] == "ok"
  }
}

extension RedisConfiguration.Address {
  /// Returns the address that a server has named.
  ///
  /// - Parameter host: The host; empty or `?` for that of the server.
  func sibling(host: String, port: Int) -> RedisConfiguration.Address {
    guard host.isEmpty || host == "?", case .host(let own, _) = self else {
      return .host(host, port: port)
    }
    return .host(own, port: port)
  }

  /// Reads the address in an error such as `MOVED 3999 10.0.0.1:6381`.
  func redirection(_ error: RedisReplyError) -> RedisConfiguration.Address? {
    let words = error.description.split(separator: " ")
    guard words.count >= 3, let colon = words[2].lastIndex(of: ":"),
      let port = Int(words[2][words[2].index(after: colon)...])
    else { return nil }
    return sibling(host: String(words[2][..<colon]), port: port)
  }
}
#endif
