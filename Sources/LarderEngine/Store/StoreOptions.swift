// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The guarantee of a store for a crash of the operating system or the machine.
///
/// It is fixed when the store is created. At every level, every committed write survives the kill
/// of any process at any instruction.
public enum Durability: String, Sendable, Hashable, CaseIterable {
  /// No write waits for the disk, except the first one after the store was idle for 5 seconds.
  ///
  /// After a crash of the operating system, the store recognises by the boot id that it is
  /// unsynced, and starts empty unless it was idle or closed. It also starts empty after an orderly
  /// reboot if its last process was ended within 5 seconds of the last commit without closing it.
  case cache
  /// Each commit is on the disk before its call returns.
  ///
  /// A commit costs one sync of the store's redo log, which the commits of all processes and threads share that
  /// come at the same time. Other processes see a commit up to one sync before its call returns: after a crash of the operating
  /// system in between, they may have read what is lost. ``SharedStore/waitUntilDurable(_:)`` waits for a
  /// commit that was read.
  case durable
  /// Each commit is on the disk before another process sees it, and before its call returns.
  ///
  /// As `.durable`, but the sync takes place before the commit, while no other process can write. So transactions do
  /// not share syncs; small values that several processes store at the same time share a transaction. A transaction
  /// with more than 4 MB of changes is visible up to one sync before it is on the disk.
  case durableStrict
  /// No write waits for the disk, except the first one of a process to a store that is in use.
  ///
  /// The store's redo log is synced in the background, at the store's interval
  /// (``StoreOptions/syncInterval``).
  ///
  /// After a crash of the operating system, the store opens in the state after one of its commits:
  /// every earlier commit is present, and no later one. That commit is older than the crash by at
  /// most the interval plus the duration of one sync. This requires a process that has the store
  /// open. An orderly reboot loses no commit, except those of transactions with more than 4 MB of changes that were
  /// not synced yet, and what followed them. ``SharedStore/sync()`` and closing wait for the disk.
  case relaxed

  /// Whether the store survives a crash of the system.
  package var survivesSystemCrash: Bool { self != .cache }

  /// Whether a commit is on the disk when it returns.
  var syncsEachCommit: Bool { self == .durable || self == .durableStrict }

  /// The code of the durability level in files.
  var code: UInt8 {
    switch self {
    case .cache: 1
    case .durable: 2
    case .relaxed: 3
    case .durableStrict: 4
    }
  }

  init?(code: UInt8) {
    guard let found = Durability.allCases.first(where: { $0.code == code }) else { return nil }
    self = found
  }
}

/// An amount of storage in bytes.
///
/// ```swift
/// let options = StoreOptions(budget: .megabytes(256))
/// ```
public struct ByteCount: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// The number of bytes.
  public let bytes: Int
  /// Creates an amount of `bytes` bytes.
  public init(bytes: Int) { self.bytes = bytes }

  /// Returns an amount of `count` bytes.
  public static func bytes(_ count: Int) -> ByteCount { ByteCount(bytes: count) }
  /// Returns an amount of `count` times 1,024 bytes.
  public static func kilobytes(_ count: Int) -> ByteCount { ByteCount(bytes: count << 10) }
  /// Returns an amount of `count` times 1,048,576 bytes.
  public static func megabytes(_ count: Int) -> ByteCount { ByteCount(bytes: count << 20) }
  /// Returns an amount of `count` times 1,073,741,824 bytes.
  public static func gigabytes(_ count: Int) -> ByteCount { ByteCount(bytes: count << 30) }

  /// Returns whether `left` is the smaller amount.
  public static func < (left: ByteCount, right: ByteCount) -> Bool { left.bytes < right.bytes }

  /// The amount with a unit, rounded to one decimal.
  public var description: String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"]
    var value = Double(bytes)
    var unit = 0
    while abs(value) >= 1024, unit < units.count - 1 {
      value /= 1024
      unit += 1
    }
    if unit == 0 { return "\(bytes) B" }
    return "\((value * 10).rounded() / 10) \(units[unit])"
  }
}

/// The source of the current time for a store, in milliseconds since 1970.
///
/// Only this clock decides expiration, so tests inject one and never sleep. Processes that share a
/// store should use the same clock.
public struct StoreClock: Sendable {
  package let now: @Sendable () -> Int64
  /// Whether this is the system's clock, which advances without the program.
  let isSystem: Bool

  /// Creates a clock from a closure.
  ///
  /// - Parameter millisecondsSince1970: A closure that returns the time. It is called often, on any
  ///   thread, so it must be fast and must not block.
  public init(millisecondsSince1970: @escaping @Sendable () -> Int64) {
    self.now = millisecondsSince1970
    isSystem = false
  }

  private init() {
    now = { Clocks.wallMilliseconds() }
    isSystem = true
  }

