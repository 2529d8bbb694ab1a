// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A lock with a name that all processes of the machine share; one caller holds it at a time.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let lock = store.lock("reindex")
/// try lock.withLock(timeout: .seconds(5)) { held in
///   print("rebuilding the index with token \(held.token)")
/// }
/// ```
///
/// * Callers get the lock in the order in which they began to wait, across processes. A waiter that is
///   stopped, or does not run for 20 ms after the lock was granted to it, is passed over until it runs
///   again, and keeps its place.
/// * The kernel releases the lock of a process that ends, however it ends. A waiter acquires it within
///   50 ms.
/// * A process that is stopped keeps its locks. Waits for them end at their deadline with
///   ``StoreError/Code/lockTimeout``, which names its pid and start time.
/// * Every wait has a deadline. A task that waits is cancelled at once, and a thread within 10 ms.
///
/// The value costs nothing to create, and is not tied to a thread or task.
public struct SharedLock: Sendable {
  private let store: SharedStore
  private let name: LockName

  init(_ store: SharedStore, _ name: String) {
    self.store = store
    self.name = LockName(.lock, name)
  }

  /// Runs a closure while the caller holds the lock, and blocks the thread until then.
  ///
  /// ```swift
  /// try store.lock("report").withLock(timeout: .seconds(1)) { held in
  ///   try store.setBytes([UInt8(truncatingIfNeeded: held.token)], forKey: "report")
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - timeout: The longest wait; zero means no wait.
  ///   - body: A closure that gets the held lock.
  /// - Returns: The result of `body`.
  /// - Throws: The error of `body`, `CancellationError`, or ``StoreError``:
  ///   ``StoreError/Code/lockTimeout`` if another caller holds the lock until the deadline,
  ///   ``StoreError/Code/lockedByCaller`` if this task or thread holds it, and
  ///   ``StoreError/Code/invalidLockName``.
  /// - Complexity: O(*w*) in the callers that hold or wait for the lock; no system call without them.
  @_disfavoredOverload
  public func withLock<R>(
    timeout: Duration = .seconds(30), _ body: (HeldLock) throws -> R
  ) throws -> R {
    let grant = try store.acquire(name, .exclusive, timeout: timeout)
    defer { grant.release() }
    return try body(HeldLock(grant))
  }

  /// Runs a closure while the task holds the lock, and suspends the task until then.
  ///
  /// ```swift
  /// try await store.lock("report").withLock(timeout: .seconds(1)) { held in
  ///   try await Task.sleep(for: .milliseconds(1))
  /// }
  /// ```
  ///
  /// No thread of Swift's pool is blocked. A task that the closure starts is another task: it must not
  /// wait for the lock.
  ///
  /// - Parameters:
  ///   - timeout: The longest wait; zero means no wait.
  ///   - body: A closure that gets the held lock.
  /// - Returns: The result of `body`.
  /// - Throws: The errors of the synchronous method; `CancellationError` at once if the task is
  ///   cancelled while it waits.
  /// - Complexity: O(*w*) in the callers that hold or wait for the lock.
  public func withLock<R>(
    timeout: Duration = .seconds(30), _ body: (HeldLock) async throws -> R
  ) async throws -> R {
    let grant = try await store.acquire(name, .exclusive, timeout: timeout)
    defer { grant.release() }
    return try await body(HeldLock(grant))
  }
}

/// A lock that is held for the duration of a closure.
public struct HeldLock: Sendable {
  private let grant: LockGrant

  init(_ grant: LockGrant) { self.grant = grant }

  /// The fencing token: greater than every earlier token of the name, across processes and restarts, and
  /// after a deletion of the file `locks`, unless the clock of the machine was set back before that.
  ///
  /// Store it with the result, and reject results with a lower token: a holder that was stopped for
  /// long and whose lock was lost with the files cannot overwrite the result of its successor then.
  public var token: UInt64 { grant.token }

  /// Whether the lock is held still. It is lost before the end of the closure only if the file `locks`
  /// was damaged.
  ///
  /// - Complexity: O(1).
  public var isHeld: Bool { grant.isHeld }
}

extension SharedStore {
  /// Returns the lock with a name. All processes that have the store open share it.
  ///
  /// ```swift
  /// let lock = store.lock("migration")
  /// ```
  ///
  /// - Parameter name: 1 to 250 bytes of UTF-8, compared as bytes. Another length is an error of each
  ///   use.
  /// - Returns: The lock, which the call does not acquire.
  /// - Complexity: O(1).
  public func lock(_ name: String) -> SharedLock { SharedLock(self, name) }
}

/// The name in a handle, which may be invalid.
struct LockName: Sendable {
  let kind: LockKind
  private let length: Int
  private let valid: LockKey?

  init(_ kind: LockKind, _ name: String) {
    self.kind = kind
    let bytes = Array(name.utf8)
    length = bytes.count
    valid = (1...LockKey.longestName).contains(length) ? LockKey(kind, name: bytes) : nil
  }

  var key: LockKey {
    get throws(StoreError) {
      guard let valid else { throw .invalidLockName(kind, length: length) }
      return valid
    }
  }
}

extension SharedStore {
  func acquire(
    _ name: LockName, _ mode: LockMode, _ parameters: (UInt64, UInt64) = (0, 0), timeout: Duration
  ) throws -> LockGrant {
    try acquire(lockCall(name.key, mode, parameters, timeout: timeout, isAsync: false))
  }

  func acquire(
    _ name: LockName, _ mode: LockMode, _ parameters: (UInt64, UInt64) = (0, 0), timeout: Duration
  ) async throws -> LockGrant {
    try await acquire(lockCall(name.key, mode, parameters, timeout: timeout, isAsync: true))
  }
}
