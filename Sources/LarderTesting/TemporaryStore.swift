// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Larder
import Synchronization

/// A store in a new directory, which is removed at the end of the test.
///
/// ```swift
/// let temporary = try TemporaryStore(StoreOptions(budget: .megabytes(16)))
/// let cache = PersistentCache<String, Int>(storage: temporary.store)
/// let worker = try TestExecutable("worker").start([temporary.path])
/// // … the test, including kills …
/// try temporary.verifyAndClose()
/// ```
///
/// The files are removed when the last reference is released: keep the object, not only its ``path``,
/// while children use the store. Any number can exist at the same time.
public final class TemporaryStore: Sendable {
  /// The error of a store that verification found inconsistent.
  public struct VerificationFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The directory of the store, which is removed with the ``TemporaryStore``.
    public let path: String
    /// The findings of `SharedStore.verify(progress:)`.
    public let findings: [StoreFinding]

    /// The findings, one per line.
    public var description: String {
      "The store at \(path) is not sound:" + findings.map { "\n  \($0)" }.joined()
    }
  }

  private struct State {
    var store: SharedStore
    var options: StoreOptions
  }

  private let directory: TemporaryDirectory
  private let state: Mutex<State>

  /// The directory of the store, for child processes: `SharedStore(at: path)`.
  public let path: String

  /// Creates the directory and opens a store in it.
  ///
  /// - Throws: ``SystemCallError`` if the directory cannot be created; `StoreError`.
  public init(_ options: StoreOptions = StoreOptions()) throws {
    directory = try TemporaryDirectory()
    path = directory.appending("store")
    state = Mutex(State(store: try SharedStore(at: path, options), options: options))
  }

  deinit { state.withLock { $0.store.close() } }

  /// The open handle: the first one, or the last one of ``reopen(_:)``.
  public var store: SharedStore { state.withLock { $0.store } }

  /// Returns a path next to the store (for a log, a clock, a history), which is removed with it.
  public func appending(_ name: String) -> String { directory.appending(name) }

  /// Closes the store and reopens it, as a restart of a program does.
  ///
  /// The files are closed only if no other handle of this process is open. Caches over the old
  /// handle then throw errors with the code `closed`: create new ones.
  ///
  /// - Parameter options: New options, which also apply to later calls.
  /// - Throws: `StoreError`; the store stays closed in that case.
  @discardableResult
  public func reopen(_ options: StoreOptions? = nil) throws -> SharedStore {
    let (old, options) = state.withLock { state in
      if let options { state.options = options }
      return (state.store, state.options)
    }
    // Outside the lock: the callbacks of the options may use the store.
    old.close()
    let new = try SharedStore(at: path, options)
    state.withLock { $0.store = new }
    return new
  }

  /// Waits for pending writes, verifies every page, every entry and the counters, and closes the
  /// handle. A closed store is opened first.
  ///
  /// - Throws: ``VerificationFailure`` with the errors and warnings; `StoreError` if the store cannot be
  ///   verified.
  /// - Complexity: Reads the whole file.
  public func verifyAndClose() throws {
    let findings: [StoreFinding]
    do {
      findings = try Self.findings(in: store)
    } catch let error as StoreError where error.code == .closed {
      findings = try Self.findings(in: reopen())
    }
    store.close()
    if !findings.isEmpty { throw VerificationFailure(path: path, findings: findings) }
  }

  private static func findings(in store: SharedStore) throws -> [StoreFinding] {
    try store.sync()
    return try store.verify()
  }
}