  /// The system's wall clock.
  public static let system = StoreClock()
}

/// The options for opening a store.
///
/// Durability, budgets, policy and interval are properties of the store: the process that creates the
/// store sets them, and later processes use the stored values. Only the durability has to be passed again,
/// unless it is the default.
public struct StoreOptions: Sendable {
  /// The guarantee for a crash of the operating system. Opening an existing store with another
  /// durability fails with ``StoreError/Code/durabilityMismatch``. If it is not set, it is `.cache`, and
  /// `.durable` for the store of an `ObjectStore`.
  public var durability: Durability { didSet { isDurabilitySet = true } }
  private var isDurabilitySet: Bool
  /// The limit for the stored entries of all processes together, or `nil` for the store's own limit
  /// (256 MiB for a new cache, none for a new durable store). Another value than the store's
  /// changes it for every process.
  public var budget: ByteCount?
  /// The most entries that the store contains, of all processes together, or `nil` for the store's
  /// own limit (none for a new store). Another value than the store's changes it for every process.
  /// A new store makes room in its shared memory for the policy to remember as many entries.
  public var entryBudget: Int?
  /// The rule by which entries are chosen for eviction, or `nil` for the store's own policy
  /// (``EvictionPolicy/adaptive`` for a new store). Another policy than the store's changes it for
  /// every process.
  public var evictionPolicy: EvictionPolicy?
  /// The interval between syncs of a `.relaxed` store while it is written to: from one millisecond
  /// to one day. `nil` means the store's own interval (one second for a new store). Another value
  /// than the store's changes it for every process.
  public var syncInterval: Duration?
  /// The source of the current time.
  public var clock: StoreClock
  /// The maximum time to wait for another process that is opening or closing the same store, or that
  /// replaces its files at the end of a compaction: ten seconds by default. A process that is stopped there
  /// makes reads and writes wait as well, and fail with ``StoreError/Code/openTimeout``.
  public var openTimeout: Duration
  /// The maximum time that a write waits for earlier writers of this process and of others, whether
  /// or not its caller blocks a thread. Then the write fails with
  /// ``StoreError/Code/writerStalled``, and nothing is written. A write that is in a transaction by then, which waits for
  /// the disk, fails after three times as long with ``StoreError/Code/outcomeUnknown``. Queued writes by subscript wait
  /// without limit. 30 seconds by default.
  public var writeTimeout: Duration
  /// A closure that is called with every error for which no caller waits: errors of subscripts and
  /// of write-behind requests.
  ///
  /// It runs on a thread of the store or of the caller, and may use the store. The call for a
  /// queued write can come shortly after a `sync()` that waited for this write has returned.
  public var onError: (@Sendable (any Error) -> Void)?
  /// A closure that is called with every event that concerns the store as a whole.
  ///
  /// It runs on a thread of the store or of the caller, and may use the store.
  public var onEvent: (@Sendable (StoreEvent) -> Void)?

  /// Whether this process may commit through LMDB's writable map instead of with system calls,
  /// which is several times as fast.
  ///
  /// It applies to a `.cache` store on ext4 or tmpfs, once the process writes, and while the disk
  /// has enough space for a transaction. A full disk is an error or an eviction, as without the
  /// map. A wild pointer of the program can then write to the map as well; such damage is detected
  /// like any other. The pages count as shared memory of the process, and core dumps contain them
  /// only on request. Processes with and without a writable map can share a store.
  public var usesWriteMap = true

  /// Whether to open a store on a system where LMDB's locks outlive a killed writer (macOS), so
  /// that all writers of all processes would wait forever. On Linux the locks are robust, and this
  /// option has no effect.
  public var allowNonRobustLocks = false

  /// Whether an object store erases the objects of a type whose declaration does not fit the stored
  /// objects, where it throws `schemaMismatch` otherwise: a development option.
  ///
  /// The first save, `prepare(_:)` or read of the type in this process erases, without delete rules,
  /// but no read or deletion by a query inside of a transaction or snapshot; it reports
  /// ``StoreEvent/objectsErased(type:objects:reason:)``. Objects of a newer version, and of a migration
  /// in progress, are never erased. Of programs with contradictory declarations the
  /// one that was started last erases: a process that has saved objects of the type, or erased it
  /// once, gets the error from then on, so running processes never erase in turns.
  public var erasesOnSchemaChange = false

  /// Whether this process only reads the store.
  ///
  /// Such a process changes no data: where another one would start a cache empty, restore the last
  /// checkpoint, quarantine files or remove a damaged entry, it fails with an error and leaves
  /// everything as it is. Its writes fail. It opens a store that no process has open without a
  /// write to its files (`QuietView.swift`). While others have it open, it takes part in their protocols,
  /// which needs `presence`, `lock.mdb` and `shared.table` to be writable.
  package var readsOnly = false

