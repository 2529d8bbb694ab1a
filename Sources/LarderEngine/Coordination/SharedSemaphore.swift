// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A number of permits with a name that all processes of the machine share.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let downloads = store.semaphore("downloads", permits: 4)
/// try downloads.withPermit(timeout: .seconds(60)) { print("at most four at a time") }
/// ```
///
/// Permits are given in the order in which callers began to wait. The kernel returns the permits of a
/// process that ends. A caller that has all permits gets ``StoreError/Code/lockedByCaller`` when it
/// waits for one more. Everything else is as with ``SharedLock``.
public struct SharedSemaphore: Sendable {
  private let store: SharedStore
  private let name: LockName
  /// The number of permits.
  public let permits: Int

  init(_ store: SharedStore, _ name: String, permits: Int) {
    self.store = store
    self.name = LockName(.semaphore, name)
    self.permits = permits
  }

  private var parameters: (UInt64, UInt64) {
    get throws(StoreError) { try LockKind.semaphore.parameters(count: permits) }
  }

  /// Runs a closure while the caller has a permit, and blocks the thread until then.
  ///
  /// - Parameters:
  ///   - timeout: The longest wait; zero means no wait.
  ///   - body: A closure.
  /// - Returns: The result of `body`.
  /// - Throws: The error of `body`, `CancellationError`, or ``StoreError``:
  ///   ``StoreError/Code/lockTimeout``, and ``StoreError/Code/invalidOption`` if other callers use the
  ///   name with another number of permits.
  /// - Complexity: O(*w*) in the callers that have or wait for a permit.
  @_disfavoredOverload
  public func withPermit<R>(
    timeout: Duration = .seconds(30), _ body: () throws -> R
  ) throws -> R {
    let grant = try store.acquire(name, .counted, parameters, timeout: timeout)
    defer { grant.release() }
    return try body()
  }

  /// Runs a closure while the task has a permit, and suspends the task until then.
  ///
  /// - Parameters:
  ///   - timeout: The longest wait; zero means no wait.
  ///   - body: A closure.
  /// - Returns: The result of `body`.
  /// - Throws: The errors of the synchronous method; `CancellationError` at once if the task is
  ///   cancelled while it waits.
  /// - Complexity: O(*w*) in the callers that have or wait for a permit.
  public func withPermit<R>(
    timeout: Duration = .seconds(30), _ body: () async throws -> R
  ) async throws -> R {
    let grant = try await store.acquire(name, .counted, parameters, timeout: timeout)
    defer { grant.release() }
    return try await body()
  }
}

extension SharedStore {
  /// Returns the semaphore with a name. All processes that have the store open share it.
  ///
  /// - Parameters:
  ///   - name: 1 to 250 bytes of UTF-8, compared as bytes. Another length is an error of each use.
  ///   - permits: The number of permits, 1 to 4,096. It can change while no caller uses the name.
  /// - Returns: The semaphore. The call acquires no permit.
  /// - Complexity: O(1).
  public func semaphore(_ name: String, permits: Int) -> SharedSemaphore {
    SharedSemaphore(self, name, permits: permits)
  }
}
