// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOExtras
import NIOPosix
import ServiceLifecycle

/// A server of HTTP whose port other processes use too.
///
/// Each process listens with SO_REUSEPORT, and on Linux the kernel distributes new connections among
/// them. Hummingbird's `Application` does not set this option of a socket; use it in place of this type
/// if each process has its own port, behind a proxy. On macOS one of the processes gets all connections.
struct SharedPortServer<Responder: HTTPResponder>: Service
where Responder.Context: InitializableFromSource<ApplicationRequestContextSource> {
  let responder: Responder
  let port: Int
  let logger: Logger

  func run() async throws {
    let group = MultiThreadedEventLoopGroup.singleton
    let http = HTTP1Channel(responder: respond)
    let quiescing = ServerQuiescingHelper(group: group)
    let server = try await ServerBootstrap(group: group)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelOption(.socketOption(.reusePort), value: 1)
      .serverChannelOption(.backlog, value: 256)
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      .serverChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(
            quiescing.makeServerChannelHandler(channel: channel))
        }
      }
      .bind(host: "127.0.0.1", port: port) { connection in
        http.setup(channel: connection, logger: logger)
      }
    say("worker \(getpid()): listening")
    try await withGracefulShutdownHandler {
      try await withThrowingDiscardingTaskGroup { connections in
        try await server.executeThenClose { accepted in
          for try await connection in accepted {
            connections.addTask { await http.handle(value: connection, logger: logger) }
          }
        }
      }
    } onGracefulShutdown: {
      // No new connections; those that exist end after the request that they are in.
      quiescing.initiateShutdown(promise: nil)
    }
  }

  @Sendable private func respond(
    _ request: Request, _ writer: consuming ResponseWriter, _ channel: any Channel
  ) async throws {
    let context = Responder.Context(source: .init(channel: channel, logger: logger))
    var response: Response
    do {
      response = try await responder.respond(to: request, context: context)
    } catch {
      logger.error("\(request.method) \(request.uri): \(error)")
      response = Response(status: .internalServerError)
    }
    try await writer.write(response: response.head, body: response.body)
  }
}

extension NIOBSDSocket.Option {
  /// SO_REUSEPORT: several sockets listen to one port, if all of them set it and are of one user.
  static var reusePort: Self { Self(rawValue: SO_REUSEPORT) }
}
