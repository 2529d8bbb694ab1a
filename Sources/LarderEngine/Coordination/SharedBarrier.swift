// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A place where callers of all processes wait until a number of them has arrived.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let start = store.barrier("start", parties: 1)
/// try start.wait(timeout: .seconds(10))
/// ```
///
/// The barrier opens for the callers that arrived first, and is closed for the next ones: it can be
/// used any number of times. A caller whose wait ends early, and one whose process ends, have not
/// arrived; the others continue to wait. It opens for all of its parties or for none: a wait that ends
/// while the barrier opens has passed, or the others have not.
public struct SharedBarrier: Sendable {
  private let store: SharedStore
  private let name: LockName
  /// The number of callers that the barrier waits for.
  public let parties: Int

  init(_ store: SharedStore, _ name: String, parties: Int) {
    self.store = store
    self.name = LockName(.barrier, name)
    self.parties = parties
  }

  private var parameters: (UInt64, UInt64) {
    get throws(StoreError) { try LockKind.barrier.parameters(count: parties) }
  }

  /// Waits until all parties have arrived, and blocks the thread until then.
  ///
  /// - Parameter timeout: The longest wait.
  /// - Throws: `CancellationError`, or ``StoreError``: ``StoreError/Code/lockTimeout`` if the others do
  ///   not arrive before the deadline, and ``StoreError/Code/invalidOption`` if callers that wait use
  ///   another number of parties.
  /// - Complexity: O(*w*²) in the callers that wait.
  @_disfavoredOverload
  public func wait(timeout: Duration = .seconds(30)) throws {
    try store.acquire(name, .counted, parameters, timeout: timeout).release()
  }

  /// Waits until all parties have arrived, and suspends the task until then.
  ///
  /// - Parameter timeout: The longest wait.
  /// - Throws: The errors of the synchronous method; `CancellationError` at once if the task is
  ///   cancelled while it waits.
  /// - Complexity: O(*w*²) in the callers that wait.
  public func wait(timeout: Duration = .seconds(30)) async throws {
    try await store.acquire(name, .counted, parameters, timeout: timeout).release()
  }
}

extension SharedStore {
  /// Returns the barrier with a name. All processes that have the store open share it.
  ///
  /// - Parameters:
  ///   - name: 1 to 250 bytes of UTF-8, compared as bytes. Another length is an error of each use.
  ///   - parties: The number of callers to wait for, 1 to 4,096. It can change while no caller waits.
  /// - Returns: The barrier.
  /// - Complexity: O(1).
  public func barrier(_ name: String, parties: Int) -> SharedBarrier {
    SharedBarrier(self, name, parties: parties)
  }
}
