// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderEngine
internal import Synchronization

/// A server, with a connection that is made when it is needed, and made again after it was lost.
///
/// A command is sent at most once. A time limit of the caller is that of the connection and the replies together;
/// without one, each has that of the configuration. After five failures in a row, which may be timeouts, commands fail at once
/// for about a second; then they are sent, until the next failure.
final class RedisNode: RedisSender {
  private struct State {
    var connection: RedisConnection?
    var attempt: Task<RedisConnection, any Error>?
    /// Failures since the last reply.
    var failures = 0
    var blockedUntil: ContinuousClock.Instant?
    var lastError: RedisError?
    var isClosed = false
    /// The connections that ended before all replies came, until the server has ended them too.
    var lost: [LostConnection] = []
    var onEnd: (@Sendable () -> Void)?
  }

  let configuration: RedisConfiguration
  private let state = Mutex(State())

  private static let tolerated = 5
  private static let pause = 0.7...1.3

  init(_ configuration: RedisConfiguration, isClosed: Bool = false) {
    self.configuration = configuration
    state.withLock { $0.isClosed = isClosed }
  }

  deinit { state.withLock { $0.attempt?.cancel() } }

  func send(_ commands: [RedisCommand], timeout: Duration? = nil) async throws -> [RedisValue] {
    if commands.isEmpty { return [] }
    try admit()
    do {
      let start = ContinuousClock.now
      let connection = try await connection(
        until: start + (timeout ?? configuration.connectTimeout + .seconds(1)))
      let replies = try await connection.send(
        commands, timeout: timeout.map { max($0 - (.now - start), .milliseconds(1)) })
      if replies.contains(where: \.isReadOnly) { retire(connection) }
      state.withLock { state in
        state.failures = 0
        state.blockedUntil = nil
      }
      return replies
    } catch let error as RedisError {
      note(error)
      throw error
    }
  }

  func close() async {
    let (connection, attempt) = state.withLock { state in
      state.isClosed = true
      defer { (state.connection, state.attempt) = (nil, nil) }
      return (state.connection, state.attempt)
    }
    attempt?.cancel()
    await connection?.close()
  }

  /// Sets the function that runs after the end of each connection.
  func onEnd(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.onEnd = body } }

  // MARK: Steps

  private func admit() throws {
    let server = "\(configuration.address)"
    try state.withLock { state in
      if state.isClosed {
        throw RedisError(.closed, server, "The client was closed. Create another one.")
      }
      guard let end = state.blockedUntil else { return }
      guard end <= .now else {
        throw RedisError(
          .unreachable, server,
          "Not asked, because the last \(state.failures) attempts failed; the next is in "
            + "\((end - .now).formattedMilliseconds). The last failure: "
            + (state.lastError?.message ?? "unknown"))
      }
      // All of them: if one is sent alone, the others fail although the server is back.
      state.blockedUntil = nil
    }
  }

  private func connection(
    until end: ContinuousClock.Instant
  ) async throws -> RedisConnection {
    let configuration = configuration
    let attempt = state.withLock { state -> Task<RedisConnection, any Error>? in
      if let connection = state.connection {
        if connection.isOpen { return nil }
        if let lost = connection.lost { state.lost.append(lost) }
      }
      state.connection = nil
      if let attempt = state.attempt { return attempt }
      let lost = state.lost
      let attempt = BlockingWork.task { [weak self] in
        do {
          let connection = try await RedisConnection.connect(to: configuration, ending: lost)
          if self?.adopt(connection) != true { await connection.close() }
          return connection
        } catch {
          self?.adopt(nil)
          throw error
        }
      }
      state.attempt = attempt
      return attempt
    }
    let server = "\(configuration.address)"
    guard let attempt else {
      if let connection = state.withLock({ $0.connection }) { return connection }
      throw RedisError(.closed, server, "The client was closed.")
    }
    // If this caller is cancelled, the attempt continues for the others.
    return try await SharedWait.value(
      of: attempt, until: end,
      RedisError(.unreachable, server, "The connection was not made in time."))
  }

  /// Ends the attempt to connect.
  ///
  /// - Returns: Whether the connection is that of the client from now on.
  @discardableResult
  private func adopt(_ connection: RedisConnection?) -> Bool {
    state.withLock { state in
      // The attempt of a closed client was taken from it.
      if state.isClosed { return false }
      state.attempt = nil
      state.connection = connection
      if let connection {
        state.lost.removeAll { $0.server == connection.configuration.address }
      }
      if let connection, let onEnd = state.onEnd { connection.onEnd(onEnd) }
      return true
    }
  }

  /// Leaves a connection to the callers that wait for its replies. It closes after the last one.
  private func retire(_ connection: RedisConnection) {
    state.withLock { state in
      if state.connection === connection { state.connection = nil }
    }
  }

  private func note(_ error: RedisError) {
    guard error.isLoss else { return }
    state.withLock { state in
      state.failures += 1
      state.lastError = error
      if state.failures >= Self.tolerated {
        // Not all clients at the same time.
        state.blockedUntil = .now + .seconds(Double.random(in: Self.pause))
      }
    }
  }
}

extension RedisError {
  /// Whether the command could not be sent, or has no reply.
  var isLoss: Bool {
    switch code {
    case .unreachable, .connectionLost, .closed, .timeout, .overloaded, .notMaster, .clusterChanged:
      true
    case .command:
      [
        "LOADING", "OOM", "MISCONF", "BUSY", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN", "READONLY",
        "MOVED", "ASK",
      ]
      .contains(reply?.code)
    default: false
    }
  }
}

extension RedisValue {
  /// Whether the value is the error of a write to a replica.
  fileprivate var isReadOnly: Bool {
    if case .error(let error) = self { error.code == "READONLY" } else { false }
  }
}

extension Duration {
  var formattedMilliseconds: String {
    "\(components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000) ms"
  }
}
#endif
