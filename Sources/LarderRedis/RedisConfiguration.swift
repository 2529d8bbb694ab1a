// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// The address of a server, its password, and the time limits.
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
/// | `redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/MASTER[/DATABASE]` | a primary |
/// | `redis+cluster://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]` | a cluster; port 6379 by default |
///
/// Users, passwords and paths are percent-encoded.
///
/// `redis+sentinel` has the hosts and ports of sentinels, with port 26379 by default, and the name of a master that
/// they monitor. USER and PASSWORD are for the servers. The options are
/// `?sentinel_user=USER&sentinel_password=PASSWORD` for the sentinels, and `tls=1` for TLS to sentinels and
/// servers, with the options of `rediss`.
///
/// With sentinels, each connection is to the server that a sentinel names and that is a master by its own
/// `ROLE`. After a failover the next connection is to the new primary. A former primary that was stopped or
/// isolated answers as a master until the sentinels reach it. The connection to it is closed within about a
/// second after one of the sentinels has learned of the failover. Redis replicates asynchronously: a failover
/// can lose writes that the former primary has acknowledged. Limit the loss with `min-replicas-to-write`
/// on the servers. The user of the servers needs the command `ROLE`, that of the sentinels `SENTINEL`.
///
/// `redis+cluster` has some servers of a cluster, where the others are found; `tls=1` stands for TLS to all of
/// them, with the options of `rediss`. Only a ``RedisClient`` and a ``RedisLink`` use a cluster. The user needs the
/// commands `CLUSTER INFO`, `CLUSTER SLOTS` and `CLUSTER NODES`.
public struct RedisConfiguration: Sendable, Hashable, CustomStringConvertible {
  /// The place at which a server listens.
  public enum Address: Sendable, Hashable, CustomStringConvertible {
    /// A name or an IP address, and a port of TCP.
    case host(String, port: Int)
    /// The path of a Unix socket.
    case unixSocket(path: String)
    /// The primary that Redis Sentinel names for a master name. The sentinels are queried in this order.
    case sentinels([Endpoint], master: String)
    /// A cluster, by some of its servers.
    case cluster([Endpoint])

    /// The host and port, the path, the master name and the sentinels, or servers of the cluster.
    public var description: String {
      switch self {
      case .host(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
      case .unixSocket(let path): path
      case .sentinels(let sentinels, let master):
        "\(master) of sentinels " + sentinels.map(\.description).joined(separator: ",")
      case .cluster(let servers):
        "cluster " + servers.map(\.description).joined(separator: ",")
      }
    }
  }

  /// The host and port of a sentinel, or of a server of a cluster.
  public struct Endpoint: Sendable, Hashable, CustomStringConvertible {
    /// The name or the IP address.
    public var host: String
    /// The port.
    public var port: Int

    /// Creates an address.
    public init(_ host: String, port: Int) {
      self.host = host
      self.port = port
    }

    var address: Address { .host(host, port: port) }

    /// The host and port.
    public var description: String { "\(address)" }
  }

  /// The address.
  public var address: Address
  /// The user of the access list; `nil` for the default user.
  public var user: String?
  /// The password. It is in no description and no error.
  public var password: String?
  /// The user of the access list of sentinels; `nil` for the default user.
  public var sentinelUser: String?
  /// The password of sentinels. It is in no description and no error.
  public var sentinelPassword: String?
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
///
/// Encrypted connections need the trait `RedisTLS`. In a program without it such a configuration is a
/// ``RedisError`` with the code ``RedisError/Code/tls`` before anything is sent.
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
#endif
