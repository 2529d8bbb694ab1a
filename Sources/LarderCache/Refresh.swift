// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

/// The rule by which the value of a key is computed again, and expired values are returned meanwhile.
///
/// ```swift
/// let page = try await cache.value(
///   forKey: url, expires: .after(.seconds(60)),
///   refresh: Refresh(staleFor: .seconds(600), staleIfError: .seconds(86_400))
/// ) {
///   try await download(url)
/// }
/// ```
///
/// A computed value is stored with the longest of the three durations, and kept for that time after
/// its expiration. Only calls with a refresh see it then: for `value(forKey:)` and all other reads it is
/// expired. In the statistics and for the budget it counts as an entry. A value that never expires, or
/// that has a sliding expiration, is not refreshed.
///
/// One process of the machine computes the new value, as in
/// ``PersistentCache/value(forKey:expires:refresh:tags:_:)``; the calls of all processes get the old one
/// until it is stored. Without a store, and over a ``CacheStorage``, this holds for the process, and an
/// expired value is kept only in memory.
public struct Refresh: Sendable {
  /// The time after its expiration for which callers get the old value at once, while it is computed
  /// again in the background.
  public var staleFor: Duration
  /// The time after its expiration for which callers get the old value if computing a new one fails or
  /// takes too long. The error is passed to ``onError``.
  public var staleIfError: Duration
  /// The time after its expiration for which the old value is kept for
  /// ``PersistentCache/computedValue(forKey:refresh:_:)``, whose closure may renew it.
  public var keptFor: Duration
  /// The factor by which a value is computed earlier than it expires; zero means never.
  ///
  /// With 1, a call computes in the background with a probability that grows as the expiration
  /// approaches, and that is larger for a value whose computation took longer. So a value that is read
  /// often is renewed before it expires, by one caller. Larger numbers compute earlier. The rule is that
  /// of Vattani, Chierichetti and Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", VLDB
  /// 2015.
  public var early: Double
  /// A closure that receives the errors of computations whose callers got an old value. The default is
  /// the `onError` of the store or the cache; a cache in memory only has none.
  public var onError: (@Sendable (any Error) -> Void)?

  /// Creates a refresh. Each parameter sets the property of the same name.
  public init(
    staleFor: Duration = .zero, staleIfError: Duration = .zero, keptFor: Duration = .zero,
    early: Double = 0, onError: (@Sendable (any Error) -> Void)? = nil
  ) {
    self.staleFor = staleFor
    self.staleIfError = staleIfError
    self.keptFor = keptFor
    self.early = early
    self.onError = onError
  }

  /// No refresh: an expired value is computed while its callers wait.
  public static var never: Refresh { Refresh() }
}

extension Refresh {
  /// The time in milliseconds for which a value is kept after its expiration.
  var kept: Int64 { max(staleFor, staleIfError, keptFor).milliseconds }

  /// Throws ``StoreError/Code/invalidOption`` for a negative duration or factor, and for a value with a
  /// sliding expiration, which does not expire while it is read.
  func validate(_ expiration: Expiration = .never) throws(StoreError) {
    guard min(staleFor, staleIfError, keptFor) >= .zero, early >= 0, early.isFinite else {
      throw StoreError(
        .invalidOption, during: "compute",
        "Invalid refresh: a duration or `early` is negative or not a number. Nothing was computed. "
          + "Pass zero or more.")
    }
    guard (kept == 0 && early == 0) || expiration.slidingLifetime == 0 else {
      throw StoreError(
        .invalidOption, during: "compute",
        "Invalid refresh: a value with a sliding expiration does not expire while it is read. Nothing "
          + "was computed. Pass `.after` or no refresh.")
    }
  }

  /// Returns whether callers get a value that is expired at `now`, while it is computed.
  func servesStale(_ expires: Int64, at now: Int64) -> Bool {
    EntryHeader.deadline(of: staleFor.milliseconds, from: expires) > now
  }

  /// Returns whether callers get a value that is expired at `now` if it cannot be computed.
  func servesAfterError(_ expires: Int64, at now: Int64) -> Bool {
    EntryHeader.deadline(of: staleIfError.milliseconds, from: expires) > now
  }

  /// Returns whether a value is computed again now, before it expires: the time until then is less than a
  /// random multiple of the time of its computation.
  package func isDue(expires: Int64, computeTime: UInt32, at now: Int64) -> Bool {
    guard early > 0, computeTime > 0, expires != EntryHeader.never else { return false }
    let range = Double(computeTime) * early
    let remaining = Double(expires) - Double(now)
    guard remaining < range * RandomSource.largestExponential else { return false }
    return remaining <= range * RandomSource.exponential()
  }
}
