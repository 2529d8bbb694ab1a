// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine
internal import Synchronization

/// A change in the namespace of a cache by any process.
public enum CacheChange<Key: Sendable>: Sendable {
  /// One key was written or removed.
  case key(Key, ChangeKind, cursor: ChangeCursor)
  /// All values were removed.
  case cleared(cursor: ChangeCursor)
  /// All values with a tag were removed.
  case untagged(String, cursor: ChangeCursor)
  /// Changes are missing here, or the changed key has more than 256 bytes: any value may be another one.
  case gap(cursor: ChangeCursor)

  /// The place after the change. Within the changes of one commit it is the place before the commit,
  /// except for the last one: a program that continues there repeats changes rather than missing them.
  public var cursor: ChangeCursor {
    switch self {
    case .key(_, _, let cursor), .cleared(let cursor), .untagged(_, let cursor), .gap(let cursor):
      cursor
    }
  }
}

extension PersistentCache where Key: DecodableCacheKey {
  /// Returns the changes of the cache's namespace by all processes after a place, or from now on.
  ///
  /// ```swift
  /// for try await change in try cache.changes() {
  ///   if case .key(let key, let kind, _) = change { print(kind, key) }
  /// }
  /// ```
  ///
  /// The changes are those of ``/LarderEngine/SharedStore/changes(since:)``: each one of a committed
  /// write, in order, or a gap. Keys of other types in the namespace are left out.
  ///
  /// The log is that of the store: while the namespace is quiet, commits of others overwrite its oldest part.
  /// A program that restarts saves ``CacheChanges/cursor`` from time to time, not only with a change.
  ///
  /// - Parameter cursor: The place after which the changes begin; `.now` is the current end.
  /// - Throws: ``/LarderEngine/StoreError``; with the code `unsupportedByStorage` without a store.
  public func changes(since cursor: ChangeCursor = .now) throws -> CacheChanges<Key> {
    guard let backend = backend.transactional else {
      throw StoreError.unsupported("changes", "Only a store has a change log.")
    }
    let changes = try backend.store.changes(since: cursor)
    return CacheChanges(base: changes, namespace: namespace)
  }
}

/// The changes of a cache's namespace; see ``PersistentCache/changes(since:)``.
public struct CacheChanges<Key: DecodableCacheKey>: AsyncSequence, Sendable {
  public typealias Element = CacheChange<Key>
  public typealias Failure = any Error

  /// The furthest place that an iteration has reached.
  fileprivate final class Progress: Sendable {
    let cursor: Mutex<ChangeCursor>
    init(_ cursor: ChangeCursor) { self.cursor = Mutex(cursor) }

    func advance(to place: ChangeCursor) {
      cursor.withLock { if place.commitVersion > $0.commitVersion { $0 = place } }
    }
  }

  let base: StoreChanges
  let namespace: String
  private let progress: Progress

  init(base: StoreChanges, namespace: String) {
    self.base = base
    self.namespace = namespace
    progress = Progress(base.start)
  }

  /// A place after all changes that an iteration of this sequence has delivered, except for the last one
  /// until the next is requested. Commits of other namespaces advance it as well. Of several iterations it
  /// is the place of the furthest.
  public var cursor: ChangeCursor { progress.cursor.withLock { $0 } }

  /// Begins an iteration.
  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(base: base, namespace: namespace, progress)
  }

  /// An iterator that waits for the next change.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private var base: StoreChanges.AsyncIterator
    private let namespace: String
    private var before: ChangeCursor
    private var waiting: ArraySlice<CacheChange<Key>> = []
    private let progress: Progress

    fileprivate init(base: StoreChanges, namespace: String, _ progress: Progress) {
      self.base = base.makeAsyncIterator()
      self.namespace = namespace
      before = base.start
      self.progress = progress
    }

    /// Returns the next change, or `nil` at the end.
    ///
    /// - Throws: ``/LarderEngine/StoreError`` if the store cannot be read.
    public mutating func next() async throws -> CacheChange<Key>? {
      while true {
        if let change = waiting.popFirst() { return change }
        progress.advance(to: before)
        guard let event = try await base.next() else { return nil }
        defer { before = event.cursor }
        guard case .commit(let changes, let end) = event else {
          return .gap(cursor: event.cursor)
        }
        let own = changes.filter { change in
          (change.namespace == nil || change.isIn(namespace))
            && element(change, end) != nil
        }
        waiting =
          own.enumerated().compactMap { index, change in
            element(change, index == own.count - 1 ? end : before)
          }[...]
      }
    }

    private func element(_ change: StoreChange, _ cursor: ChangeCursor) -> CacheChange<Key>? {
      if change.kind == .cleared { return .cleared(cursor: cursor) }
      if change.kind == .untagged { return .untagged(change.keyText, cursor: cursor) }
      if let key = change.key(as: Key.self) { return .key(key, change.kind, cursor: cursor) }
      return change.isKeyCut ? .gap(cursor: cursor) : nil
    }
  }
}
