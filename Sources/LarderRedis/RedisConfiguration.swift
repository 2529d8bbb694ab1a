// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The address of a server, what it asks for, and how long its answers may take.
///
/// ```swift
/// var configuration = try RedisConfiguration(url: "rediss://app:secret@cache.example.com:6380/2")
/// configuration.timeout = .milliseconds(500)
/// let connection = try await RedisConnection.connect(to: configuration)
/// ```
///
/// | URL | server |
/// |---|---|
/// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]` | TCP; port 6379 and database 0 by default |
/// | `rediss://…` | the same with TLS; `?ca=FILE`, `&cert=FILE&key=FILE` and `&name=HOST` as in ``RedisTLS`` |
/// | `redis+unix://[[USER]:PASSWORD@]/PATH[?db=DATABASE]` | a Unix socket |
///
/// Users, passwords and paths are percent-encoded.
public struct RedisConfiguration: Sendable, Hashable, CustomStringConvertible {
  /// The place at which a server listens.
  public enum Address: Sendable, Hashable, CustomStringConvertible {
    case host(String, port: Int)
    case unixSocket(path: String)

    /// The host and port, or the path.
    public var description: String {
      switch self {
      case .host(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
      case .unixSocket(let path): path
      }
    }
  }

  /// The address.
  public var address: Address
  /// The user of the access list; `nil` for the default user.
  public var user: String?
  /// The password. It is in no description and no error.
  public var password: String?
  /// The number of the database.
  public var database = 0
  /// The options of TLS; `nil` for a connection without it.
  public var tls: RedisTLS?
  /// The name of the connection, as `CLIENT LIST` shows it. Without spaces.
  public var name = "larder"
  /// The longest wait for a connection, including TLS and the password.
  public var connectTimeout: Duration = .seconds(2)
  /// The longest wait for the answer to a command.
  public var timeout: Duration = .seconds(1)
  /// The most commands that may wait for an answer.
  public var pendingLimit = 100_000

  /// Creates a configuration with an address.
  public init(address: Address) { self.address = address }

  /// Creates a configuration from a URL.
  ///
  /// - Throws: ``RedisError`` with the code ``RedisError/Code/invalidOption``. Its text has no part of a
  ///   URL in which a password may be.
  public init(url: String) throws(RedisError) {
    self = try RedisURL(url).configuration()
  }

  /// The address, the database and whether there is TLS: no user, no password.
  public var description: String {
    "\(address)" + (database == 0 ? "" : " database \(database)") + (tls == nil ? "" : " with TLS")
  }
}

/// The certificates by which a server and this program prove their identity.
public struct RedisTLS: Sendable, Hashable {
  /// A file with the certificates of authorities, in PEM; `nil` for those of the system.
  public var authorities: String?
  /// A file with the certificate of this program and those above it, in PEM.
  public var certificate: String?
  /// A file with the private key of the certificate, in PEM.
  public var key: String?
  /// The name that the server's certificate must have; `nil` for the host of the address.
  public var serverName: String?

  /// Creates options that trust the authorities of the system.
  public init() {}
}
