// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE SHARED-MEMORY TABLE (`shared.table`)
//
// One mapped file next to the LMDB environment of a generation. It contains the data that processes
// share *without* a transaction: the keys that were written (stamps), the keys that were read
// recently (recency), the processes that have the generation open, the keys that are being
// computed, and the counters.
//
// Every integer is native, because the file never leaves the machine. Stamps, floor and namespace
// stamps are stored inverted (`~version`). If a program truncates and extends the file, a page of
// zeros then reads as the highest version, which is a miss, and never as "never written", which
// would be a stale hit.
//
//        0  magic           u64   "LARDERT1", written last
//        8  version         u64   8
//       16  store id        2 u64 bound to the `meta` record
//       32  generation      u64   bound to the `meta` record and to CURRENT
//       40  use words       u64   power of two
//       48  boot id         u64
//       56  PID namespace   u64
//       64  file size       u64   exact
//       72  stamp slots     u64   power of two
//       80  process slots   u64   power of two
//       88  page cache      2 u64 that of data.mdb (`PageCacheIdentity.swift`); a table without proof of it is as
//                               one of another boot
//      104  state changed   u64   the time of the last change of `state`, from its status after the change
//      128  condemned       u32   1: fenced, every process switches to the generation that CURRENT
//                               names; 2: likewise, and that one contains every commit of this one
//      132  dirty           u32   1: `state` on the disk is dirty for this boot
//      136  open attempts   u32   consecutive openers that did not complete
//      140  deaths inside   u32   processes that died inside LMDB since the last verification
//      192  floor           u64   inverted commit version; alone on its line; only ever raised
//      256  writer label    u64   commit version of the newest write transaction that has begun
//      264  writer pid      u64   pid of its process, and
//      272  writer start    u64   the start time of that process
//      280  last stamped    u64   commit version of the last transaction that stored its stamps
//      296  ticket          u32   process slot + 1 of the process that may request LMDB's writer
//                               lock; 0: free; the highest bit: other processes wait for it
//      300  combined        u32   the number of offers that the last transaction has claimed
//      304  log gap         u64   relaxed or durable store: commit version of the newest transaction without a record in the
//                               redo log (`RedoLog.swift`)
//      312  log start       u64   sequence number of the segment in which recovery begins; above 40 bits, its hash
//      320  clock           u64   the hybrid recency clock, advanced by writers
//      328  policy          u64   how entries are chosen for eviction: the code of `EvictionPolicy`
//      336  entry budget    u64   the most entries; 0: no limit
//      344  earliest expiry u64   milliseconds since 1970: no committed entry expires earlier; 0:
//                               unknown (`ExpirySweep.swift`)
//      352  tags removed    u64   commit version of the newest removal by tag (`TagSweep.swift`)
//      360  tags swept      u64   removals by tag up to this commit version are swept
//      368  tag sweeper     u64   until then a process sweeps; milliseconds of the monotonic clock
//      384  wake word       u32   the wake-up word, advanced after commits that may have waiters
//      388  waiters         u32   sleepers on the wake-up word, at least
//      392  log synced at   u64   start of the last sync of the redo log, or of the last checkpoint; milliseconds of
//                               the monotonic clock
//      400  recorded        u64   relaxed or durable store: commit version of the newest snapshot in `synced`
//      408  synced at       u64   start of its sync; milliseconds of the monotonic clock
//      416  sync interval   u64   milliseconds
//      424  sync failed     u32   1: a sync of this generation failed: it is copied, never synced
//      428  log sync word   u32   advanced after each sync of the redo log
//      432  logged          u64   newest committed version that the redo log has
//      440  durable         u64   every commit up to this version is on the disk
//      448  data bytes      u64   the largest size of data.mdb that any writer has observed
//      456  budget          u64   bytes; 0: no budget
//      472  reader check    u64   wall milliseconds of the last search for stale readers
//      480  data changed    u64   modification time of data.mdb, from its status after a commit
//      488  successor       u64   the generation a compaction is copying this one into; 0: none
//      496  names           u32   a hash of the store's path: the names below it that lead to the files are on the
//                               disk (`SyncedNames.swift`)
//      512  retired         16 u64  counters of processes that have exited
//      640  lease map       16 u64  a bit for each lease slot: set while writers have to read it
//      768  use clock       u64   the tick that readers store; only rarely changed words are on its
//                               line
//      776  sample threshold u32  uses of keys with a lower hash prefix are recorded in `samples`; 0:
//                               none (`SharedTable+Samples.swift`)
//      832  queues          16 u64  the state of the eviction queues (`EvictionQueues.swift`)
//      960  log ends        2 x 32 bytes: commit version (even, odd), the end of the redo log after it (40 bits
//                               segment, 24 bits offset in units of 8 bytes; chain value), hash of the three
//     1024  namespaces      1,024 u64   inverted commit version of the last clear of a namespace
//     9216  leases          1,024 x 64 bytes   computations in flight
//    74752  processes       2^p x 320 bytes    one slot for each living process
//           stamps          2^s u64     inverted versions, by slot of a key's hash; page-aligned
//           uses            2^n u64     last use and use count, by a key's hash (`SharedTable+Uses.swift`)
//           small queue     2^n/2 u64   entries in the order of their admission
//           main queue      2^n/2 u64   entries that were used again
//           ghosts          2^n/2 u32   evicted entries
//           coordination    64 kB       writes that processes offer to the one that writes
//                                       (`SharedTable+Offers.swift`)
//           remote          64 kB       links to remote servers (`SharedTable+Remote.swift`)
//           samples         64 kB       the sampled uses: a ring of words, after its head, its tail and
//                                       the end of sampling
//           removals        128 kB      entries that were removed (`SharedTable+Removals.swift`)
//
// In a small store (1,024 use words) the reserved regions have no bytes, and the last two 4 kB each.
//
// The counts are fixed for a generation when its first file is built (`SharedTableShape`). They are
// stored in `meta` and in the header, and read from there before the rest is mapped, so that all
// processes find a key's stamp in the same slot. With fewer stamp slots more keys share one, so a
// write makes more cached values of other keys miss. It has no other effect.
//
//   lease:    0 state u64 (low byte: 0 free, 1 being filled or freed, 2 active, 3 cancelled; the 16
//             bits above it: process slot of the owner + 1; the 40 bits above that: number of
//             acquisitions of the slot)   8 hash   16 namespace   24 time of the acquisition u64, in
//             milliseconds since 1970   32 key tag u8   33 length of the key u8, at most 255   34 the
//             first 30 bytes of the key. From 24 on for display only
//   process:  0 pid u64 (0 free)   8 start time   16 counters (14 u64)   128 inside (64 u16: one
//             for each pooled reader, the last for the writer; while the thread is inside LMDB:
//             the time of entry, by the recency clock in units of 16.384 s; otherwise zero)
//             256 writing since u64: while the process has the writer ticket, the time of its
//             acquisition, in nanoseconds of the monotonic clock, odd while it waits for the disk;
//             otherwise zero   264 commits by duration (14 u32, `SharedTable+CommitTimes.swift`)

