// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderSystem
internal import NIOCore
internal import NIOTLS

/// Reads the replies of a connection and watches its end. All calls are on the event loop of its channel.
final class RedisChannelHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let server: String
  private let configuration: RedisConfiguration
  private let pipeline: RedisPipeline
  private let onPush: @Sendable ([RedisValue]) -> Void
  private var decoder = RESPDecoder()
  private var received = ByteBuffer()
  private var context: ChannelHandlerContext?
  private var lastRead = NIODeadline.now()
  /// Whether TLS has been agreed on, or is not wanted.
  private var isSecure: Bool
  /// The time between two comparisons of the deadlines, while there are requests.
  private static let watchInterval = TimeAmount.milliseconds(20)

  init(
    _ configuration: RedisConfiguration, _ pipeline: RedisPipeline,
    onPush: @escaping @Sendable ([RedisValue]) -> Void
  ) {
    self.configuration = configuration
    self.pipeline = pipeline
    self.onPush = onPush
    server = "\(configuration.address)"
    isSecure = configuration.tls == nil
  }

  // MARK: Time limits and the end

  /// Compares the deadlines of requests from now on, while there are any.
  func watch() {
    context?.eventLoop.assumeIsolated().scheduleTask(in: Self.watchInterval) { [weak self] in
      self?.expire()
    }
  }

  private func expire() {
    let (expired, overdue, continues) = pipeline.expire(timeoutError)
    if let timeout = expired, !isSecure { return end(timeoutError(timeout)) }
    if let overdue {
      // Nothing has come for four times as long as an answer may take: the connection is dead. A command
      // with a longer time limit of its caller, such as BLPOP, has that time first.
      let silence = NIODeadline.now() - max(lastRead, overdue)
      if silence >= TimeAmount(configuration.timeout) * 4 {
        return end(
          RedisError(
            .connectionLost, server,
            "The server has sent nothing for \(silence.nanoseconds / 1_000_000) ms. Check the network."
          ))
      }
    }
    if continues { watch() }
  }

  private func timeoutError(_ timeout: TimeAmount) -> RedisError {
    let time = "\(timeout.nanoseconds / 1_000_000) ms"
    if isSecure {
      return RedisError(
        .timeout, server,
        "No answer within \(time). Whether the command was executed is not known. Check the server's "
          + "load with SLOWLOG GET and INFO.")
    }
    return RedisError(
      .tls, server,
      "TLS was not agreed on within \(time). If the port is one without TLS, use redis://.")
  }

  /// Closes the connection. Requests without a reply fail.
  func close() { end(RedisError(.closed, server, "The connection was closed. Connect again.")) }

  private func end(_ error: RedisError) {
    pipeline.refuse(error)
    context?.close(promise: nil)
  }

  // MARK: Events

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  func channelActive(context: ChannelHandlerContext) {
    // With TLS, the bytes of the socket are those of another handler. Without a writer, for example if no
    // descriptor is left, all commands go through the channel.
    if configuration.tls == nil {
      try? context.pipeline.syncOperations.withUnsafeTransportIfAvailable(
        of: NIOBSDSocket.Handle.self
      ) { pipeline.setWriter(try SocketWriter(of: $0)) }
    }
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var part = unwrapInboundIn(data)
    lastRead = .now()
    if received.readableBytes == 0 { received = part } else { received.writeBuffer(&part) }
    do {
      while pipeline.failure == nil, let message = try decoder.next(&received) { take(message) }
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
      guard pipeline.take(value) else {
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
    self.context = nil
    pipeline.end(
      RedisError(
        .connectionLost, server,
        "The server closed the connection. Whether it has executed commands without an answer is not "
          + "known."))
  }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }
}
#endif
