// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import NIOCore
internal import NIOTLS

/// One or more commands that were sent together, and the replies that have come.
final class RedisRequest {
  let promise: EventLoopPromise<[RedisValue]>
  let id: UInt64
  private var missing: Int
  private var replies: [RedisValue] = []
  /// Whether its caller no longer waits. Its replies are still read, because replies have no names.
  private(set) var isAbandoned = false
  var timer: Scheduled<Void>?

  init(_ promise: EventLoopPromise<[RedisValue]>, id: UInt64, commands: Int) {
    self.promise = promise
    self.id = id
    missing = commands
  }

  /// Adds a reply.
  ///
  /// - Returns: Whether it was the last one.
  func add(_ reply: RedisValue) -> Bool {
    missing -= 1
    if !isAbandoned { replies.append(reply) }
    guard missing == 0 else { return false }
    timer?.cancel()
    if !isAbandoned { promise.succeed(replies) }
    return true
  }

  func abandon(_ error: any Error) {
    guard !isAbandoned else { return }
    isAbandoned = true
    replies = []
    timer?.cancel()
    promise.fail(error)
  }
}

/// Sends commands and gives replies to the callers in the order of the commands. All calls are on the
/// event loop of its channel.
final class RedisChannelHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let server: String
  private let configuration: RedisConfiguration
  private let onPush: @Sendable ([RedisValue]) -> Void
  private var decoder = RESPDecoder()
  private var received = ByteBuffer()
  private var pending = CircularBuffer<RedisRequest>()
  private var pendingCommands = 0
  private var context: ChannelHandlerContext?
  private var lastRead = NIODeadline.now()
  private var nextID: UInt64 = 0
  /// The reason of the end, before the connection has ended.
  private var failure: RedisError?
  private var isClosed = false
  /// Whether TLS has been agreed on, or is not wanted.
  private var isSecure: Bool

  init(_ configuration: RedisConfiguration, onPush: @escaping @Sendable ([RedisValue]) -> Void) {
    self.configuration = configuration
    self.onPush = onPush
    server = "\(configuration.address)"
    isSecure = configuration.tls == nil
  }

  // MARK: Requests

  /// Sends commands.
  ///
  /// - Returns: The number of the request, for ``abandon(_:_:)``; zero if it was refused.
  func send(
    _ commands: ByteBuffer, count: Int, within timeout: TimeAmount,
    _ promise: EventLoopPromise<[RedisValue]>
  ) -> UInt64 {
    guard let context, !isClosed, failure == nil else {
      promise.fail(failure ?? closed)
      return 0
    }
    guard pendingCommands + count <= configuration.pendingLimit else {
      promise.fail(
        RedisError(
          .overloaded, server,
          "\(pendingCommands) commands wait for an answer. Wait before sending more, or raise "
            + "pendingLimit."))
      return 0
    }
    nextID += 1
    let request = RedisRequest(promise, id: nextID, commands: count)
    pending.append(request)
    pendingCommands += count
    let id = nextID
    request.timer = context.eventLoop.assumeIsolated().scheduleTask(in: timeout) { [weak self] in
      self?.timeOut(id, after: timeout)
    }
    context.writeAndFlush(wrapOutboundOut(commands), promise: nil)
    return nextID
  }

  /// Fails a request whose caller no longer waits.
  func abandon(_ id: UInt64, _ error: any Error) {
    // The requests of the queue have consecutive numbers.
    guard let first = pending.first, id >= first.id, id - first.id < UInt64(pending.count) else {
      return
    }
    pending[pending.index(pending.startIndex, offsetBy: Int(id - first.id))].abandon(error)
  }

  private func timeOut(_ id: UInt64, after timeout: TimeAmount) {
    let time = "\(timeout.nanoseconds / 1_000_000) ms"
    guard isSecure else {
      return end(
        RedisError(
          .tls, server,
          "TLS was not agreed on within \(time). If the port is one without TLS, use redis://."))
    }
    abandon(
      id,
      RedisError(
        .timeout, server,
        "No answer within \(time). Whether the command was executed is not known. Check the server's "
          + "load with SLOWLOG GET and INFO."))
    // Nothing has come for four times as long as an answer may take: the connection is dead.
    let silence = NIODeadline.now() - lastRead
    if silence >= TimeAmount(configuration.timeout) * 4 {
      end(
        RedisError(
          .connectionLost, server,
          "The server has sent nothing for \(silence.nanoseconds / 1_000_000) ms. Check the network."
        ))
    }
  }

  /// Closes the connection. Requests without a reply fail.
  func close() { end(closed) }

  private var closed: RedisError {
    RedisError(.closed, server, "The connection was closed. Connect again.")
  }

  private func end(_ error: RedisError) {
    if failure == nil { failure = error }
    context?.close(promise: nil)
  }

  // MARK: Events

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var part = unwrapInboundIn(data)
    lastRead = .now()
    if received.readableBytes == 0 { received = part } else { received.writeBuffer(&part) }
    do {
      while failure == nil, let message = try decoder.next(&received) { take(message) }
    } catch {
      end(
        RedisError(
          .protocolViolation, server,
          "The answer is not RESP3: \(error.reason). Check that a Redis server listens there."))
    }
    received.discardReadBytes()
  }

  private func take(_ message: RESPDecoder.Message) {
    switch message {
    case .push(let values): onPush(values)
    case .reply(let value):
      guard let request = pending.first else {
        if case .error(let refusal) = value {
          // Servers refuse connections so: too many clients, protected mode.
          return end(
            RedisError(
              .unreachable, server, "The server refused the connection: \"\(refusal)\".",
              reply: refusal))
        }
        return end(
          RedisError(.protocolViolation, server, "The server sent an answer to no command."))
      }
      pendingCommands -= 1
      if request.add(value) { pending.removeFirst() }
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case .handshakeCompleted? = event as? TLSUserEvent { isSecure = true }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    end(RedisFailure.error(error, server, isConnecting: false))
  }

  func channelInactive(context: ChannelHandlerContext) {
    isClosed = true
    self.context = nil
    let error =
      failure
      ?? RedisError(
        .connectionLost, server,
        "The server closed the connection. Whether it has executed commands without an answer is not "
          + "known.")
    failure = error
    while let request = pending.popFirst() { request.abandon(error) }
    pendingCommands = 0
  }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }
}
