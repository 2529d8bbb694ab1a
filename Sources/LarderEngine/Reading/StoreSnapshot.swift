// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderSystem
internal import Synchronization

/// The state of a store after one commit, inside the closure of ``SharedStore/read(_:)``.
///
/// It is valid on the closure's thread until the closure returns.
public struct StoreSnapshot: Sendable {
  package let core: StoreCore
  private let snapshot: StorableSnapshot
  /// The number of the newest commit that the snapshot contains.
  public let commitVersion: UInt64

  fileprivate init(_ core: StoreCore, _ snapshot: borrowing Snapshot, _ storable: StorableSnapshot)
  {
    self.core = core
    self.snapshot = storable
    commitVersion = snapshot.commitVersion
  }

  /// Returns the bytes of a key, or `nil` if it has none.
  ///
  /// - Throws: ``StoreError``, with ``StoreError/Code/unreadableEntry`` for a damaged entry, and
  ///   ``StoreError/Code/closed`` after the closure has returned, or on another thread.
  public func bytes(forKey key: some CacheKey, in namespace: String = "") throws -> [UInt8]? {
    try value(forKey: EncodedKey(key), in: NamespaceHandle(name: namespace))?.payload
  }

  package func value(
    forKey key: EncodedKey, in space: NamespaceHandle
  ) throws -> StoredValue? {
    let outcome = try snapshot.withSnapshot { snapshot in
      try core.find(
        key, at: space.place(of: key, in: snapshot.generation), in: space, snapshot, .init(),
        readVersion: snapshot.readVersion)
    }
    switch outcome {
    case .found(let value): return value
    case .absent, .knownAbsent, .unchanged: return nil
    case .unreadable(let text): throw StoreError.unreadable(text, in: space.name)
    case nil:
      throw StoreError(
        .closed, during: "read",
        "The snapshot is used after its closure has returned, or on another thread. Read inside the "
          + "closure of read(_:), and return the values.")
    }
  }
}

extension SharedStore {
  /// Reads keys of several namespaces and caches in one state of the store.
  ///
  /// ```swift
  /// let sum = try store.read { snapshot in
  ///   let ada = try snapshot.value(forKey: "ada", in: balances) ?? 0
  ///   let grace = try snapshot.value(forKey: "grace", in: balances) ?? 0
  ///   return ada + grace
  /// }
  /// ```
  ///
  /// The state contains all writes of this process, and at least every commit that any process
  /// acknowledged before the call. No write of another process comes between two reads. Writers are not
  /// blocked, but the file grows while the closure runs, and after a compaction the other calls of this
  /// process wait for it, at most for `StoreOptions.openTimeout`: keep it short, and let it wait for no
  /// other use of the store. Values in memory are not used.
  ///
  /// - Parameter body: A closure that reads from the snapshot. It runs again if the store switched to
  ///   other files meanwhile. It must not write to the store.
  /// - Returns: The result of `body`.
  /// - Throws: ``StoreError``, with ``StoreError/Code/insideTransaction`` inside a transaction of this
  ///   store; or the error of `body`.
  public func read<R>(_ body: (StoreSnapshot) throws -> R) throws -> R {
    let core = try openCore("read")
    if core.bodyThread.load(ordering: .relaxed) == OSThread.token {
      throw StoreError.insideTransaction(path: core.directory.path)
    }
    try core.flush()
    do {
      return try core.withSnapshot("read") { snapshot in
        let storable = StorableSnapshot(snapshot)
        defer { storable.end() }
        return try body(StoreSnapshot(core, snapshot, storable))
      }
    } catch let damage as DamagedEntry {
      throw StoreError(
        .unreadableEntry, during: "read", path: core.directory.path,
        "An entry cannot be read: \(damage.text). Write the key again, or repair the store.")
    }
  }
}
