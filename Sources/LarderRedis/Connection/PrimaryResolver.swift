// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderEngine

// THE PRIMARY OF SENTINELS
//
// 1. Request the address of the primary from the sentinels, one after the other.
// 2. Connect to the address, and check with ROLE that the server is a master: a sentinel may not have
//    learned of a failover yet.
// 3. After a failure continue with the next sentinel; after the last one wait, and begin again, until
//    `connectTimeout`. If all sentinels lead to the same permanent error, throw it at once.
// 4. While the connection is open, request the address from all sentinels each second, with the epoch of
//    the configuration, which grows with each failover. Close the connection if the newest configuration
//    names another server. A primary that was stopped or isolated during a failover answers as a master
//    until the sentinels reconfigure it, which takes about ten seconds.

/// The sentinels of a configuration, which name a primary.
struct PrimaryResolver: Sendable {
  typealias Address = RedisConfiguration.Address

  /// The time between two comparisons of an open connection with the sentinels.
  static let period: Duration = .seconds(1)
  /// The least time for an attempt to connect that is not the first one.
  private static let leastTime: Duration = .milliseconds(30)

  private let configuration: RedisConfiguration
  private let sentinels: [RedisConfiguration.Endpoint]
  private let master: String

  /// The address that a sentinel names.
  private struct Answer {
    let address: Address
    /// The number of the failover that made the server the primary.
    let epoch: Int
  }

  /// Creates a resolver, or returns `nil` if the address is that of a server.
  init?(_ configuration: RedisConfiguration) {
    guard case .sentinels(let sentinels, let master) = configuration.address else { return nil }
    self.configuration = configuration
    self.sentinels = sentinels
    self.master = master
  }

  // MARK: Connecting

  /// Connects to the primary.
  func connect(
    ending lost: [LostConnection], _ onPush: @escaping @Sendable ([RedisValue]) -> Void
  ) async throws -> RedisConnection {
    guard !sentinels.isEmpty, !master.isEmpty else {
      throw RedisError(
        .invalidOption, "\(configuration.address)",
        "The address has no sentinel or no master name. Pass at least one sentinel and a name.")
    }
    let end = ContinuousClock.now + configuration.connectTimeout
    var failures = [RedisError?](repeating: nil, count: sentinels.count)
    while true {
      for index in sentinels.indices {
        try Task.checkCancellation()
        let left = end - .now
        // An attempt without time would replace the answer of an earlier one.
        guard left > (failures[index] == nil ? .zero : Self.leastTime) else {
          throw error(failures)
        }
        do {
          return try await connect(by: sentinels[index], within: left, ending: lost, onPush)
        } catch let error as RedisError {
          // A loss does not replace the answer of an earlier attempt.
          if !error.isLoss || failures[index]?.isLoss != false { failures[index] = error }
        }
      }
      let pause = Duration.milliseconds(Int.random(in: 50...100))
      let isPermanent = permanentCode(failures) != nil && answers(failures).count == failures.count
      if isPermanent || end - .now <= pause { throw error(failures) }
      try await BlockingWork.sleep(for: pause)
    }
  }

  /// Connects to the server that one sentinel names.
  private func connect(
    by sentinel: RedisConfiguration.Endpoint, within limit: Duration, ending lost: [LostConnection],
    _ onPush: @escaping @Sendable ([RedisValue]) -> Void
  ) async throws -> RedisConnection {
    let end = ContinuousClock.now + limit
    // Sentinels that do not answer leave time for the others and for the primary.
    let share = min(limit, configuration.connectTimeout / (sentinels.count + 1))
    let answer = try await answer(of: connection(to: sentinel, within: share), within: share)
    var options = configuration
    options.address = answer.address
    // A primary that does not answer leaves time for its successor.
    options.connectTimeout = max(min(end - .now, limit / 2), .milliseconds(1))
    let connection = try await RedisConnection.connect(
      to: options, ending: lost, onPush: onPush)
    do {
      let left = max(end - .now, .milliseconds(1))
      try await connection.confirm(configuration.address, timeout: left)
    } catch {
      await connection.close()
      throw error
    }
    watch(connection)
    return connection
  }

  // MARK: Sentinels

  private func connection(
    to sentinel: RedisConfiguration.Endpoint, within limit: Duration
  ) async throws -> RedisConnection {
    var options = RedisConfiguration(address: sentinel.address)
    options.user = configuration.sentinelUser
    options.password = configuration.sentinelPassword
    options.tls = configuration.tls
    options.name = configuration.name
    options.connectTimeout = limit
    return try await RedisConnection.connect(to: options)
  }

