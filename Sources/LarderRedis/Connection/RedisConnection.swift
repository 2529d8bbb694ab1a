// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A connection to one server of Redis or Valkey, over RESP3.
///
/// ```swift
/// let connection = try await RedisConnection.connect(
///   to: RedisConfiguration(url: "redis://localhost"))
/// try await connection.send(RedisCommand("SET", "greeting", "Hello", "PX", 60_000))
/// let text = try await connection.send(RedisCommand("GET", "greeting")).text
/// await connection.close()
/// ```
///
/// Any number of tasks may send at the same time; the commands go to the server at once, one after the
/// other, and each caller gets its own reply. A command is sent once: after a timeout or a lost connection it
/// is not repeated, because the server may have executed it. A connection that is lost stays lost; connect
/// again.
public final class RedisConnection: RedisSender {
  private let channel: any Channel
  private let handler: NIOLoopBound<RedisChannelHandler>
  private let pipeline: RedisPipeline
  /// The name of the connection on the server.
  private let identity = Mutex<LostConnection?>(nil)
  /// The options, with the address of the server, also if sentinels have named it.
  public let configuration: RedisConfiguration

  private init(
    _ channel: any Channel, _ created: (NIOLoopBound<RedisChannelHandler>, RedisPipeline),
    _ configuration: RedisConfiguration
  ) {
    self.channel = channel
    (handler, pipeline) = created
    self.configuration = configuration
  }

  deinit { channel.close(promise: nil) }

  // MARK: Connecting

  /// Connects to a server, with RESP3, the password and the database of the configuration. With sentinels the
  /// server is the primary that they name.
  ///
  /// - Parameters:
  ///   - configuration: The address and the options.
  ///   - onPush: A closure that gets the messages that answer no command, such as
  ///     invalidations, in their order among the replies. It runs on the thread of the connection, and must
  ///     not wait.
  /// - Throws: ``RedisError``: ``RedisError/Code/unreachable``, ``RedisError/Code/tls``,
  ///   ``RedisError/Code/authentication``, ``RedisError/Code/permission``,
  ///   ``RedisError/Code/unsupportedServer``, ``RedisError/Code/timeout``; with sentinels also
  ///   ``RedisError/Code/unknownMaster``. `CancellationError`.
  public static func connect(
    to configuration: RedisConfiguration,
    onPush: @escaping @Sendable ([RedisValue]) -> Void = { _ in }
  ) async throws -> RedisConnection {
    try await connect(to: configuration, ending: [], onPush: onPush)
  }

  /// Connects to a server, which executes no command of lost connections to it from then on.
  static func connect(
    to configuration: RedisConfiguration, ending lost: [LostConnection],
    onPush: @escaping @Sendable ([RedisValue]) -> Void = { _ in }
  ) async throws -> RedisConnection {
    if let resolver = PrimaryResolver(configuration) {
      return try await resolver.connect(ending: lost, onPush)
    }
    let server = "\(configuration.address)"
    if case .cluster = configuration.address {
      throw RedisError(
        .invalidOption, server, "A connection is to one server. Use a RedisClient for a cluster.")
    }
    let end = ContinuousClock.now.advanced(by: configuration.connectTimeout)
    let connection: RedisConnection
    do {
      connection = try await open(configuration, onPush)
    } catch {
      throw RedisFailure.error(error, server, isConnecting: true)
    }
    do {
      try Task.checkCancellation()
      try await connection.greet(ending: lost, within: max(end - .now, .milliseconds(1)))
      return connection
    } catch {
      await connection.close()
      throw error
    }
  }

