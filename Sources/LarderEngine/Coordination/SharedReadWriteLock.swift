// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A lock with a name that all processes of the machine share, for one writer or several readers.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let lock = store.readWriteLock("catalog")
/// let names = try lock.withReadLock(timeout: .seconds(5)) { _ in ["a", "b"] }
/// try lock.withWriteLock(timeout: .seconds(5)) { held in
///   print("replacing \(names) with token \(held.token)")
/// }
/// ```
///
/// Callers get the lock in the order in which they began to wait: a writer that waits blocks later
/// readers, and is not overtaken. A caller that holds the lock in any form gets
/// ``StoreError/Code/lockedByCaller`` when it waits for it again. Everything else is as with
/// ``SharedLock``.
public struct SharedReadWriteLock: Sendable {
  private let store: SharedStore
  private let name: LockName

  init(_ store: SharedStore, _ name: String) {
    self.store = store
    self.name = LockName(.readWriteLock, name)
  }

  /// Runs a closure while the caller is one of the readers, and blocks the thread until then.
  ///
  /// - Parameters:
  ///   - timeout: The longest wait; zero means no wait.
  ///   - body: A closure that gets the held lock.
  /// - Returns: The result of `body`.
  /// - Throws: The error of `body`, or the errors of ``SharedLock``.
  /// - Complexity: O(*w*) in the callers that hold or wait for the lock.
  @_disfavoredOverload
  public func withReadLock<R>(
    timeout: Duration = .seconds(30), _ body: (HeldLock) throws -> R
  ) throws -> R {
    let grant = try store.acquire(name, .shared, timeout: timeout)
    defer { grant.release() }
    return try body(HeldLock(grant))
  }

  /// Runs a closure while the task is one of the readers, and suspends the task until then.
  ///
  /// - Parameters:
  ///   - timeout: The longest wait; zero means no wait.
  ///   - body: A closure that gets the held lock.
  /// - Returns: The result of `body`.
  /// - Throws: The errors of the synchronous method; `CancellationError` at once if the task is
  ///   cancelled while it waits.
  /// - Complexity: O(*w*) in the callers that hold or wait for the lock.
  public func withReadLock<R>(
    timeout: Duration = .seconds(30), _ body: (HeldLock) async throws -> R
  ) async throws -> R {
    let grant = try await store.acquire(name, .shared, timeout: timeout)
    defer { grant.release() }
    return try await body(HeldLock(grant))
  }

  /// Runs a closure while the caller is the only holder, and blocks the thread until then.
  ///
  /// - Parameters:
  ///   - timeout: The longest wait; zero means no wait.
  ///   - body: A closure that gets the held lock.
  /// - Returns: The result of `body`.
  /// - Throws: The errors of the method for readers.
  /// - Complexity: O(*w*) in the callers that hold or wait for the lock.
  @_disfavoredOverload
  public func withWriteLock<R>(
    timeout: Duration = .seconds(30), _ body: (HeldLock) throws -> R
  ) throws -> R {
    let grant = try store.acquire(name, .exclusive, timeout: timeout)
    defer { grant.release() }
    return try body(HeldLock(grant))
  }

  /// Runs a closure while the task is the only holder, and suspends the task until then.
  ///
  /// - Parameters:
  ///   - timeout: The longest wait; zero means no wait.
  ///   - body: A closure that gets the held lock.
  /// - Returns: The result of `body`.
  /// - Throws: The errors of the synchronous method; `CancellationError` at once if the task is
  ///   cancelled while it waits.
  /// - Complexity: O(*w*) in the callers that hold or wait for the lock.
  public func withWriteLock<R>(
    timeout: Duration = .seconds(30), _ body: (HeldLock) async throws -> R
  ) async throws -> R {
    let grant = try await store.acquire(name, .exclusive, timeout: timeout)
    defer { grant.release() }
    return try await body(HeldLock(grant))
  }
}

extension SharedStore {
  /// Returns the read-write lock with a name. All processes that have the store open share it.
  ///
  /// - Parameter name: 1 to 250 bytes of UTF-8, compared as bytes. Another length is an error of each
  ///   use.
  /// - Returns: The lock, which the call does not acquire.
  /// - Complexity: O(1).
  public func readWriteLock(_ name: String) -> SharedReadWriteLock {
    SharedReadWriteLock(self, name)
  }
}
