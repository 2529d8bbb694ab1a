// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A commit of a store, for reads that must not be older.
///
/// It is a place in the changes of the store, and its text is as opaque as that of a cursor: it can travel
/// with a request from one process to the next.
///
/// ```swift
/// cache["ada"] = 3                              // does not wait for the commit
/// let token = try store.commitToken()           // does
/// let text = token.description                  // to another process, for example in a header
/// let value = try await cache.value(forKey: "ada", atLeast: CommitToken(text))
/// ```
public typealias CommitToken = ChangeCursor

extension SharedStore {
  /// Returns the token of the newest commit, which contains every write that this process began before
  /// the call. Waits for the commits of its pending writes.
  ///
  /// - Throws: ``StoreError``.
  public func commitToken() throws -> CommitToken {
    try openCore("commitToken").flush()
    return try changeCursor()
  }

  /// Waits until reads of this process contain a commit, and blocks the thread until then.
  ///
  /// Every commit that a process has acknowledged is in all later reads of the machine, so the wait is
  /// for a commit that is still in progress.
  ///
  /// - Parameters:
  ///   - token: A token of this store.
  ///   - timeout: The longest wait; zero means no wait.
  /// - Throws: ``StoreError``: ``StoreError/Code/commitTimeout`` if the store does not contain the commit
  ///   at the deadline, for example because it began empty or was restored since;
  ///   ``StoreError/Code/invalidOption`` for a token of another store. `CancellationError`.
  public func wait(for token: CommitToken, timeout: Duration = .seconds(30)) throws {
    let end = Clocks.deadline(after: timeout)
    let token = try openCore("wait").place(of: token)
    while let snapshot = try missing(token, at: end) {
      try Task.checkCancellation()
      let left = Int64(clamping: StoreCore.nanoseconds(until: end))
      snapshot.generation.table.sleep(
        whileWakeWordIs: snapshot.word, nanoseconds: min(left, 100_000_000))
    }
  }

  /// Waits until reads of this process contain a commit, and suspends the task until then; see the
  /// synchronous form.
  public func wait(for token: CommitToken, timeout: Duration = .seconds(30)) async throws {
    let end = Clocks.deadline(after: timeout)
    let token = try openCore("wait").place(of: token)
    while let snapshot = try missing(token, at: end) {
      try Task.checkCancellation()
      let core = try openCore("wait")
      await core.change(
        of: [], after: snapshot, ObserverConditions(until: end, core) { self.hasClosed })
    }
  }

  /// Returns the snapshot to wait on, or `nil` if it contains the commit.
  private func missing(_ token: CommitToken, at end: UInt64) throws -> ObservedSnapshot? {
    let core = try openCore("wait")
    _ = try core.place(of: token)
    let mark = try core.observationMark()
    let generation = try core.generation()
    let newest = try core.withSnapshot("wait") { $0.commitVersion }
    if newest >= token.commitVersion { return nil }
    guard Clocks.monotonicNanoseconds() < end else {
      throw StoreError(
        .commitTimeout, during: "wait", path: path,
        "The store does not contain commit \(token.commitVersion); its newest is \(newest). Wait longer "
          + "if a process still writes it. If the store began empty after a crash or was restored, "
          + "the commit is lost: write the data again.")
    }
    return core.observed(generation, commitVersion: newest, mark: mark)
  }

  /// Waits until a commit is on the disk: it survives a crash of the machine from then on.
  ///
  /// In a `.durable` store a commit is when its writer's call returns; other processes may see it earlier, by up
  /// to one sync. In a `.durableStrict` store it is when it can be read, but for transactions with more than 4 MB of
  /// changes. In a `.relaxed` store the call syncs, unless another process has done so since the commit.
  ///
  /// - Parameter token: A token of this store.
  /// - Throws: ``StoreError``, with ``StoreError/Code/invalidOption`` for a `.cache`, which begins empty
  ///   after such a crash, and as ``wait(for:timeout:)``.
  public func waitUntilDurable(_ token: CommitToken) throws {
    let core = try openCore("waitUntilDurable")
    guard core.options.durability != .cache else {
      throw StoreError(
        .invalidOption, during: "waitUntilDurable", path: path,
        "A store of the durability .cache begins empty after a crash of the machine. Create the store "
          + "with .relaxed or .durable.")
    }
    let token = try core.place(of: token)
    try wait(for: token)
    try core.waitUntilDurable(token.commitVersion)
  }

  /// Waits until a commit is on the disk, without blocking a thread of Swift's pool; see the synchronous
  /// form.
  public func waitUntilDurable(_ token: CommitToken) async throws {
    try await BackgroundExecutor.shared.run { try self.waitUntilDurable(token) }
  }
}
