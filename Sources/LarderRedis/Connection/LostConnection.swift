// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import NIOCore

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

// LOST CONNECTIONS
//
// A connection that is given up may have commands on their way to the server: in the system's queue, in the network, in
// a proxy, or read by the server and not executed yet. Their callers have an error, and go on: a later write, which the
// server acknowledges on the next connection, must not be replaced by one of them.
//
//   K1  Each connection has a number on the server (HELLO), and an address there (CLIENT INFO).
//   K2  A connection that has ended with commands without a reply is remembered by its client. The next one ends it on
//       the server as well, with CLIENT KILL by number and address, before its first command of a caller. The server
//       executes one command after the other: once it has replied to CLIENT KILL, it reads no more of that connection.
//       A server that was started again counts from one, and a Unix socket gives all connections one address: of
//       another run of the server (INFO) no connection is ended.
//   K3  The system discards the unsent bytes of a closed socket and resets the connection (SO_LINGER with a time of
//       zero), also when the process ends. Without it the system would go on sending for minutes.
//
// K2 is what proves that no such command is executed late. A user of the server without the right to CLIENT KILL and
// CLIENT INFO has K3 only, which leaves what is in the network or in a proxy. Another server, after a failover, has
// never had the commands of the connection.

/// The name of a connection on its server.
struct LostConnection: Sendable, Hashable {
  let server: RedisConfiguration.Address
  let number: Int
  /// The address of this end, as the server sees it.
  let address: String
  /// The run of the server, if its user may read that.
  let run: Substring?

  /// Reads the replies to HELLO, CLIENT INFO and INFO; `nil` if they have no number or no address.
  init?(
    _ server: RedisConfiguration.Address, hello: RedisValue, info: RedisValue,
    serverInfo: RedisValue
  ) {
    run = serverInfo.text?.split(whereSeparator: \.isNewline).first { $0.hasPrefix("run_id:") }
    let address = info.text?.split(whereSeparator: \.isWhitespace).first { $0.hasPrefix("addr=") }
    guard let number = hello["id"]?.integer, let address else { return nil }
    self.server = server
    self.number = number
    self.address = String(address.dropFirst("addr=".count))
  }

  /// The command that ends it on the server.
  var kill: RedisCommand { RedisCommand("CLIENT", "KILL", "ID", number, "ADDR", address) }

  /// Makes the system discard the unsent bytes of a channel when it is closed.
  static func discardUnsent(of channel: any Channel) {
    guard let socket = channel as? any SocketOptionProvider else { return }
    socket.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenFailure { _ in
      // A socket of the machine has no such queue.
    }
  }
}
#endif
