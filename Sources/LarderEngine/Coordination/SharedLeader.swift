// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The choice of one process, of all that share a store, for work that must run once.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let leader = store.leader("cleanup")
/// try await leader.lead { term in
///   print("this process cleans up, in term \(term.number)")
/// }
/// ```
///
/// A leader leads until its closure returns or its process ends; then the caller leads that has waited
/// longest. A process that is stopped keeps the leadership. Everything else is as with ``SharedLock``.
public struct SharedLeader: Sendable {
  private let store: SharedStore
  private let name: LockName

  init(_ store: SharedStore, _ name: String) {
    self.store = store
    self.name = LockName(.leader, name)
  }

  /// Runs a closure while this process is the leader, and suspends the task until then.
  ///
  /// - Parameters:
  ///   - timeout: The longest wait to become leader; by default a year. Cancel the task to end it.
  ///   - body: A closure that gets the term. The leadership ends when it returns.
  /// - Returns: The result of `body`.
  /// - Throws: The error of `body`, `CancellationError` at once if the task is cancelled while it
  ///   waits, or ``StoreError``: ``StoreError/Code/lockTimeout``, and
  ///   ``StoreError/Code/lockedByCaller`` inside of `body`.
  /// - Complexity: O(*w*) in the callers that lead or wait.
  public func lead<R>(
    timeout: Duration = .seconds(31_536_000), _ body: (LeaderTerm) async throws -> R
  ) async throws -> R {
    let grant = try await store.acquire(name, .exclusive, timeout: timeout)
    defer { grant.release() }
    return try await body(LeaderTerm(grant))
  }

  /// Whether this process is the leader now.
  ///
  /// `false` also if the store was closed or the name is invalid. The answer can be outdated when the
  /// caller gets it; ``LeaderTerm/number`` is what other systems can compare.
  ///
  /// - Complexity: O(*w*) in the callers that lead or wait.
  public var isLeader: Bool {
    guard let file = try? store.openCore("lock").lockFiles.locks.existingFile(),
      let key = try? name.key, let slot = file.find(key)
    else { return false }
    return (file.list(slot) ?? []).contains { request in
      let state = file.state(request).state
      return file.owner(of: request) == file.owner && (state == .held || state == .granted)
    }
  }
}

/// The time in which a process is the leader.
public struct LeaderTerm: Sendable {
  private let grant: LockGrant

  init(_ grant: LockGrant) { self.grant = grant }

  /// The number of the term: greater than every earlier one of the name. It is a fencing token, as
  /// ``HeldLock/token``.
  public var number: UInt64 { grant.token }

  /// Whether the term continues. It ends before the closure only if the file `locks` was damaged.
  ///
  /// - Complexity: O(1).
  public var isCurrent: Bool { grant.isHeld }
}

extension SharedStore {
  /// Returns the leadership with a name. All processes that have the store open share it.
  ///
  /// - Parameter name: 1 to 250 bytes of UTF-8, compared as bytes. Another length is an error of each
  ///   use.
  /// - Returns: The leadership. The call does not wait for it.
  /// - Complexity: O(1).
  public func leader(_ name: String) -> SharedLeader { SharedLeader(self, name) }
}
