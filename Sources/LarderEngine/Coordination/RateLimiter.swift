// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A rate that all callers of a limiter share.
public struct RateLimit: Sendable, Hashable {
  let kind: LockKind
  let parameters: [UInt64]
  private let text: String

  /// Returns a limit with a bucket of tokens, which is full at first.
  ///
  /// - Parameters:
  ///   - rate: The tokens that are added each second.
  ///   - burst: The tokens that the bucket can contain: the calls that are permitted at once after a
  ///     pause.
  /// - Returns: The limit. A value out of range is an error of each use.
  public static func tokenBucket(rate: Double, burst: Int) -> RateLimit {
    let isValid = rate >= 0.000_01 && rate <= 1_000_000_000 && burst >= 1 && burst <= 1_000_000
    return RateLimit(
      kind: .tokenBucket,
      parameters: isValid ? [max(UInt64(1_000_000_000 / rate), 1), UInt64(burst)] : [],
      text: "\(rate) tokens per second with a burst of \(burst); a rate is 0.00001 to 1e9, a burst "
        + "1 to 1000000")
  }

  /// Returns a limit of the calls in every period of some length.
  ///
  /// A period is divided into 16 parts: calls are permitted again up to a 16th of the period late, and
  /// never early.
  ///
  /// - Parameters:
  ///   - limit: The calls in a period, 1 to 16,777,215.
  ///   - period: The length of a period, in whole milliseconds, up to a year.
  /// - Returns: The limit. A value out of range is an error of each use.
  public static func slidingWindow(limit: Int, per period: Duration) -> RateLimit {
    let milliseconds = period.nanoseconds / 1_000_000
    let isValid =
      milliseconds >= 1 && milliseconds <= 31_622_400_000 && limit >= 1
      && limit <= LockFile.mostCalls
    return RateLimit(
      kind: .slidingWindow, parameters: isValid ? [(milliseconds + 15) / 16, UInt64(limit)] : [],
      text: "\(limit) calls per \(period); a limit is 1 to \(LockFile.mostCalls), a period 1 "
        + "millisecond to 366 days")
  }

  var words: (UInt64, UInt64) {
    get throws(StoreError) {
      guard parameters.count == 2 else {
        throw StoreError(
          .invalidOption, during: "lock", "Invalid rate: \(text). Pass values in the range.")
      }
      return (parameters[0], parameters[1])
    }
  }
}

/// A limiter of the rate of calls, with a name that all processes of the machine share.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let limiter = store.rateLimiter("api", .tokenBucket(rate: 10, burst: 20))
/// try limiter.acquire(timeout: .seconds(5))
/// if try limiter.tryAcquire() { print("permitted at once") }
/// ```
///
/// The state is in the file `rates` and survives all processes. Times pass as for every other wait: a
/// change of the machine's clock has no effect, except while the machine is off; with a clock of your own
/// (``StoreOptions/clock``) they are those of that clock. If processes use the name with different rates
/// of one form, the rate of the last call applies. Permissions are given in the order in which callers
/// began to wait.
///
/// A store has room for about 7,000 names that are not at rest, as a rule: those with calls in their
/// period, or whose bucket is not full. Further names never take the room of others: they share 64
/// buckets for each rate, by their hashes. A name that shares a bucket is never permitted more than its
/// rate, but may be refused because of the calls of others.
public struct RateLimiter: Sendable {
  private let store: SharedStore
  private let name: LockName
  private let limit: RateLimit

  init(_ store: SharedStore, _ name: String, _ limit: RateLimit) {
    self.store = store
    self.name = LockName(limit.kind, name)
    self.limit = limit
  }

  /// Waits until the rate permits a call, and blocks the thread until then.
  ///
  /// - Parameter timeout: The longest wait; zero means no wait.
  /// - Throws: `CancellationError`, or ``StoreError``: ``StoreError/Code/lockTimeout`` if the rate does
  ///   not permit the call before the deadline; the call is not counted then.
  /// - Complexity: O(*w*) in the callers that wait.
  @_disfavoredOverload
  public func acquire(timeout: Duration = .seconds(30)) throws {
    try store.acquire(name, .exclusive, limit.words, timeout: timeout).release()
  }

  /// Waits until the rate permits a call, and suspends the task until then.
  ///
  /// - Parameter timeout: The longest wait; zero means no wait.
  /// - Throws: The errors of the synchronous method; `CancellationError` at once if the task is
  ///   cancelled while it waits.
  /// - Complexity: O(*w*) in the callers that wait.
  public func acquire(timeout: Duration = .seconds(30)) async throws {
    try await store.acquire(name, .exclusive, limit.words, timeout: timeout).release()
  }

  /// Takes a permission if the rate permits a call now and no other caller waits.
  ///
  /// - Returns: Whether the call is permitted. `false` also if a process was stopped while it changed
  ///   the limiter.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*w*) in the callers that wait.
  public func tryAcquire() throws -> Bool {
    let call = try store.lockCall(
      name.key, .exclusive, limit.words, timeout: .milliseconds(20), isAsync: false)
    let file = try store.openCore("lock").lockFiles.file(of: name.kind)
    do {
      switch try file.begin(call, mayWait: true) {
      case .granted(let grant):
        grant.release()
        return true
      case .queued(let pending):
        guard let grant = file.concede(pending, call) else { return false }
        grant.release()
        return true
      case .busy: return false
      }
    } catch let error as StoreError where error.code == .lockTimeout {
      return false
    }
  }
}

extension SharedStore {
  /// Returns the rate limiter with a name. All processes that have the store open share it.
  ///
  /// - Parameters:
  ///   - name: 1 to 250 bytes of UTF-8, compared as bytes. Another length is an error of each use.
  ///   - limit: The rate. Token buckets and sliding windows have separate names.
  /// - Returns: The limiter.
  /// - Complexity: O(1).
  public func rateLimiter(_ name: String, _ limit: RateLimit) -> RateLimiter {
    RateLimiter(self, name, limit)
  }
}
