// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// A way to a server: one connection, or a client that makes connections.
public protocol RedisSender: Sendable {
  /// The server and the options.
  var configuration: RedisConfiguration { get }

  /// Sends commands at once and returns their replies, in their order.
  ///
  /// - Parameters:
  ///   - commands: The commands.
  ///   - timeout: The longest wait for the last reply; `nil` for that of the configuration.
  /// - Returns: The replies. That of a failed command is ``RedisValue/error(_:)``; the others are executed.
  /// - Throws: ``RedisError`` if a reply is missing. `CancellationError`.
  func send(_ commands: [RedisCommand], timeout: Duration?) async throws -> [RedisValue]
}

extension RedisSender {
  /// Sends a command and returns its reply.
  ///
  /// - Parameters:
  ///   - command: The command.
  ///   - timeout: The longest wait for the reply, instead of that of the configuration.
  /// - Returns: The reply.
  /// - Throws: ``RedisError``; ``RedisError/Code/command`` for an error reply. `CancellationError`: the
  ///   server executes the command nevertheless.
  @discardableResult
  public func send(_ command: RedisCommand, timeout: Duration? = nil) async throws -> RedisValue {
    let replies = try await send([command], timeout: timeout)
    if case .error(let error) = replies[0] {
      throw RedisError.reply(error, from: "\(configuration.address)")
    }
    return replies[0]
  }
}
#endif
