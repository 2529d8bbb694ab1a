// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import NIOCore
internal import NIOPosix
internal import NIOSSL

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
    case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError:
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

extension RedisTLS {
  /// Reads the files.
  func context(_ server: String) throws(RedisError) -> NIOSSLContext {
    do {
      return try NIOSSLContext(configuration: configuration())
    } catch {
      throw RedisError(
        .tls, server, "The certificates or the key cannot be read: \(error). Check the paths.")
    }
  }

  private func configuration() throws -> TLSConfiguration {
    var configuration = TLSConfiguration.makeClientConfiguration()
    if let authorities { configuration.trustRoots = .file(authorities) }
    if let certificate, let key {
      configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(certificate)
        .map { .certificate($0) }
      configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: key, format: .pem))
    }
    return configuration
  }

  func handler(
    _ context: NIOSSLContext, _ address: RedisConfiguration.Address
  ) throws -> NIOSSLClientHandler {
    var name = serverName
    if name == nil, case .host(let host, _) = address { name = host }
    // The certificate of an IP address is checked against the address of the connection.
    if let host = name, (try? SocketAddress(ipAddress: host, port: 0)) != nil { name = nil }
    return try NIOSSLClientHandler(context: context, serverHostname: name)
  }
}
