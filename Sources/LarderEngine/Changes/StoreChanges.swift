// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

extension SharedStore {
  /// The place after all changes that are committed now.
  ///
  /// It does not begin the change log: what is committed after it is a gap if the store has none yet.
  /// `changes().start` is such a place as well, and begins the log.
  ///
  /// - Throws: ``StoreError``.
  public func changeCursor() throws -> ChangeCursor {
    try openCore("changes").place(of: .now)
  }

  /// Returns the changes of entries by all processes after a place, or from now on.
  ///
  /// ```swift
  /// for try await event in try store.changes(since: saved.map { try ChangeCursor($0) } ?? .now) {
  ///   switch event {
  ///   case .commit(let changes, let cursor):
  ///     for change in changes { print(change.kind, change.namespace ?? "", change.keyText) }
  ///     save(cursor.description)
  ///   case .gap(_, _, let cursor):
  ///     readEverythingAgain()
  ///     save(cursor.description)
  ///   }
  /// }
  /// ```
  ///
  /// Each commit that changed entries is one event, in the order of the commits, also that of a process
  /// that was killed after it; or its number is in a reported gap. Nothing is delivered twice or left
  /// out silently. A change is delivered after its commit, and reading its key gives that value or a
  /// newer one.
  ///
  /// The first call in the life of the store begins its change log: at least the last 1,024 commits that
  /// changed entries, and usually several times as many, in less than a megabyte of the store's file.
  /// From then on each commit of any process writes a small record; see ``setChangeLog(commits:)``. A
  /// transaction whose keys have more than 16 kB is a gap. Objects of an `ObjectStore` and values without
  /// a store are no entries.
  ///
  /// While nothing changes, a process with iterators wakes at most once a second.
  ///
  /// - Parameter cursor: The place after which the changes begin; ``ChangeCursor/now`` is the current end.
  ///   A place before the beginning of the log begins with a gap.
  /// - Returns: A sequence that ends when the store is closed or the task is cancelled. Each iterator
  ///   begins at the same place.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for a cursor of another store,
  ///   ``StoreError/Code/invalidCursor`` for one with a number that no commit has.
  public func changes(since cursor: ChangeCursor = .now) throws -> StoreChanges {
    let core = try openCore("changes")
    try core.beginChangeLog()
    return StoreChanges(store: self, start: try core.place(of: cursor))
  }

  /// Returns committed changes after a place, and blocks the thread until there is one or the timeout
  /// passes.
  ///
  /// A program of threads follows a store with it; the woken thread is the one that reads, so it has a
  /// change sooner than a task that waits in ``changes(since:)``.
  ///
  /// ```swift
  /// var cursor = try store.changes().start
  /// while true {
  ///   for event in try store.recentChanges(since: cursor, timeout: .seconds(30)) {
  ///     print(event)
  ///     cursor = event.cursor
  ///   }
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - cursor: The place after which the changes begin.
  ///   - limit: The most events.
  ///   - timeout: The longest wait for the first event; zero means no wait. While nothing changes, the
  ///     thread wakes once a second.
  /// - Returns: The events, none if there are no later changes.
  /// - Throws: ``StoreError``, as ``changes(since:)``; ``StoreError/Code/closed`` within a second if the
  ///   store is closed during the wait. `CancellationError` within a second.
  public func recentChanges(
    since cursor: ChangeCursor, limit: Int = 1000, timeout: Duration = .zero
  ) throws -> [ChangeEvent] {
    let end = Clocks.deadline(after: timeout)
    let first = try openCore("changes")
    try first.beginChangeLog()
    let cursor = try first.place(of: cursor)
    // The generation whose log was begun; one that is ended during the wait stays so.
    var begun: Generation? = try first.generation()
    while true {
      let core = try openCore("changes")
      // Read before the log: a commit in between ends the wait at once.
      let mark = try core.observationMark()
      let generation = try core.generation()
      if begun !== generation {
        try core.beginChangeLog()
        _ = try core.place(of: cursor)
        begun = generation
      }
      let events = try core.changes(after: cursor, limit: limit).events
      let left = StoreCore.nanoseconds(until: end)
      if !events.isEmpty || left == 0 || limit <= 0 { return events }
      try Task.checkCancellation()
      generation.table.sleep(
        whileWakeWordIs: mark, nanoseconds: min(Int64(clamping: left), 1_000_000_000))
    }
  }

  /// Sets the number of commits that the change log remembers at least, for all processes. Its present
  /// records are deleted: every cursor has a gap. For each of them the file has room for
  /// 256 bytes of changes, usually those of several commits.
  ///
  /// The number is a part of the stored data. `larder repair`, and a crash after which a cache begins
  /// empty, end the log.
  ///
  /// - Parameter commits: The number, from 1 to 1,000,000, or `nil` to end the log until
  ///   ``changes(since:)`` begins it again. Writes have no cost then.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for another number.
  public func setChangeLog(commits: Int?) throws {
    let core = try openCore("setChangeLog")
    guard commits.map({ (1...1_000_000).contains($0) }) ?? true else {
      throw StoreError(
        .invalidOption, during: "setChangeLog",
        "Invalid option: the change log cannot remember \(commits ?? 0) commits. Pass 1 to 1,000,000, "
          + "or `nil` to end it.")
    }
    try core.setChangeCapacity(UInt64(commits ?? 0))
  }
}

extension StoreCore {
  static var usualChangeCapacity: UInt64 { 1024 }

  func setChangeCapacity(_ capacity: UInt64) throws {
    try runExclusively { core in
      try core.withGeneration { generation in
        _ = try core.transact(in: generation) { try $0.setChangeCapacity(capacity) }
      }
    }
  }

