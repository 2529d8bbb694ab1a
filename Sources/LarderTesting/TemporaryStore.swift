// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Larder
import Synchronization

/// A store in a fresh directory, which is gone when the test is over.
///
/// ```swift
/// let temporary = try TemporaryStore(StoreOptions(budget: .megabytes(16)))
/// let cache = PersistentCache<String, Int>(storage: temporary.store)
/// let worker = try TestExecutable("worker").start([temporary.path])
/// // … what the test does, kills included …
/// try temporary.verifyAndClose()
/// ```
///
/// Files are removed with the last reference to it: keep it, not only its ``path``, for as long as
/// children use the store. Any number may be used at the same time.
public final class TemporaryStore: Sendable {
  /// The checks of a store that did not end well, and what they found.
  public struct VerificationFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The store's directory, which is removed with the ``TemporaryStore``.
    public let path: String
    /// What ``/LarderEngine/SharedStore/verify(progress:)`` found.
    public let findings: [StoreFinding]

    /// All findings, one a line.
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

  /// The store's directory, for child processes: `SharedStore(at: path)`.
  public let path: String

  /// Makes the directory and opens a store in it.
  ///
  /// - Throws: ``SystemCallError`` when there is no room for temporary files; `StoreError`.
  public init(_ options: StoreOptions = StoreOptions()) throws {
    directory = try TemporaryDirectory()
    path = directory.appending("store")
    state = Mutex(State(store: try SharedStore(at: path, options), options: options))
  }

  deinit { state.withLock { $0.store.close() } }

  /// The open handle: the first one, or what ``reopen(_:)`` made last.
  public var store: SharedStore { state.withLock { $0.store } }

  /// The path of something beside the store (a log, a clock, a history), removed with it.
  public func appending(_ name: String) -> String { directory.appending(name) }

  /// Closes the store and opens it again, as the next start of a program would.
  ///
  /// The files are closed only if no other handle of this process is open. Caches over the old
  /// handle fail with the code `closed` from now on: make new ones.
  ///
  /// - Parameter options: Other options than before, which count for later calls too.
  /// - Throws: `StoreError`; the store stays closed then.
  @discardableResult
  public func reopen(_ options: StoreOptions? = nil) throws -> SharedStore {
    let (old, options) = state.withLock { state in
      if let options { state.options = options }
      return (state.store, state.options)
    }
    // Outside the lock: the callbacks of the options may ask for the store.
    old.close()
    let new = try SharedStore(at: path, options)
    state.withLock { $0.store = new }
    return new
  }

  /// Waits for what was set, checks every page, every entry and the books, and closes the handle.
  ///
  /// Writers of other processes wait meanwhile. A store that was closed is opened for it.
  ///
  /// - Throws: ``VerificationFailure`` with the findings, errors and warnings; `StoreError` when the store
  ///   cannot be checked.
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