  /// Whether this process, if it only reads, takes part also where no other process has the store open: it
  /// waits for the changes of those that come.
  package var awaitsOthers = false

  /// Closures that create the monitors of a store, from its path. LarderMetrics and LarderTracing add
  /// them.
  package var monitors: [@Sendable (_ path: String) -> any StoreMonitor] = []

  /// The time without a commit after which a `.cache` or `.relaxed` store is synced to the disk, or
  /// `nil` for never.
  package var idleSyncDelay: Duration? = .seconds(5)
  /// Whether the store's thread removes expired entries. Tests that count them turn it off.
  package var sweepsWhenIdle = true
  /// Whether a store that is created is for a few values only, and occupies less than 256 kB.
  package var isSmall = false

  /// The number of bits of a key's hash in use; tests use fewer than 64 to provoke collisions.
  package var hashBits = 64

  /// Creates options; every parameter sets the property of the same name.
  public init(
    durability: Durability? = nil, budget: ByteCount? = nil, syncInterval: Duration? = nil,
    clock: StoreClock = .system,
    openTimeout: Duration = .seconds(10), writeTimeout: Duration = .seconds(30),
    onError: (@Sendable (any Error) -> Void)? = nil,
    onEvent: (@Sendable (StoreEvent) -> Void)? = nil
  ) {
    self.durability = durability ?? .cache
    isDurabilitySet = durability != nil
    self.budget = budget
    self.syncInterval = syncInterval
    self.clock = clock
    self.openTimeout = openTimeout
    self.writeTimeout = writeTimeout
    self.onError = onError
    self.onEvent = onEvent
  }

  /// Returns the options with a durability, if none was set.
  package func defaulting(to durability: Durability) -> StoreOptions {
    if isDurabilitySet { return self }
    var options = self
    options.durability = durability
    return options
  }
}

/// An event that concerns a store as a whole.
public enum StoreEvent: Sendable, Hashable, CustomStringConvertible {
  /// A damaged entry was found, counted, and removed. The text names its location.
  case damagedEntry(String)
  /// The store's files were unusable and were quarantined; the store started empty. The text
  /// contains the cause.
  case resetToEmpty(String)
  /// The store had been in use, and its last commits may not have been in its files any more: the system went down, the
  /// file system was mounted again, or the files were copied or replaced. It was restored from its last checkpoint and its
  /// log. The text contains the cause, and the number of commits that the log had. A `.durable` store has every commit
  /// whose call had returned, a `.relaxed` one those up to its last sync.
  case restored(String)
  /// Another process replaced the store's files, and this process switched to the new generation.
  case generationChanged(generation: UInt64)
  /// Processes of another PID namespace have this cache open. This process uses a separate store
  /// below the cache's directory, with separate values; it is removed when no process has it open.
  /// (A `.durable` or `.relaxed` store throws ``StoreError/Code/otherNamespace``.)
  case pidNamespaceConflict(String)
  /// A process is stopped in the middle of a read, so the file grows. If it remains stopped, the
  /// store is compacted into new files and every process switches to them. No data is lost.
  case readerStalled(pid: Int32, transactionsBehind: Int)
  /// This process completed a step of building an index that was declared after objects of the type
  /// were stored: it contains `done` of `total` objects. The last step has `done == total`.
  case indexBuilding(type: String, index: String, done: Int, total: Int)
  /// This process erased all objects of a type, because their stored form does not fit its
  /// declaration; see ``StoreOptions/erasesOnSchemaChange``.
  case objectsErased(type: String, objects: Int, reason: String)

  /// The event in one line.
  public var description: String {
    switch self {
    case .damagedEntry(let text): "damaged entry: \(text)"
    case .resetToEmpty(let text): "started empty: \(text)"
    case .restored(let text): "restored: \(text)"
    case .generationChanged(let generation): "switched to generation \(generation)"
    case .pidNamespaceConflict(let path): "another PID namespace uses this store; using \(path)"
    case .readerStalled(let pid, let count): "process \(pid) reads \(count) commits behind"
    case .indexBuilding(let type, let index, let done, let total):
      "index \"\(index)\" of \(type) is being built: \(done) of \(total) objects"
    case .objectsErased(let type, let objects, let reason):
      "erased \(objects) objects of \(type): \(reason)"
    }
  }
}

extension Duration {
  package var nanoseconds: UInt64 { Clocks.nanoseconds(of: self) }

  /// The duration in milliseconds; very long durations saturate.
  package var milliseconds: Int64 {
    let (seconds, attoseconds) = components
    // The result saturates: such a time is treated as never.
    guard seconds.magnitude < 1 << 50 else { return seconds < 0 ? Int64.min : Int64.max }
    return seconds * 1000 + attoseconds / 1_000_000_000_000_000
  }
}
