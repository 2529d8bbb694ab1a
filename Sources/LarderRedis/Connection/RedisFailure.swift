// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderSystem
internal import NIOCore
internal import NIOPosix

/// Errors of the network in the terms of ``RedisError``.
enum RedisFailure {
  private static func text(of error: any Error) -> String {
    switch error {
    case let error as IOError: SystemError.message(for: error.errnoCode)
    case is SocketAddressError.UnknownHost, is SocketAddressError: "the host has no address"
    default: "\(error)"
    }
  }

  /// Returns the error for one of the network.
  ///
  /// - Parameter isConnecting: Whether nothing was sent yet.
  static func error(_ error: any Error, _ server: String, isConnecting: Bool) -> RedisError {
    switch error {
    case let error as RedisError: return error
    case let error as NIOConnectionError:
      let reasons = error.connectionErrors.map { text(of: $0.error) }
      let lookup = [error.dnsAError, error.dnsAAAAError].compactMap { $0.map { text(of: $0) } }
      return RedisError(
        .unreachable, server,
        "No connection: \(Set(reasons + lookup).sorted().joined(separator: "; ")). Check that the server runs and that "
          + "its port is open.")
    case ChannelError.connectTimeout(let time):
      return RedisError(
        .unreachable, server,
        "No connection within \(time.nanoseconds / 1_000_000) ms. Check the network and the firewall."
      )
    case let error where RedisTLSContext.isFailure(error):
      return RedisError(
        .tls, server,
        "TLS failed: \(error). Check the authorities, the certificate and the host of the URL, and "
          + "that the port is the one for TLS.")
    case is CancellationError:
      return RedisError(.closed, server, "The attempt was cancelled.")
    default:
      return RedisError(
        isConnecting ? .unreachable : .connectionLost, server,
        isConnecting
          ? "No connection: \(text(of: error)). Check that the server runs and that its port is open."
          : "The connection failed: \(text(of: error)). Whether commands without an answer were executed is "
            + "not known.")
    }
  }
}
#endif
