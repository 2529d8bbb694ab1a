// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
public import LarderCache
internal import LarderEngine

/// A server of Redis or Valkey that the stores of many hosts share.
///
/// ```swift
/// import Larder
/// import LarderRedis
///
/// let store = try SharedStore(at: "/var/tmp/shop/cache")
/// let link = try RedisLink(url: "redis://cache.internal", prefix: "shop")
/// let profiles = PersistentCache<Int, String>(storage: store, namespace: "profiles", remote: link)
/// try await profiles.setValue("Ada", forKey: 7)   // every host reads it within a second
/// ```
///
/// Each process has one connection for its commands, which is made when it is needed. One process of a host,
/// the holder of the link, has another one on which the server names the keys that change, and removes them
/// from the store. If it ends, another process takes over.
///
/// The link lives as long as a cache or the program refers to it. Its keys on the server begin with the prefix
/// and a colon.
public final class RedisLink: RemoteLink {
  /// The link as caches use it.
  public let tier: RemoteTier
  let service: RedisService

  /// Creates a link to the server of a URL; see ``RedisConfiguration`` for its forms.
  ///
  /// - Parameters:
  ///   - url: The URL.
  ///   - prefix: The first part of all keys, 1 to 64 letters, digits, `.`, `_` and `-`. Programs with the
  ///     same server and prefix share their values.
  /// - Throws: ``RedisError`` with the code ``RedisError/Code/invalidOption``.
  public convenience init(url: String, prefix: String = "larder") throws(RedisError) {
    try self.init(RedisConfiguration(url: url), prefix: prefix)
  }

  /// Creates a link to the server of a configuration. Nothing is sent yet.
  ///
  /// - Throws: ``RedisError`` with the code ``RedisError/Code/invalidOption``.
  public init(_ configuration: RedisConfiguration, prefix: String = "larder") throws(RedisError) {
    let isValid =
      (1...64).contains(prefix.utf8.count)
      && prefix.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
        default: false
        }
      }
    guard isValid else {
      throw RedisError(
        .invalidOption, "\(configuration.address)",
        "A prefix has 1 to 64 letters, digits, \".\", \"_\" and \"-\". Pass another one.")
    }
    service = RedisService(configuration, prefix: prefix)
    tier = RemoteTier(service)
  }

  /// The server and the prefix.
  public var description: String { service.name }

  /// Sends a PING.
  ///
  /// - Returns: The time until the answer.
  /// - Throws: ``RedisError``, `CancellationError`.
  public func ping() async throws -> Duration {
    let start = ContinuousClock.now
    try await service.client.send(RedisCommand("PING"))
    return start.duration(to: .now)
  }

  /// Runs until the task is cancelled, and closes the link then. This is the requirement of `Service` of
  /// swift-service-lifecycle: `extension RedisLink: @retroactive Service {}`.
  public func run() async throws {
    while !Task.isCancelled { try? await BlockingWork.sleep(for: .seconds(3600)) }
    await close()
  }

  /// Ends the connections. Caches with this link find nothing that is older than their limits allow.
  public func close() async { await service.close() }
}
#endif
