// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// The contents of a store and its use by all processes together.
public struct StoreStatistics: Sendable, Hashable {
  /// The contents of a namespace.
  public struct Namespace: Sendable, Hashable {
    /// The name of the namespace.
    public let name: String
    /// The number of stored entries of the namespace. Those that have expired, were removed by tag or are
    /// negative count until they are deleted, as they do against the budget;
    /// ``StoreNamespace/count()`` is the number of visible ones.
    public let entries: Int
    /// The bytes that the entries of the namespace count against the budget.
    public let bytes: Int
  }

  /// A process that holds an old snapshot.
  public struct Reader: Sendable, Hashable {
    /// The process that holds the reader slot.
    public let pid: Int32
    /// The number of commits since its snapshot. Pages that they freed cannot be reused while the
    /// process holds the snapshot.
    public let transactionsBehind: Int
    /// The duration of the oldest read of the process, within about 16 seconds; `nil` if it holds
    /// its snapshot for another purpose: to sync, verify or copy a store.
    public var duration: Duration?
    /// The bytes of the data file that the snapshot keeps from reuse.
    public var pinnedBytes = 0
    /// Whether the process is stopped, by a signal or a debugger.
    public var isStopped = false
  }

  /// The path of the store.
  public let path: String
  /// The durability of the store.
  public let durability: Durability
  /// The number of the current generation.
  public let generation: UInt64
  /// The number of stored entries. Those that have expired count until they are removed, as they do
  /// against the budget: ``expiredEntries``.
  public let entries: Int
  /// The number of entries that have expired and are still stored, invisible to all processes: a part
  /// of ``entries``, at most 100,000. A process that writes removes them within seconds.
  public let expiredEntries: Int
  /// The number of pinned entries, which are never evicted: a part of ``entries``.
  public let pinnedEntries: Int
  /// The bytes that the pinned entries count against the budget, of which they have at most half.
  public let pinnedBytes: Int
  /// The number of negative entries, which say that a key has no value: a part of ``entries``.
  public let negativeEntries: Int
  /// The bytes that the negative entries count against the budget, of which they have at most an eighth.
  public let negativeBytes: Int
  /// The stored size of all objects, which counts against the budget too.
  public let objectBytes: Int
  /// The sum of what the stored entries count against the budget: 64 bytes, key and value each; 8
  /// bytes more with a sliding expiration, and with tags 8 and 8 for each.
  public let bytes: Int
  /// The most that ``bytes`` and ``objectBytes`` may be together; `nil` without a budget.
  public let budget: Int?
  /// The size of `data.mdb`, which never shrinks and may reach about twice the budget, more while a
  /// read lasts longer than 0.1 s. Where it is written through the map, it is up to an eighth, at most
  /// 16 MiB, ahead of what is in use.
  public let fileBytes: Int
  /// Whether a process that writes with options like this one's commits through the map, as long as
  /// the disk has room. ``StoreOptions/usesWriteMap``
  public let usesWriteMap: Bool
  /// The namespaces, with their counts.
  public let namespaces: [Namespace]

  /// Reads answered from a process's memory, as far as the processes have reported.
  public let memoryHits: Int
  /// Reads answered from the store's file.
  public let storeHits: Int
  /// The number of reads that found that a key has no value.
  public let negativeHits: Int
  /// The number of reads that found nothing. A call that waits for a computation is one, however long it
  /// waits.
  public let misses: Int
  /// The number of entries written.
  public let sets: Int
  /// The number of entries that callers removed.
  public let removals: Int
  /// The number of entries evicted to keep to the budget.
  public let evictions: Int
  /// The number of entries removed after their expiration time.
  public let expirations: Int
  /// The number of entries found damaged.
  public let damagedEntries: Int
  /// The number of committed transactions.
  public let commits: Int
  /// Results computed under single flight.
  public let computations: Int
  /// Computed results that were not stored because the key was written during the computation.
  public let rejectedFills: Int