  /// Requests the address of the primary.
  private func answer(
    of sentinel: RedisConnection, within limit: Duration
  ) async throws -> Answer {
    let replies = try await sentinel.send(
      [
        RedisCommand("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master),
        RedisCommand("SENTINEL", "MASTER", master),
      ], timeout: limit)
    let (reply, state) = (replies[0], replies[1])
    let server = "\(sentinel.configuration.address)"
    if case .error(let error) = reply { throw RedisError.reply(error, from: server) }
    if reply == .null {
      throw RedisError(
        .unknownMaster, server,
        "The sentinel monitors no master \"\(master)\". Check the name in the URL and in the "
          + "configuration of the sentinel.")
    }
    let words = reply.elements?.map { $0.text ?? "" } ?? []
    guard words.count == 2, !words[0].isEmpty, let port = Int(words[1]) else {
      throw RedisError(
        .protocolViolation, server,
        "The answer to SENTINEL GET-MASTER-ADDR-BY-NAME is not an address. Check that a sentinel "
          + "listens there.")
    }
    let epoch = state["config-epoch"]?.text.flatMap { Int($0) } ?? 0
    return Answer(address: .host(words[0], port: port), epoch: epoch)
  }

  // MARK: Failovers

  /// Closes a connection after a sentinel has learned of another primary.
  private func watch(_ connection: RedisConnection) {
    let address = connection.configuration.address
    _ = BlockingWork.task { [weak connection] in
      var links = [RedisConnection?](repeating: nil, count: sentinels.count)
      while connection?.isOpen == true {
        let answers = await answers(&links)
        let newest = answers.map(\.epoch).max()
        let named = answers.filter { $0.epoch == newest }.map(\.address)
        if !named.isEmpty, !named.contains(address) {
          await connection?.close()
          return
        }
        guard (try? await BlockingWork.sleep(for: Self.period)) != nil else { return }
      }
    }
  }

  /// Requests the address of the primary from all sentinels.
  ///
  /// - Parameter links: The connections to the sentinels, which are made again if they were lost.
  private func answers(_ links: inout [RedisConnection?]) async -> [Answer] {
    await withTaskGroup(of: (Int, RedisConnection?, Answer?).self) { group in
      for (index, link) in links.enumerated() {
        group.addTask {
          do {
            let isOpen = link?.isOpen == true
            let link =
              if isOpen, let link { link } else {
                try await connection(to: sentinels[index], within: Self.period)
              }
            return (index, link, try await answer(of: link, within: Self.period))
          } catch {
            return (index, nil, nil)
          }
        }
      }
      var result: [Answer] = []
      for await (index, link, answer) in group {
        links[index] = link
        if let answer { result.append(answer) }
      }
      return result
    }
  }

  // MARK: Errors

  /// Returns the errors other than those of sentinels that cannot be reached.
  private func answers(_ failures: [RedisError?]) -> [RedisError] {
    zip(sentinels, failures).compactMap { sentinel, error in
      guard let error, error.server != "\(sentinel)" || !error.isLoss else { return nil }
      return error
    }
  }

  /// Returns the code of all answers if repetition cannot change it.
  private func permanentCode(_ failures: [RedisError?]) -> RedisError.Code? {
    let answers = answers(failures)
    guard let first = answers.first, !first.isLoss else { return nil }
    return answers.allSatisfy { $0.code == first.code } ? first.code : nil
  }

  /// Returns an error with the last answer of each sentinel.
  private func error(_ failures: [RedisError?]) -> RedisError {
    let texts = zip(sentinels, failures).map { sentinel, error in
      guard let error else { return "\(sentinel) was not queried." }
      if error.server == "\(sentinel)" { return "\(sentinel): \(error.message)" }
      return "\(sentinel) named \(error.server): \(error.message)"
    }
    let code = permanentCode(failures)
    return RedisError(
      code ?? .unreachable, "\(configuration.address)",
      "No connection to the primary of \"\(master)\". " + texts.joined(separator: " "),
      reply: code == nil ? nil : answers(failures).first?.reply)
  }
}

extension RedisConnection {
  /// Waits for the reply to a PING. With sentinels, checks in the same step that the server is a master: a
  /// replica also answers.
  ///
  /// - Parameters:
  ///   - address: The address to which the connection was requested.
  ///   - timeout: The longest wait for the replies.
  /// - Throws: ``RedisError``, with ``RedisError/Code/notMaster`` for a replica. `CancellationError`.
  package func confirm(
    _ address: RedisConfiguration.Address, timeout: Duration? = nil
  ) async throws {
    guard case .sentinels(_, let master) = address else {
      try await send(RedisCommand("PING"), timeout: timeout)
      return
    }
    let server = "\(configuration.address)"
    let replies = try await send([RedisCommand("ROLE"), RedisCommand("PING")], timeout: timeout)
    for case .error(let error) in replies { throw RedisError.reply(error, from: server) }
    let role = replies[0].elements?.first?.text ?? "unknown"
    if role == "master" { return }
    throw RedisError(
      .notMaster, server,
      "The role of the server is \(role), not that of the primary of \"\(master)\". Connect again; the "
        + "sentinels name the new primary after a failover.")
  }
}
#endif
