// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

extension SharedStore {
  /// The entries that any process removes from now on, with the cause.
  ///
  /// ```swift
  /// for await removal in store.removals {
  ///   if case .entry(let entry) = removal, entry.cause == .evicted {
  ///     print(entry.namespace, entry.keyText, entry.bytes, entry.pid)
  ///   }
  /// }
  /// ```
  ///
  /// An element follows the commit that removed the entry. Removals by a process that is killed after
  /// its commit are among them.
  ///
  /// The transactions of all processes record removals in shared memory while any process iterates, and
  /// about 30 seconds longer; otherwise it costs them nothing. The memory is bounded (128 kB). What an
  /// iterator that falls behind has missed is a ``StoreRemoval/gap(count:)``, and so is what happened
  /// while its process was stopped for long, or while the store switched to other files. A transaction
  /// that removes thousands of entries is one with a gap.
  ///
  /// Objects of an `ObjectStore` are not entries. The sequence ends when the store is closed or the
  /// task is cancelled.
  public var removals: StoreRemovals { StoreRemovals(store: self) }
}

/// The removals of a store by all processes; see ``SharedStore/removals``.
public struct StoreRemovals: AsyncSequence, Sendable {
  public typealias Element = StoreRemoval
  public typealias Failure = Never

  let store: SharedStore

  /// Begins a subscription: removals that are committed after this call are elements.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(store) }

  /// An iterator that waits for the next removal.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let store: SharedStore
    private let subscription: RemovalSubscription?
    private var reader: RemovalReader?

    init(_ store: SharedStore) {
      self.store = store
      let core = try? store.openCore("removals")
      subscription = core.flatMap { RemovalSubscription($0) }
      reader = core.flatMap { RemovalReader($0) }
    }

    /// Returns the next removal, or `nil` at the end.
    public mutating func next() async -> StoreRemoval? {
      await next(isolation: nil)
    }

    /// Returns the next removal, or `nil` at the end.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async -> StoreRemoval? {
      while !Task.isCancelled, let core = try? store.openCore("removals") {
        guard var reader = reader ?? RemovalReader(core) else { return nil }
        // Read before the ring: a commit in between ends the wait at once.
        guard let mark = try? core.observationMark() else { return nil }
        let found = reader.next(core)
        self.reader = reader
        if let found { return found }
        await reader.wait(core, mark, until: { [store] in store.hasClosed })
      }
      return nil
    }
  }
}

/// A subscription of this process, which its store's thread renews.
final class RemovalSubscription: Sendable {
  private let core: StoreCore

  init?(_ core: StoreCore) {
    guard let table = try? core.generation().table else { return nil }
    self.core = core
    core.removalInterest.withLock { $0.subscribers += 1 }
    core.renewRemovalInterest(in: table)
    // The thread renews it about once a second.
    core.watchFiles()
  }

  deinit { core.removalInterest.withLock { $0.subscribers -= 1 } }
}

/// The interest of a process in removals.
struct RemovalInterest: Sendable {
  var subscribers = 0
  /// The time until which writers record, as far as this process has seen to it.
  var promised: UInt64 = 0
  /// The number of times that removals may not have been recorded although there were subscribers.
  var lapses = 0
}

extension StoreCore {
  private static var interestMilliseconds: UInt64 { 30_000 }

  /// Lets the writers of all processes record removals for another 30 seconds, if this process has
  /// subscribers.
  func renewRemovalInterest(in table: SharedTable) {
    let now = Clocks.monotonicNanoseconds() / 1_000_000
    let end: UInt64? = removalInterest.withLock { interest in
      guard interest.subscribers > 0 else {
        interest.promised = 0
        return nil
      }
      if interest.promised != 0, now >= interest.promised { interest.lapses += 1 }
      interest.promised = now + Self.interestMilliseconds
      return interest.promised
    }
    guard let end else { return }
    table.wantRemovals(until: end, limit: now + RemovalLog.longestInterest)
    // Of a writer that was killed after its commit, before it woke the subscribers.
    if table.hasPendingRemovals { table.advanceWakeWord() }
  }
}

extension StoreCore {
  /// Returns the number of recorded removals. For tests.
  package func removalEvents() throws -> UInt64 { try generation().table.newestRemoval.number }
}

/// The place of a subscriber in the removal ring of a generation.
struct RemovalReader: Sendable {
  private var table: SharedTable
  private var cursor: RemovalCursor
  private var lapses: Int
  private var names: [UInt32: String] = [:]

  init?(_ core: StoreCore) {
    guard let generation = try? core.generation() else { return nil }
    table = generation.table
    cursor = table.newestRemoval
    lapses = core.removalInterest.withLock { $0.lapses }
  }

  /// Returns the next event, or `nil` if there is none yet.
  mutating func next(_ core: StoreCore) -> StoreRemoval? {
    guard let generation = try? core.generation() else { return nil }
    let current = core.removalInterest.withLock { $0.lapses }
    if current != lapses {
      lapses = current
      return .gap(count: nil)
    }
    let found = try? table.nextRemoval(&cursor) { version in
      try generation.table === table
        && generation.withSnapshot { $0.commitVersion } >= version
    }
    switch found {
    case .event(let event):
      return .entry(RemovedEntry(event, namespace: name(of: event.namespace, generation, core)))
    case .lost(let count): return .gap(count: count == 0 ? nil : count)
    case .some(.none), nil: break
    }
    guard generation.table !== table else { return nil }
    // Other files: their removals are recorded from their beginning on.
    table = generation.table
    cursor = RemovalCursor(position: 0, number: 0)
    names = [:]
    return .gap(count: nil)
  }

  private mutating func name(
    of number: UInt32, _ generation: Generation, _ core: StoreCore
  ) -> String {
    if let known = names[number] { return known }
    let found = try? generation.withSnapshot { try core.name(of: number, $0) }
    guard let name = found ?? nil else { return "" }
    names[number] = name
    return name
  }

  /// Suspends until there may be another event.
  func wait(
    _ core: StoreCore, _ mark: UInt32, until isOver: @escaping @Sendable () -> Bool
  ) async {
    guard let generation = try? core.generation() else { return }
    let lapses = lapses
    await core.nextWake(
      after: mark, of: generation,
      until: { [core] in isOver() || core.removalInterest.withLock { $0.lapses } != lapses })
  }
}
