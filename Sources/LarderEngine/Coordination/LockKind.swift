// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The kind of something that processes coordinate with. Each kind has separate names.
public struct LockKind: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  /// The name of the kind, as in messages.
  public let rawValue: String

  /// Creates a kind from its name.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The name of the kind.
  public var description: String { rawValue }

  /// A ``SharedLock``.
  public static let lock = LockKind(rawValue: "lock")

  /// A lock with readers and writers.
  public static let readWriteLock = LockKind(rawValue: "readWriteLock")
  /// A semaphore.
  public static let semaphore = LockKind(rawValue: "semaphore")
  /// A rate limiter with a token bucket.
  public static let tokenBucket = LockKind(rawValue: "tokenBucket")
  /// A rate limiter with a sliding window.
  public static let slidingWindow = LockKind(rawValue: "slidingWindow")
  /// A leadership.
  public static let leader = LockKind(rawValue: "leader")
  /// A barrier.
  public static let barrier = LockKind(rawValue: "barrier")

  /// The kinds in the order of their stored codes, which start at one.
  package static let all: [LockKind] = [
    .lock, .readWriteLock, .semaphore, .tokenBucket, .slidingWindow, .leader, .barrier,
  ]

  /// Whether a request ends when it is granted: nothing is held.
  var isMomentary: Bool { self == .barrier || isPaced }

  /// Whether requests also wait for time to pass.
  var isPaced: Bool { self == .tokenBucket || self == .slidingWindow }

  /// Returns the parameters of a kind that has a number: of permits, or of parties.
  ///
  /// - Throws: ``StoreError/Code/invalidOption`` if the number is out of range.
  func parameters(count: Int) throws(StoreError) -> (UInt64, UInt64) {
    guard (1...LockFileLayout.requestCount).contains(count) else {
      throw StoreError(
        .invalidOption, during: "lock",
        "The number of a \(self) is \(count); the range is 1 to \(LockFileLayout.requestCount). Pass "
          + "a number in the range.")
    }
    return (UInt64(count), 0)
  }

  init?(code: UInt8) {
    guard (1...UInt8(Self.all.count)).contains(code) else { return nil }
    self = Self.all[Int(code) - 1]
  }

  /// The code in the file `locks`.
  var code: UInt8 { UInt8(Self.all.firstIndex(of: self)! + 1) }
}