  private static func open(
    _ configuration: RedisConfiguration, _ onPush: @escaping @Sendable ([RedisValue]) -> Void
  ) async throws -> RedisConnection {
    let secure = try configuration.tls.map {
      try RedisTLSContext($0, server: "\(configuration.address)")
    }
    let created = Created()
    let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connectTimeout(TimeAmount(configuration.connectTimeout))
      .channelOption(.socketOption(.so_keepalive), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let operations = channel.pipeline.syncOperations
          if let secure {
            try secure.addHandler(to: operations, configuration.address)
          }
          let pipeline = RedisPipeline(configuration)
          let handler = RedisChannelHandler(configuration, pipeline, onPush: onPush)
          created.handlers.withLock {
            // Of several addresses, each has a channel.
            $0[ObjectIdentifier(channel)] = (
              NIOLoopBound(handler, eventLoop: channel.eventLoop), pipeline
            )
          }
          try operations.addHandler(handler)
        }
      }
    let channel: any Channel
    switch configuration.address {
    case .host(let host, let port):
      channel = try await bootstrap.connect(host: host, port: port).get()
    case .unixSocket(let path):
      channel = try await bootstrap.connect(unixDomainSocketPath: path).get()
    case .sentinels, .cluster: throw ChannelError.operationUnsupported
    }
    if case .host = configuration.address { LostConnection.discardUnsent(of: channel) }
    let parts = created.handlers.withLock { $0[ObjectIdentifier(channel)]! }
    return RedisConnection(channel, parts, configuration)
  }

  /// The handlers of channels, with the commands that they read the replies to.
  private final class Created: Sendable {
    let handlers = Mutex<[ObjectIdentifier: (NIOLoopBound<RedisChannelHandler>, RedisPipeline)]>(
      [:])
  }

  /// Chooses RESP3, the user and the database, and ends lost connections.
  private func greet(ending lost: [LostConnection], within timeout: Duration) async throws {
    var arguments: [any RedisArgument] = [3]
    if let password = configuration.password {
      arguments += ["AUTH", configuration.user ?? "default", password]
    }
    arguments += ["SETNAME", configuration.name]
    let server = "\(configuration.address)"
    do {
      let hello = try await send(RedisCommand("HELLO", arguments), timeout: timeout)
      guard hello["proto"]?.integer == 3 else {
        throw RedisError(
          .unsupportedServer, server,
          "The server does not speak RESP3. Use Redis 6 or newer, or Valkey.")
      }
      // The server may refuse these to the user: see `LostConnection.swift`.
      let replies = try await send(
        [RedisCommand("CLIENT", "INFO"), RedisCommand("INFO", "server")], timeout: timeout)
      let found = LostConnection(
        configuration.address, hello: hello, info: replies[0], serverInfo: replies[1])
      identity.withLock { $0 = found }
      let ended = lost.filter { $0.server == configuration.address && $0.run == found?.run }
      _ = try await send(ended.map(\.kill), timeout: timeout)
      if configuration.database != 0 {
        try await send(RedisCommand("SELECT", configuration.database), timeout: timeout)
      }
    } catch let error as RedisError {
      throw explained(error)
    }
  }

  /// Adds the meaning of an error at the beginning of a connection.
  private func explained(_ error: RedisError) -> RedisError {
    let text = error.reply?.description ?? ""
    if error.code == .command, text.contains("unknown command") {
      return RedisError(
        .unsupportedServer, error.server,
        "The server answered \"\(text)\" to HELLO. Use Redis 6 or newer, or Valkey.",
        reply: error.reply)
    }
    if error.code == .command, text.hasPrefix("DENIED") || text.contains("max number of clients") {
      return RedisError(
        .unreachable, error.server, "The server refused the connection: \"\(text)\".",
        reply: error.reply)
    }
    if error.code == .command, text.contains("AUTH") {
      return RedisError(
        .authentication, error.server,
        "The server answered \"\(text)\". Remove the password, or set it in the server.",
        reply: error.reply)
    }
    if error.code == .connectionLost, configuration.tls == nil {
      return RedisError(
        .connectionLost, error.server,
        "The server closed the connection at once. If the port is one for TLS, use rediss://.")
    }
    return error
  }

  // MARK: Commands

  /// Sends commands at once and returns their replies, in their order.
  ///
  /// The server executes them one after the other; commands of other connections can come between them.
  ///
  /// - Parameters:
  ///   - commands: The commands.
  ///   - timeout: The longest wait for the last reply.
  /// - Returns: The replies. That of a failed command is ``RedisValue/error(_:)``; the others are executed.
  /// - Throws: ``RedisError`` if a reply is missing. `CancellationError`.
  public func send(
    _ commands: [RedisCommand], timeout: Duration? = nil
  ) async throws -> [RedisValue] {
    if commands.isEmpty { return [] }
    try Task.checkCancellation()
    var bytes = commands[0].bytes
    if commands.count > 1 {
      bytes.reserveCapacity(commands.reduce(0) { $0 + $1.bytes.count })
      for command in commands.dropFirst() { bytes += command.bytes }
    }
    let limit = TimeAmount(timeout ?? configuration.timeout)
    let request = RequestNumber()
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { caller in
        let number = pipeline.send(
          bytes, commands: commands.count, within: limit, caller, on: channel
        ) { [handler] in handler.value.watch() }
        request.value.store(number, ordering: .releasing)
        // The cancellation handler may have run before.
        if Task.isCancelled { pipeline.abandon(number, CancellationError()) }
      }
    } onCancel: {
      pipeline.abandon(request.value.load(ordering: .acquiring), CancellationError())
    }
  }

  /// The number of a request, or zero before it was sent.
  private final class RequestNumber: Sendable { let value = Atomic<UInt64>(0) }

  // MARK: The end

  /// Calls a function after the end of the connection, on the thread of the connection.
  func onEnd(_ body: @escaping @Sendable () -> Void) {
    channel.closeFuture.whenComplete { _ in body() }
  }

  /// The name of the connection on the server, which may still execute commands without a reply; else `nil`.
  var lost: LostConnection? { pipeline.isUnanswered ? identity.withLock { $0 } : nil }

  /// Whether commands can be sent.
  public var isOpen: Bool { channel.isActive }

  /// Closes the connection. Commands without a reply fail with ``RedisError/Code/closed``.
  public func close() async {
    let handler = handler
    channel.eventLoop.execute { handler.value.close() }
    try? await channel.closeFuture.get()
  }
}
#endif
