// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import LarderTesting
import NIOCore
import NIOPosix
import Synchronization

/// A socket in front of a server, which can hold back what the server or the client sends on some connections.
final class RedisProxy: Sendable {
  private let directory: TemporaryDirectory
  private let listener: any Channel
  private let links = Links()

  /// Starts to forward connections to a server.
  init(_ server: RedisServer) async throws {
    directory = try TemporaryDirectory()
    let target = server.directory.appending("socket")
    listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { [links] client in
        ClientBootstrap(group: client.eventLoop).connect(unixDomainSocketPath: target).flatMap {
          server in
          client.eventLoop.makeCompletedFuture {
            let link = Link(client, server)
            links.add(link)
            try client.pipeline.syncOperations.addHandler(Forwarder(to: server, link, .request))
            try server.pipeline.syncOperations.addHandler(Forwarder(to: client, link, .reply))
          }
        }
      }
      .bind(unixDomainSocketPath: directory.appending("socket")).get()
  }

  deinit { listener.close(promise: nil) }

  /// The options of a client whose connections have a name.
  func socket(_ name: String) -> RedisConfiguration {
    var result = RedisConfiguration(
      address: .unixSocket(path: directory.appending("socket")))
    result.name = name
    result.connectTimeout = .seconds(60)
    result.timeout = .seconds(60)
    return result
  }

  /// Holds back what the server sends on the connections with a name.
  func hold(_ name: String) { links.named(name).forEach { $0.hold() } }
  /// Sends what was held back.
  func release(_ name: String) { links.named(name).forEach { $0.release() } }
  /// The number of parts that are held back.
  func heldParts(_ name: String) -> Int { links.named(name).reduce(0) { $0 + $1.heldParts } }

  /// Holds back what is sent to the server on the present connections with a name, also after the client has closed them.
  func holdRequests(_ name: String) { links.named(name).forEach { $0.holdRequests() } }
  /// The number of parts that are held back on their way to the server.
  func heldRequests(_ name: String) -> Int {
    links.named(name).reduce(0) { $0 + $1.heldRequests }
  }
  /// Sends what was held back, and closes the connections whose clients have closed them.
  func releaseRequests(_ name: String) { links.named(name).forEach { $0.releaseRequests() } }

  private final class Links: Sendable {
    private let all = Mutex<[Link]>([])
    func add(_ link: Link) { all.withLock { $0.append(link) } }
    func named(_ name: String) -> [Link] { all.withLock { $0.filter { $0.name == name } } }
  }

  /// A connection of a client, and that to the server.
  private final class Link: Sendable {
    private struct State {
      var name: String?
      var isHeld = false
      var parts: [ByteBuffer] = []
      var holdsRequests = false
      var requests: [ByteBuffer] = []
      var hasEnded = false
    }

    private let client: any Channel
    private let server: any Channel
    private let state = Mutex(State())

    init(_ client: any Channel, _ server: any Channel) {
      (self.client, self.server) = (client, server)
    }

    var heldRequests: Int { state.withLock { $0.requests.count } }
    func holdRequests() { state.withLock { $0.holdsRequests = true } }

    func releaseRequests() {
      let (requests, hasEnded) = state.withLock { state in
        state.holdsRequests = false
        defer { state.requests = [] }
        return (state.requests, state.hasEnded)
      }
      for request in requests { server.write(request, promise: nil) }
      server.flush()
      if hasEnded { server.close(promise: nil) }
    }

    /// Returns whether bytes of the client are passed on at once.
    func passesRequest(_ bytes: ByteBuffer) -> Bool {
      state.withLock { state in
        if state.holdsRequests { state.requests.append(bytes) }
        return !state.holdsRequests
      }
    }

    /// Returns whether the end of the client's connection is passed on at once.
    func passesEnd() -> Bool {
      state.withLock { state in
        state.hasEnded = true
        return !state.holdsRequests
      }
    }

    var name: String? { state.withLock { $0.name } }
    var heldParts: Int { state.withLock { $0.parts.count } }
    func hold() { state.withLock { $0.isHeld = true } }

    func release() {
      let parts = state.withLock { state in
        state.isHeld = false
        defer { state.parts = [] }
        return state.parts
      }
      for part in parts { client.writeAndFlush(part, promise: nil) }
    }

    /// Returns whether bytes of the server are passed on at once.
    func passes(_ bytes: ByteBuffer) -> Bool {
      state.withLock { state in
        if state.isHeld { state.parts.append(bytes) }
        return !state.isHeld
      }
    }

    /// Takes the name from the first command.
    func read(_ request: ByteBuffer) {
      let words = String(buffer: request).split(separator: "\r\n")
      guard let index = words.firstIndex(of: "SETNAME"), index + 2 < words.count else { return }
      state.withLock { $0.name = String(words[index + 2]) }
    }
  }

  /// Sends what comes on one connection on the other one.
  private final class Forwarder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    enum Direction { case request, reply }

    private let target: any Channel
    private let link: Link
    private let direction: Direction

    init(to target: any Channel, _ link: Link, _ direction: Direction) {
      (self.target, self.link, self.direction) = (target, link, direction)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let bytes = unwrapInboundIn(data)
      if direction == .request, link.name == nil { link.read(bytes) }
      if direction == .request ? link.passesRequest(bytes) : link.passes(bytes) {
        target.writeAndFlush(bytes, promise: nil)
      }
    }

    func channelInactive(context: ChannelHandlerContext) {
      if direction == .reply || link.passesEnd() { target.close(promise: nil) }
    }
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      context.close(promise: nil)
    }
  }
}
#endif
