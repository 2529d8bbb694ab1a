// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The rule by which a store chooses the entries to evict when its budget is reached.
///
/// ```swift
/// var options = StoreOptions(budget: .megabytes(64))
/// options.evictionPolicy = .sampledLRU
/// let store = try SharedStore(at: "~/.cache/myapp", options)
/// ```
///
/// The policy is a property of the store, the same for every process. Any process may change it
/// while the store is in use; the next write of every process uses the new one. Its state is in
/// shared memory, so that all processes continue one state. If that memory is lost, entries are
/// evicted in a less useful order until it has been learnt again; nothing else is lost.
public struct EvictionPolicy: Sendable, Hashable, CustomStringConvertible {
  /// The code of the policy in files.
  package let code: UInt8

  private init(_ code: UInt8) { self.code = code }

  /// Evicts the least recently used entry of a random sample.
  public static let sampledLRU = EvictionPolicy(1)

  /// Evicts by queues that keep entries which were used again, and that adapt to the accesses: the
  /// default.
  ///
  /// New entries enter a small queue, and those that are used in it pass to the main queue. A scan
  /// over many keys then passes through the small queue only. The sizes of the queues follow the keys that
  /// are written again soon after they were evicted. Based on S3-FIFO ("FIFO queues are all you
  /// need for cache eviction", SOSP 2023), with a boundary that moves as in ARC (FAST 2003).
  public static let adaptive = EvictionPolicy(2)

  /// The policies of this version of the library.
  public static let all: [EvictionPolicy] = [.sampledLRU, .adaptive]

  /// Creates the policy with a name as in ``description``, or returns `nil` if there is none.
  public init?(_ name: String) {
    guard let policy = EvictionPolicy.all.first(where: { $0.description == name }) else {
      return nil
    }
    self = policy
  }

  package init?(code: UInt8) {
    guard let policy = EvictionPolicy.all.first(where: { $0.code == code }) else { return nil }
    self = policy
  }

  /// The name of the policy: `sampledLRU` or `adaptive`.
  public var description: String { self == .sampledLRU ? "sampledLRU" : "adaptive" }
}
