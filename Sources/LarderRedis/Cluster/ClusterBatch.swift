// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// Commands for the servers of a cluster, and the replies that have come.
struct ClusterBatch {
  /// The commands for one server.
  struct Group: Sendable {
    let node: RedisNode
    fileprivate(set) var commands: [RedisCommand] = []
    /// The index of the command of each reply; `nil` for replies that are for no caller.
    fileprivate(set) var indices: [Int?] = []
  }

  /// The server that a reply has named.
  private enum Redirection {
    case moved(RedisConfiguration.Address)
    case ask(RedisConfiguration.Address)
  }

  private let commands: [RedisCommand]
  /// The `WAIT` at the end, which goes to each server.
  private let wait: RedisCommand?
  private var replies: [RedisValue?]
  private var redirections: [Int: Redirection] = [:]
  /// The replies that name another server, of commands without another reply.
  private var refusals: [Int: RedisValue] = [:]
  private var attempts = 0
  /// The attempts that were not a wait for a change of the cluster, which the caller's limit ends.
  private var rounds = 0
  /// Whether a command has to wait until the cluster has changed.
  private var isBlocked = false
  /// Whether a reply shows that the map is old.
  private(set) var isOutdated = false
  private static let roundLimit = 8

  init(_ commands: [RedisCommand]) {
    self.commands = commands
    wait = commands.count > 1 ? commands.last.flatMap { $0.waitsForReplicas ? $0 : nil } : nil
    replies = [RedisValue?](repeating: nil, count: commands.count)
  }

  private var keyed: Range<Int> { 0..<(commands.count - (wait == nil ? 0 : 1)) }

  /// Whether all replies have come, and none is one after which a command is sent again.
  var isComplete: Bool { redirections.isEmpty && !isBlocked }
  var mayRepeat: Bool { rounds < Self.roundLimit }

  /// The time until the commands without a reply are sent again; `nil` if they are not.
  var pause: Duration? {
    guard mayRepeat else { return nil }
    return isBlocked || rounds > 3
      ? .milliseconds(Int.random(in: 10...20) << min(attempts, 5)) : .zero
  }

  /// The replies; those of commands that were not sent again are errors.
  var result: [RedisValue] { replies.indices.map { replies[$0] ?? refusals[$0] ?? .null } }

  /// Returns the commands that have to be sent, by server.
  mutating func groups(by map: ClusterMap, _ cluster: RedisCluster) throws -> [Group] {
    attempts += 1
    if !isBlocked { rounds += 1 }
    isBlocked = false
    var groups: [Group] = []
    for index in keyed where redirections[index] != nil || isAgain(index) {
      let (node, isAsking) = try node(of: index, map, cluster)
      var position = groups.firstIndex { $0.node === node }
      if position == nil {
        position = groups.count
        groups.append(Group(node: node))
      }
      if isAsking {
        groups[position!].commands.append(RedisCommand("ASKING"))
        groups[position!].indices.append(nil)
      }
      groups[position!].commands.append(commands[index])
      groups[position!].indices.append(index)
    }
    redirections = [:]
    guard let wait else { return groups }
    for position in groups.indices {
      groups[position].commands.append(wait)
      groups[position].indices.append(commands.count - 1)
    }
    return groups
  }

  /// Whether a command is sent again to the server of the map.
  private func isAgain(_ index: Int) -> Bool {
    if case .error(let error)? = replies[index] { return Self.isTemporary(error) }
    return replies[index] == nil
  }

  private func node(
    of index: Int, _ map: ClusterMap, _ cluster: RedisCluster
  ) throws -> (RedisNode, isAsking: Bool) {
    switch redirections[index] {
    case .moved(let address): return (cluster.node(at: address, isRedirection: true), false)
    case .ask(let address): return (cluster.node(at: address, isRedirection: true), true)
    case nil: break
    }
    let primary =
      if let key = commands[index].key { map.primary(of: RedisSlot.slot(of: key)) } else {
        map.primaries.randomElement()
      }
    if let primary { return (cluster.node(at: primary.address), false) }
    throw RedisError(
      .unreachable, "\(cluster.configuration.address)",
      "No server has the slot of a key. Check CLUSTER INFO on a server.")
  }

  /// Adds the replies of a server.
  mutating func take(_ values: [RedisValue], of group: Group) {
    var hasExecuted = false
    for (index, value) in zip(group.indices, values) {
      guard let index else { continue }
      if wait != nil, index == commands.count - 1 {
        if hasExecuted { takeWait(value) }
        continue
      }
      replies[index] = value
      guard case .error(let error) = value else {
        hasExecuted = true
        continue
      }
      let address = group.node.configuration.address
      switch error.code {
      case "MOVED":
        isOutdated = true
        redirect(index, address.redirection(error).map { .moved($0) })
      case "ASK": redirect(index, address.redirection(error).map { .ask($0) })
      default:
        if Self.isTemporary(error) {
          (isBlocked, isOutdated) = (true, true)
        } else {
          hasExecuted = true
        }
      }
    }
  }

  private mutating func redirect(_ index: Int, _ redirection: Redirection?) {
    guard let redirection else { return }
    redirections[index] = redirection
    refusals[index] = replies[index]
    replies[index] = nil
  }

  /// Adds the reply of a server to the `WAIT` at the end: the smallest number of replicas, or the first error.
  private mutating func takeWait(_ value: RedisValue) {
    switch (replies[commands.count - 1], value) {
    case (.error?, _): break
    case (.integer(let old)?, .integer(let new)):
      replies[commands.count - 1] = .integer(min(old, new))
    default: replies[commands.count - 1] = value
    }
  }

  private static func isTemporary(_ error: RedisReplyError) -> Bool {
    error.code == "TRYAGAIN" || error.code == "CLUSTERDOWN"
  }
}
#endif
