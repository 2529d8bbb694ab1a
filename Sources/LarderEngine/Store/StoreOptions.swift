// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// What a store keeps when the operating system or the machine fails.
///
/// It is fixed when the store is created. All kinds keep every committed write when processes are
/// killed, at any instruction.
public enum Durability: String, Sendable, Hashable, CaseIterable {
  /// No write waits for the disk, except the first one after the store was idle for 5 seconds. After a
  /// crash of the operating system the store is recognised by the boot it belongs to, and starts empty,
  /// unless it was idle or closed. It also starts empty after an orderly reboot if its last process was
  /// ended within 5 seconds of the last commit without closing it.
  case cache
  /// Each commit is on the disk before it returns.
  case durable
  /// No write waits for the disk; all of them are brought there in the background, at an interval
  /// that is the store's (``StoreOptions/syncInterval``). After a crash of the operating system the
  /// store opens as it was after some commit that is at most the interval, and the length of one
  /// sync, older than the crash: every commit before it is there, and nothing of any after it. That
  /// needs a process that has the store open; ``SharedStore/sync()`` and closing wait for the disk.
  case relaxed

  /// Whether the store outlives a crash of the system.
  package var survivesSystemCrash: Bool { self != .cache }

  /// Whether a commit is on the disk when it returns.
  var syncsEachCommit: Bool { self == .durable }