  /// LMDB's reader slots in use, and how many there are.
  public let readers: Int
  /// The number of reader slots.
  public let maximumReaders: Int
  /// The reader with the oldest snapshot, or `nil` if all snapshots are the newest. In a store that survives system
  /// crashes it can be a process that holds the snapshot of the last checkpoint, with no ``Reader/duration``.
  public let oldestReader: Reader?
  /// The processes that have the store open.
  public let processes: [Int32]
  /// The write-behind requests of this process that are not committed yet.
  public let pendingWrites: Int
  /// The interval between syncs of a `.relaxed` store while it is written to; `nil` for other
  /// stores.
  public let syncInterval: Duration?
  /// The commits, of all processes, that a crash of the system now would undo; `nil` for stores
  /// that are not `.relaxed`.
  public let unsyncedCommits: Int?
  /// The redo log of a relaxed or durable store; `nil` for a cache.
  public let log: LogStatus?
  /// The links to remote servers, as ``SharedStore/remotes()``.
  public let remotes: [RemoteStatus]

  /// The share of reads that were hits, from 0 to 1; `nil` before the first read.
  public var hitRatio: Double? {
    // Not as integers: the counters of a damaged table may be anything.
    let hits = Double(memoryHits) + Double(storeHits)
    let all = hits + Double(misses)
    return all == 0 ? nil : hits / all
  }
}

extension StoreCore {
  package func statistics() throws -> StoreStatistics {
    try reading("statistics") { generation in
      // In one snapshot, so that the parts fit together.
      let (totals, expired, namespaces) = try generation.withSnapshot { snapshot in
        let expired = try snapshot.expiredEntries(at: options.clock.now(), limit: 100_000)
        return (try snapshot.totals(), expired, try snapshot.namespaces())
      }
      let table = generation.table
      let (information, size) = try generation.whileOpen { environment in
        (environment.information, generation.dataSize)
      }
      let oldestReader = try generation.describedOldestReader()
      let log = generation.logStatus(
        newest: generation.versionBase &+ information.lastTransaction)
      func total(_ counter: Counter) -> Int { Int(clamping: table.total(counter)) }
      return StoreStatistics(
        path: directory.path, durability: options.durability, generation: generation.number,
        entries: Int(clamping: totals.entries), expiredEntries: expired,
        pinnedEntries: Int(clamping: totals.pinned.entries),
        pinnedBytes: Int(clamping: totals.pinned.bytes),
        negativeEntries: Int(clamping: totals.absent.entries),
        negativeBytes: Int(clamping: totals.absent.bytes),
        objectBytes: Int(clamping: totals.objectBytes),
        bytes: Int(clamping: totals.bytes),
        budget: table.budget == 0 ? nil : Int(clamping: table.budget),
        fileBytes: size,
        usesWriteMap: options.usesWriteMap && options.durability == .cache
          && FileSystem.neverRelocatesBlocks(below: generation.path),
        namespaces: namespaces.map { namespace in
          .init(
            name: String(decoding: namespace.record.name, as: UTF8.self),
            entries: Int(clamping: namespace.record.entries),
            bytes: Int(clamping: namespace.record.bytes))
        },
        memoryHits: total(.memoryHits), storeHits: total(.storeHits),
        negativeHits: total(.absentHits), misses: total(.misses),
        sets: total(.sets), removals: total(.removals), evictions: total(.evictions),
        expirations: total(.expirations), damagedEntries: total(.damagedEntries),
        commits: total(.commits), computations: total(.computations),
        rejectedFills: total(.rejectedFills), readers: information.usedReaders,
        maximumReaders: information.maximumReaders, oldestReader: oldestReader,
        processes: generation.presentProcesses,
        pendingWrites: queue.state.withLock { $0.behindCount },
        syncInterval: options.durability != .relaxed ? nil : .milliseconds(table.syncInterval),
        unsyncedCommits: options.durability == .relaxed ? log?.unsyncedCommits : nil,
        log: log,
        remotes: table.remoteStatuses)
    }
  }
}

extension Generation {
  /// The oldest reader, with what it costs.
  fileprivate func describedOldestReader() throws -> StoreStatistics.Reader? {
    let found = try whileOpen { environment in
      environment.oldestReader.map { ($0, environment.information) }
    }
    guard let (oldest, information) = found else { return nil }
    let snapshot = information.lastTransaction &- UInt64(oldest.transactionsBehind)
    let pages = try withSnapshot { try $0.transaction.pagesFreed(after: snapshot) }
    return described(oldest, pages: pages, pageSize: information.pageSize)
  }
}