/// The offsets and sizes of the table above, in bytes.
@usableFromInline
package enum SharedTableLayout {
  package static let magic: UInt64 = 0x3154_5245_4452_414C
  package static let version: UInt64 = 11

  package static let magicOffset = 0
  package static let versionOffset = 8
  package static let storeIDOffset = 16
  package static let generationOffset = 32
  package static let recencySlotsOffset = 40
  package static let bootIDOffset = 48
  package static let pidNamespaceOffset = 56
  package static let fileSizeOffset = 64
  package static let stampSlotsOffset = 72
  package static let processSlotsOffset = 80
  package static let pageCacheOffset = 88
  package static let stateChanged = 104

  package static let condemned = 128
  package static let dirty = 132
  package static let openAttempts = 136
  package static let crashesInLMDB = 140
  @inlinable package static var floor: Int { 192 }
  package static let writerVersion = 256
  package static let writerPID = 264
  package static let writerStart = 272
  package static let lastStamped = 280
  package static let ticket = 296
  package static let combined = 300
  package static let logGap = 304
  package static let logStart = 312
  @inlinable package static var clock: Int { 320 }
  package static let policy = 328
  package static let entryBudget = 336
  package static let earliestExpiry = 344
  package static let tagsRemoved = 352
  package static let tagsSwept = 360
  package static let tagSweeper = 368
  package static let wakeWord = 384
  package static let waiters = 388
  package static let logSyncedAt = 392
  package static let recorded = 400
  package static let syncedAt = 408
  package static let syncInterval = 416
  package static let syncFailed = 424
  package static let logSyncWord = 428
  package static let logged = 432
  package static let durable = 440
  package static let dataBytes = 448
  package static let budget = 456
  package static let readerCheck = 472
  package static let dataChanged = 480
  package static let successor = 488
  package static let names = 496
  package static let retired = 512
  package static let leaseMap = 640
  @inlinable package static var useClock: Int { 768 }
  @inlinable package static var sampleThreshold: Int { 776 }
  package static let queues = 832
  package static let logEnds = 960

  /// The offsets in the region for samples.
  package static let sampleHead = 0
  package static let sampleTail = 64
  package static let sampleEnd = 72
  package static let sampleWords = 128

  package static let namespaceStamps = 1024
  package static let namespaceStampCount = 1024
  package static let leases = 9216
  package static let leaseCount = 1024
  package static let leaseSize = 64
  /// The offsets in a lease slot, after its state.
  package static let leaseHash = 8
  package static let leaseNamespace = 16
  package static let leaseSince = 24
  package static let leaseKey = 32
  package static let processes = 74_752
  package static let processSize = 320
  package static let processCounters = 16
  package static let processInside = 128
  package static let insideCount = 64
  package static let processWriting = 256
  package static let processCommitTimes = 264
}