  /// The number of the kind in files.
  var code: UInt8 {
    switch self {
    case .cache: 1
    case .durable: 2
    case .relaxed: 3
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
  /// Creates a count of bytes.
  public init(bytes: Int) { self.bytes = bytes }

  /// Returns a count of bytes.
  public static func bytes(_ count: Int) -> ByteCount { ByteCount(bytes: count) }
  /// 1,024 bytes each.
  public static func kilobytes(_ count: Int) -> ByteCount { ByteCount(bytes: count << 10) }
  /// 1,048,576 bytes each.
  public static func megabytes(_ count: Int) -> ByteCount { ByteCount(bytes: count << 20) }
  /// 1,073,741,824 bytes each.
  public static func gigabytes(_ count: Int) -> ByteCount { ByteCount(bytes: count << 30) }

  public static func < (left: ByteCount, right: ByteCount) -> Bool { left.bytes < right.bytes }

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

/// Where a store takes the time from, in milliseconds since 1970.
///
/// Expiry is decided by it and nothing else, so tests inject one and never sleep. Processes that
/// share a store should share a clock.
public struct StoreClock: Sendable {
  package let now: @Sendable () -> Int64
  /// Whether it goes on by itself.
  let isSystem: Bool

  /// A clock of one's own.
  ///
  /// - Parameter millisecondsSince1970: Called on any thread, often: it must be cheap and never
  ///   wait.
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

/// How a store is opened.
///
/// Durability, budget and interval are properties of the store: the first process creates it with
/// them and the others find them.
public struct StoreOptions: Sendable {
  /// What survives a crash of the operating system. A store that was created with another kind
  /// is not opened.
  public var durability: Durability
  /// The most the stored entries may take, in all processes together. `nil`: as the store was
  /// created with (256 MiB for a new cache, without limit for a new durable store).
  public var budget: ByteCount?
  /// How often a `.relaxed` store is brought to the disk while it is written to: from a millisecond
  /// to a day. `nil`: as the store was created with (a second for a new one). Another interval than
  /// the store's changes it for everybody.
  public var syncInterval: Duration?
  /// Where the time comes from.
  public var clock: StoreClock
  /// How long to wait for another process that is opening or closing the same store.
  public var openTimeout: Duration
  /// How long a write waits for the writers before it, of this process and of others, whether its
  /// caller blocks a thread or not. Then it fails with ``StoreError/Code/writerStalled`` and has written
  /// nothing. Writes by subscript that are queued wait for as long as it takes.
  public var writeTimeout: Duration
  /// Called with every error that has no caller to go to: of subscripts, of writes behind.
  ///
  /// Called on a thread of the store or of the caller; it may call back into the store.
  public var onError: (@Sendable (any Error) -> Void)?
  /// Called with what happens to the store as a whole.
  public var onEvent: (@Sendable (StoreEvent) -> Void)?

  /// Whether this process may commit through LMDB's map instead of with calls of the system: several
  /// times as fast.
  ///
  /// It does so for a `.cache` store on ext4 or tmpfs, once it writes, and as long as the disk has
  /// room for what a transaction may need; a full disk is an error or an eviction as ever. The map
  /// can be written to then, by a wild pointer of the program as well; such damage is found as any
  /// other. The pages count as shared memory of the process, and are in no core dump unless asked
  /// for. Processes with and without it share a store freely.
  public var usesWriteMap = true

  /// Whether to open a store where LMDB's locks outlive a killed writer (macOS), so that all
  /// writers of all processes would wait for ever. On Linux the locks are robust and this is
  /// without meaning.
  public var allowNonRobustLocks = false

  /// Told how long operations took. `StoreOptions.recordingTimings()` of LarderMetrics sets it.
  package var onTiming: TimingHandler?

  /// After how long without a commit a `.cache` or `.relaxed` store is brought to the disk; `nil`: never.
  package var idleSyncDelay: Duration? = .seconds(5)
  /// Whether a store that is created is for a few values only, and takes less than 256 kB.
  package var isSmall = false

  /// How many bits of a key's hash are used; below 64 only to provoke collisions in tests.
  package var hashBits = 64

  /// Creates options. Each parameter sets the property of its name.
  public init(
    durability: Durability = .cache, budget: ByteCount? = nil, syncInterval: Duration? = nil,
    clock: StoreClock = .system,
    openTimeout: Duration = .seconds(10), writeTimeout: Duration = .seconds(30),
    onError: (@Sendable (any Error) -> Void)? = nil,
    onEvent: (@Sendable (StoreEvent) -> Void)? = nil
  ) {
    self.durability = durability
    self.budget = budget
    self.syncInterval = syncInterval
    self.clock = clock
    self.openTimeout = openTimeout
    self.writeTimeout = writeTimeout
    self.onError = onError
    self.onEvent = onEvent
  }
}

/// Something that happened to a store as a whole.
public enum StoreEvent: Sendable, Hashable, CustomStringConvertible {
  /// A damaged entry was found, counted, and removed. The text says where.
  case damagedEntry(String)
  /// The store's files were found unusable and set aside; it started empty. The text says why.
  case resetToEmpty(String)
  /// Another process replaced the store's files; this one follows.
  case generationChanged(generation: UInt64)
  /// Processes of another PID namespace have this cache open; this process uses a separate store below
  /// its directory, which is removed when no process has it open. Its values are not those of the
  /// others. (A `.durable` or `.relaxed` store throws ``StoreError/Code/otherNamespace``.)
  case pidNamespaceConflict(String)
  /// A process is stopped in the middle of a read, so that the file grows. If it stays so, what is
  /// stored is copied into new files and everybody moves there; nothing is lost.
  case readerStalled(pid: Int32, transactionsBehind: Int)
  /// This process made a step of building an index that was declared after objects of the type were
  /// stored: `done` of `total` objects are in it. The last step has `done == total`.
  case indexBuilding(type: String, index: String, done: Int, total: Int)

  public var description: String {
    switch self {
    case .damagedEntry(let text): "damaged entry: \(text)"
    case .resetToEmpty(let text): "started empty: \(text)"
    case .generationChanged(let generation): "moved to generation \(generation)"
    case .pidNamespaceConflict(let path): "another PID namespace uses this store; using \(path)"
    case .readerStalled(let pid, let count): "process \(pid) reads \(count) commits behind"
    case .indexBuilding(let type, let index, let done, let total):
      "index \"\(index)\" of \(type) is being built: \(done) of \(total) objects"
    }
  }
}

extension Duration {
  package var nanoseconds: UInt64 { Clocks.nanoseconds(of: self) }

  package var milliseconds: Int64 {
    let (seconds, attoseconds) = components
    // Saturating: what is that far away is never.
    guard abs(seconds) < 1 << 50 else { return seconds < 0 ? Int64.min : Int64.max }
    return seconds * 1000 + attoseconds / 1_000_000_000_000_000
  }
}
