// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

/// A server that the stores of many hosts share: `RedisLink` of the module `LarderRedis`.
public protocol RemoteLink: Sendable {
  /// The server as caches use it.
  var tier: RemoteTier { get }
}

/// The connection between caches and a ``RemoteLink``.
public final class RemoteTier: Sendable {
  package let service: any RemoteService
  let loss = RemoteLoss()

  package init(_ service: any RemoteService) { self.service = service }

  deinit { service.detach() }
}

/// The rules of a cache whose values are on a remote server.
public struct RemoteOptions: Sendable {
  /// The rule for reads while the server cannot be reached.
  public enum LossPolicy: Sendable, Hashable {
    /// Returns the value that the host has, if it was stored or confirmed at most this long ago. Without one,
    /// a computing read computes, and any other read throws.
    ///
    /// The link of the host confirms all its copies about ten times a second, until the server is lost. After
    /// another loss soon after it, the time counts from the last read that has compared the value.
    case serveStale(upTo: Duration)
    /// Throws the error of the server as soon as a value is older than ``RemoteOptions/maxStaleness``.
    case fail
  }

  /// The servers that must have a write before it returns.
  public enum Acknowledgement: Sendable, Hashable {
    /// The primary server.
    case primary
    /// The primary and this number of its replicas. Without them the write throws, and may be kept.
    case replicas(Int)
  }

  /// The longest time since a value that is read from the host was current on the server. At least 250 ms.
  public var maxStaleness: Duration
  /// The rule for reads while the server cannot be reached.
  public var onLoss: LossPolicy
  /// The servers that must have a write before it returns.
  public var acknowledgement: Acknowledgement
  /// The longest time for which a host keeps a value without asking the server for it again. It bounds what
  /// the server loses without saying so.
  public var lifetime: Duration
  /// The time after which another host computes a value that one has begun to compute, if that has not
  /// renewed its claim: it has lost the server, or has ended.
  public var claimTime: Duration

  /// Creates options. Each parameter sets the property of the same name.
  public init(
    maxStaleness: Duration = .seconds(1), onLoss: LossPolicy = .serveStale(upTo: .seconds(60)),
    acknowledgement: Acknowledgement = .primary, lifetime: Duration = .seconds(600),
    claimTime: Duration = .seconds(10)
  ) {
    self.maxStaleness = maxStaleness
    self.onLoss = onLoss
    self.acknowledgement = acknowledgement
    self.lifetime = lifetime
    self.claimTime = claimTime
  }

  func validate() throws(StoreError) {
    func require(_ isValid: Bool, _ rule: String) throws(StoreError) {
      if isValid { return }
      throw StoreError(.invalidOption, during: "cache", "RemoteOptions.\(rule).")
    }
    try require(maxStaleness >= .milliseconds(250), "maxStaleness is at least 250 ms")
    try require(lifetime > .zero, "lifetime is longer than zero")
    try require(claimTime >= .milliseconds(500), "claimTime is at least 500 ms")
    if case .serveStale(let limit) = onLoss {
      try require(limit >= .zero, "onLoss has a time of zero or more")
    }
    if case .replicas(let count) = acknowledgement {
      try require((1...100).contains(count), "acknowledgement is 1 to 100 replicas")
    }
  }
}

/// The demand of one read for a value that is not older than the server's.
public enum Freshness: Sendable, Hashable {
  /// The value may be as old as ``RemoteOptions/maxStaleness``.
  case bounded
  /// The value is asked for at the server, if there is one.
  case latest
}