  /// Begins the change log, unless the store has one.
  func beginChangeLog() throws {
    let hasLog = try withSnapshot("changes") { try $0.totals().changeCapacity > 0 }
    guard !hasLog else { return }
    try runExclusively { core in
      try core.withGeneration { generation in
        _ = try core.transact(in: generation) { transaction in
          // Another process may have been faster.
          guard transaction.totals.changeCapacity == 0 else { return }
          try transaction.setChangeCapacity(Self.usualChangeCapacity)
        }
      }
    }
  }

  /// Returns the place that a cursor means now.
  ///
  /// - Throws: ``StoreError/Code/invalidOption`` for a cursor of another store.
  func place(of cursor: ChangeCursor) throws -> ChangeCursor {
    if cursor == .now {
      return try withSnapshot("changes") { snapshot in
        ChangeCursor(
          storeID: snapshot.generation.meta.storeID.0, commitVersion: snapshot.commitVersion)
      }
    }
    guard try cursor.storeID == generation().meta.storeID.0 else {
      throw StoreError(
        .invalidOption, during: "changes", path: directory.path,
        "The cursor or token \(cursor) belongs to another store, or to one that was deleted and created "
          + "again. Read the store's data again, and begin with .now.")
    }
    guard cursor.commitVersion < .max else {
      throw StoreError(
        .invalidCursor, during: "changes", path: directory.path,
        "No commit of this store has the number of the cursor \(cursor). Begin with .now.")
    }
    return cursor
  }

  /// Returns the changes of a key that the change log contains, the oldest first, and whether there is a
  /// log.
  package func loggedChanges(
    of key: EncodedKey, in namespace: String
  ) throws -> (changes: [StoreChange], hasLog: Bool) {
    let start = ChangeCursor(storeID: try generation().meta.storeID.0, commitVersion: 0)
    let found = try changes(after: start, limit: .max).events.flatMap { event in
      if case .commit(let changes, _) = event { changes } else { [] as [StoreChange] }
    }
    let hasLog = try withSnapshot("changes") { try $0.totals().changeCapacity > 0 }
    return (found.filter { $0.concerns(key, in: namespace) }, hasLog)
  }

  /// Returns the events after a place, in one snapshot.
  ///
  /// - Returns: The events, and the place after them, which may be later than that of the last event.
  func changes(
    after cursor: ChangeCursor, limit: Int
  ) throws -> (events: [ChangeEvent], end: ChangeCursor) {
    try withSnapshot("changes") { snapshot in
      let newest = snapshot.commitVersion
      if snapshot.generation.table.lastStamped > newest { noteUncommittedStamp() }
      guard newest >= cursor.commitVersion else {
        // The files were replaced by older ones.
        let end = ChangeCursor(storeID: cursor.storeID, commitVersion: newest)
        return ([.gap(from: 1, to: newest, cursor: end)], end)
      }
      var reader = ChangeReader(after: cursor)
      try reader.read(snapshot, snapshot.totals(), limit: limit) { number in
        try name(of: number, snapshot) ?? ""
      }
      return (reader.events, reader.cursor)
    }
  }
}

/// The changes of a store by all processes; see ``SharedStore/changes(since:)``.
public struct StoreChanges: AsyncSequence, Sendable {
  public typealias Element = ChangeEvent
  public typealias Failure = any Error

  let store: SharedStore
  /// The place after which each iteration begins.
  public let start: ChangeCursor

  /// Begins an iteration.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(store: store, position: start) }

  /// An iterator that waits for the next change.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let store: SharedStore
    var position: ChangeCursor
    private var waiting: ArraySlice<ChangeEvent> = []
    /// The generation whose log was begun; one that was ended stays so.
    private var begun: Generation?

    init(store: SharedStore, position: ChangeCursor) {
      self.store = store
      self.position = position
    }

    /// Returns the next event, or `nil` at the end.
    ///
    /// - Throws: ``StoreError`` if the store cannot be read.
    public mutating func next() async throws -> ChangeEvent? { try await next(isolation: nil) }

    /// Returns the next event, or `nil` at the end.
    ///
    /// - Throws: ``StoreError`` if the store cannot be read.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(any Error) -> ChangeEvent? {
      if store.isForkedChild { throw StoreError.usedAfterFork("changes") }
      while !Task.isCancelled, let core = try? store.openCore("changes") {
        if let event = waiting.popFirst() { return event }
        // Read before the log: a commit in between ends the wait at once.
        let mark = try core.observationMark()
        let generation = try core.generation()
        // A cache that started empty has no log.
        if let begun, begun !== generation { try core.beginChangeLog() }
        begun = generation
        let (events, end) = try core.changes(after: position, limit: 100)
        position = end
        waiting = events[...]
        if waiting.isEmpty {
          await core.nextWake(
            after: mark, of: generation, commitVersion: position.commitVersion,
            until: { [store] in store.hasClosed })
        }
      }
      return nil
    }
  }
}

extension StoreCore {
  /// Suspends until the wake-up word changes, the store switches generations, or the wait is over; and if
  /// the writer of a commit after `commitVersion` was killed before it advanced the word.
  func nextWake(
    after mark: UInt32, of generation: Generation, commitVersion: UInt64 = .max,
    until isOver: @escaping @Sendable () -> Bool
  ) async {
    let table = generation.table
    await change(
      of: [], after: observed(generation, commitVersion: commitVersion, mark: mark),
      ObserverConditions { isOver() || table.wakeWord != mark })
  }
}