/// The number of slots of each kind in a generation's table.
package struct SharedTableShape: Sendable, Hashable {
  package let stampSlots: Int
  package let recencySlots: Int
  package let processSlots: Int
  /// The offset of the ghosts in bytes. Each commit uses the regions after them.
  package private(set) var ghosts = 0

  /// Creates a shape from stored counts.
  ///
  /// - Returns: `nil` if a count is not a power of two within its limits.
  package init?(stampSlots: UInt64, recencySlots: UInt64, processSlots: UInt64) {
    guard
      Self.isSlotCount(stampSlots, in: 1024...UInt64(StampSlot.count)),
      Self.isSlotCount(recencySlots, in: 1024...1 << 24),
      Self.isSlotCount(processSlots, in: 128...1024)
    else { return nil }
    self.init(Int(stampSlots), Int(recencySlots), Int(processSlots))
  }

  private init(_ stampSlots: Int, _ recencySlots: Int, _ processSlots: Int) {
    self.stampSlots = stampSlots
    self.recencySlots = recencySlots
    self.processSlots = processSlots
    ghosts = mainQueue + queueSlots * 8
  }

  private static func isSlotCount(_ count: UInt64, in limits: ClosedRange<UInt64>) -> Bool {
    limits.contains(count) && count & (count - 1) == 0
  }

  /// The shape for a few values that are written by hand: 154 kB.
  package static let small = SharedTableShape(1024, 1024, 128)
  /// The shape of the largest possible file.
  package static let largest = SharedTableShape(StampSlot.count, 1 << 24, 1024)

  /// Creates the shape for a store with a budget in bytes and in entries; zero means no budget.
  ///
  /// There is one use word for each 256 bytes of the budget and five for each two entries of the
  /// entry budget, rounded up to a power of two, at least 65,536 and at most 2^24. A store
  /// with a budget below 2 MiB has one for each 32 bytes of it.
  package init(budget: Int, entries: Int = 0) {
    let isSmall = budget > 0 && budget <= 64 << 20
    let wanted = max(isSmall ? 0 : budget / 256, min(entries, 1 << 23) * 5 / 2)
    let least = budget > 0 ? min(max(budget / 32, 4096), 65_536) : 65_536
    var recency = 4096
    while recency < 1 << 24, recency < max(wanted, least) { recency *= 2 }
    self.init(StampSlot.count, recency, isSmall ? 256 : 1024)
  }

  /// Returns the shape for another budget of a store with this one. The slots of processes stay, because
  /// those that have the store open need them.
  func adapted(budget: UInt64, entries: UInt64) -> SharedTableShape {
    if recencySlots == Self.small.recencySlots { return self }
    let wanted = SharedTableShape(budget: Int(clamping: budget), entries: Int(clamping: entries))
    return SharedTableShape(stampSlots, wanted.recencySlots, processSlots)
  }

  /// The offset of the stamps in bytes.
  package var stamps: Int {
    let end = SharedTableLayout.processes + processSlots * SharedTableLayout.processSize
    return (end + 4095) & ~4095
  }
  /// The offset of the use words in bytes.
  package var recency: Int { stamps + stampSlots * 8 }
  /// The number of entries that each of the eviction queues has room for.
  package var queueSlots: Int { recencySlots / 2 }
  /// The offset of the small queue in bytes.
  package var smallQueue: Int { recency + recencySlots * 8 }
  /// The offset of the main queue in bytes.
  package var mainQueue: Int { smallQueue + queueSlots * 8 }
  /// The offset of the region for locks and counters in bytes.
  package var coordination: Int { ghosts + queueSlots * 4 }
  /// The offset of the region for links to remote servers in bytes.
  package var remote: Int { coordination + reservedSize }
  /// The offset of the region for samples in bytes.
  package var samples: Int { remote + reservedSize }
  /// The number of samples that the ring has room for.
  package var sampleSlots: Int { (regionSize - SharedTableLayout.sampleWords) / 8 }
  private var regionSize: Int { recencySlots > 1024 ? 65_536 : 4096 }
  private var reservedSize: Int { recencySlots > 1024 ? 65_536 : 0 }
  /// The offset of the removal ring in bytes.
  package var removals: Int { samples + regionSize }
  /// The size of the removal ring in words.
  package var removalWords: Int { (recencySlots > 1024 ? 2 * regionSize : regionSize) / 8 }
  /// The size of `shared.table` in bytes.
  package var fileSize: Int { removals + removalWords * 8 }

  /// The size of LMDB's lock file: a header, and four reader slots of 64 bytes for each process.
  package var lockFileSize: Int { processSlots * 256 }
  /// The number of reader slots in LMDB's lock file.
  package var readerSlots: Int { Self.readerSlots(lockFileSize: lockFileSize) }

  /// Returns the number of reader slots in an LMDB lock file of this size.
  package static func readerSlots(lockFileSize: Int) -> Int { lockFileSize / 64 - 2 }
  /// The possible sizes of LMDB's lock file, one for each number of process slots.
  package static let lockFileSizes = [128, 256, 512, 1024].map { $0 * 256 }
}

/// The counters of each process, in the order of its process slot.
package enum Counter: Int, CaseIterable, Sendable {
  case memoryHits, storeHits, misses, sets, removals, evictions, expirations
  case damagedEntries, commits, bytesWritten, computations, rejectedFills
  case absentHits, logSyncs
}
