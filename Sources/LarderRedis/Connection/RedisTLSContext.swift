// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import NIOCore

// The only file that imports NIOSSL, which is two thirds of the build of this product: BoringSSL's C. It is there
// with the trait RedisTLS. Without it a configuration with TLS is a typed error before anything is sent.

#if RedisTLS
internal import NIOSSL

/// The authorities, certificate and key of a ``RedisTLS``, read from their files.
struct RedisTLSContext {
  private let context: NIOSSLContext
  private let serverName: String?

  /// Reads the files.
  init(_ tls: RedisTLS, server: String) throws(RedisError) {
    do {
      context = try NIOSSLContext(configuration: Self.configuration(tls))
    } catch {
      throw RedisError(
        .tls, server, "The certificates or the key cannot be read: \(error). Check the paths.")
    }
    serverName = tls.serverName
  }

  private static func configuration(_ tls: RedisTLS) throws -> TLSConfiguration {
    var configuration = TLSConfiguration.makeClientConfiguration()
    if let authorities = tls.authorities { configuration.trustRoots = .file(authorities) }
    if let certificate = tls.certificate, let key = tls.key {
      configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(certificate)
        .map { .certificate($0) }
      configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: key, format: .pem))
    }
    return configuration
  }

  /// Adds the handler that encrypts a connection.
  func addHandler(
    to operations: ChannelPipeline.SynchronousOperations, _ address: RedisConfiguration.Address
  ) throws {
    var name = serverName
    if name == nil, case .host(let host, _) = address { name = host }
    // The certificate of an IP address is checked against the address of the connection.
    if let host = name, (try? SocketAddress(ipAddress: host, port: 0)) != nil { name = nil }
    try operations.addHandler(NIOSSLClientHandler(context: context, serverHostname: name))
  }

  /// Whether an error is one of TLS.
  static func isFailure(_ error: any Error) -> Bool {
    error is NIOSSLError || error is BoringSSLError || error is NIOSSLExtraError
  }
}
#else
/// TLS in a build without it.
struct RedisTLSContext {
  /// Throws always.
  init(_ tls: RedisTLS, server: String) throws(RedisError) {
    throw RedisError(
      .tls, server,
      "This program was built without TLS. Add the trait RedisTLS to its dependency on Larder.")
  }

  func addHandler(
    to operations: ChannelPipeline.SynchronousOperations, _ address: RedisConfiguration.Address
  ) throws {}

  static func isFailure(_ error: any Error) -> Bool { false }
}
#endif
#endif
