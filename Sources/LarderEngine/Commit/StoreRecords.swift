// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// THE MAIN TABLE
//
// LMDB's unnamed table also contains the store's own records. Every commit writes its one leaf page
// anyway (the page contains the roots of the named tables), so these records cost no page.
//
//   "meta"            the properties of the store; written once, except budgets, policy and interval:
//        0 version u32   4 durability u8 (1 cache, 2 durable, 3 relaxed)   5 policy u8 (1 sampled
//          LRU, 2 adaptive)
//        6 hash bits u8
//        8 store id 16 bytes   24 generation u64   32 hash secret 16 bytes   48 budget u64 (0 none)
//       56 map size u64   64 use words u32   68 stamp slots u8,
//       log2   69 process slots u8, log2   72 created i64   80 entry budget u64 (0 none)
//       88 checksum u64
//       and of a relaxed store   96 interval between syncs u64, milliseconds   104 checksum u64
//   "totals"          rewritten by every commit that changes it:
//        0 bytes u64   8 entries u64   16 next chunk id u64   24 next namespace u32   28 zero u32
//       32 pinned bytes u64   40 pinned entries u64   48 bytes of negative entries u64
//       56 negative entries u64   64 forgotten tags u64 (`TagSweep.swift`)   72 bytes of objects u64
//       80 change capacity u64   88 change start u64   96 change count u64 (`ChangeRecord.swift`)
//      104 checksum u64
//   "n:" + name       a namespace:
//        0 number u32   4 checksum u32, also over the name
//   "i:" + number     u32 big-endian: the namespace identifier:
//        0 epoch u32   4 checksum u32   8 commit version of the last clear u64   16 bytes u64
//       24 entries u64   32 minimum u64   40 maximum u64   48 most entries u64 (0: no limit)
//       56 index u32, 60 last index u32 (`NamespaceIndex.swift`)   64 name
//
// Each checksum is the XXH64 of the record with zeros in its place, cut to its size. These few
// bytes determine the meaning of every entry. A flipped bit in an epoch would hide a whole
// namespace, in a total would evict entries that fit, and in the hash secret would make every key
// unfindable. A record with a wrong checksum is damage, like an impossible page.

/// The properties of a store.
package struct StoreMeta: Sendable {
  package static let version: UInt32 = 10

  package var version = StoreMeta.version
  package var durability: Durability
  package var hashBits: UInt8
  package var storeID: (UInt64, UInt64)
  package var generation: UInt64
  package var secret: (UInt64, UInt64)
  package var budget: UInt64
  /// The most entries; zero means no limit.
  package var entryBudget: UInt64 = 0
  /// The code of the eviction policy, which a newer version may have written.
  package var policyCode = EvictionPolicy.adaptive.code
  package var mapSize: UInt64
  package var shape: SharedTableShape
  package var created: Int64
  /// The milliseconds between syncs; used only by a relaxed store.
  package var syncInterval: UInt64

  /// The valid sync intervals in milliseconds.
  package static let syncIntervals: ClosedRange<UInt64> = 1...86_400_000
  package static let usualSyncInterval: UInt64 = 1000

  package static var key: [UInt8] { Array("meta".utf8) }

  /// Creates the properties of a new generation, with the usual map size and sync interval.
  ///
  /// - Parameter old: The properties of a generation that the new one replaces. Store id, hash secret
  ///   and hash bits are those of `old`; without it, id and secret are random.
  package init(
    durability: Durability, generation: UInt64, inheriting old: StoreMeta?, budget: UInt64,
    shape: SharedTableShape, created: Int64
  ) {
    var random = SystemRandomNumberGenerator()
    self.durability = durability
    self.hashBits = old?.hashBits ?? 64
    self.storeID = old?.storeID ?? (random.next(), random.next())
    self.generation = generation
    self.secret = old?.secret ?? (random.next(), random.next())
    self.budget = budget
    self.mapSize = UInt64(GenerationBuilder.mapSize(budget: Int(budget)))
    self.shape = shape
    self.created = created
    self.syncInterval = StoreMeta.usualSyncInterval
  }

  /// Replaces the values that any process may have changed since `meta` was read.
  mutating func update(from table: SharedTable) {
    budget = table.budget
    entryBudget = table.entryBudget
    policyCode = table.policyCode
    if durability == .relaxed { syncInterval = table.syncInterval }
  }

  /// Decodes a `meta` record.
  ///
  /// - Returns: `nil` if the record is damaged or a field is out of range.
  package init?(_ bytes: RawSpan) {
    guard
      bytes.byteCount >= 96,
      let checksum: UInt64 = bytes.integer(at: 88),
      XXH64.hash(bytes.slice(0..<88)!) == checksum,
      let version: UInt32 = bytes.integer(at: 0),
      let kind: UInt8 = bytes.integer(at: 4),
      let hashBits: UInt8 = bytes.integer(at: 6), (1...64).contains(hashBits),
      let recency: UInt32 = bytes.integer(at: 64),
      let stamps: UInt8 = bytes.integer(at: 68), let processes: UInt8 = bytes.integer(at: 69),
      let shape = SharedTableShape(
        stampSlots: 1 << UInt64(stamps), recencySlots: UInt64(recency),
        processSlots: 1 << UInt64(processes)),
      let mapSize: UInt64 = bytes.integer(at: 56), mapSize >= 1 << 20, mapSize <= 1 << 46
    else { return nil }
    self.version = version
    guard let durability = Durability(code: kind) else { return nil }
    self.durability = durability
    syncInterval = StoreMeta.usualSyncInterval
    if durability == .relaxed {
      guard
        bytes.byteCount >= 112,
        bytes.integer(at: 104, as: UInt64.self) == XXH64.hash(bytes.slice(0..<104)!),
        let interval: UInt64 = bytes.integer(at: 96), StoreMeta.syncIntervals.contains(interval)
      else { return nil }
      syncInterval = interval
    }
    self.hashBits = hashBits
    storeID = (bytes.integer(at: 8)!, bytes.integer(at: 16)!)
    generation = bytes.integer(at: 24)!
    secret = (bytes.integer(at: 32)!, bytes.integer(at: 40)!)
    budget = bytes.integer(at: 48)!
    self.mapSize = mapSize
    self.shape = shape
    created = bytes.integer(at: 72)!
    entryBudget = bytes.integer(at: 80)!
    policyCode = bytes.integer(at: 5)!
  }

  /// Returns the encoded record with its checksums.
  package func bytes() -> [UInt8] {
    var bytes = [UInt8].zeros(96)
    bytes.store(version, at: 0)
    bytes[4] = durability.code
    bytes[5] = policyCode
    bytes[6] = hashBits
    bytes.store(storeID.0, at: 8)
    bytes.store(storeID.1, at: 16)
    bytes.store(generation, at: 24)
    bytes.store(secret.0, at: 32)
    bytes.store(secret.1, at: 40)
    bytes.store(budget, at: 48)
    bytes.store(mapSize, at: 56)
    bytes.store(UInt32(shape.recencySlots), at: 64)
    bytes[68] = UInt8(shape.stampSlots.trailingZeroBitCount)
    bytes[69] = UInt8(shape.processSlots.trailingZeroBitCount)
    bytes.store(created, at: 72)
    bytes.store(entryBudget, at: 80)
    bytes.store(XXH64.hash(Array(bytes[..<88])), at: 88)
    if durability == .relaxed {
      bytes.append(littleEndian: syncInterval)
      bytes.append(littleEndian: XXH64.hash(bytes))
    }
    return bytes
  }
}

/// The totals of a store. They are exact, because every transaction that changes them rewrites
/// them.
package struct StoreTotals: Sendable, Hashable {
  /// The cost of all stored entries, including entries of earlier epochs until they are swept.
  package var bytes: UInt64 = 0
  package var entries: UInt64 = 0
  package var nextChunk: UInt64 = 1
  package var nextNamespace: UInt32 = 1
  /// The parts of ``bytes`` and ``entries`` that are pinned.
  package var pinned = Sum()
  /// The parts of ``bytes`` and ``entries`` of negative entries.
  package var absent = Sum()
  /// The commit version up to which records of removals by tag were deleted.
  package var forgottenTags: UInt64 = 0
  /// The stored size of all objects, without those of dropped types.
  package var objectBytes: UInt64 = 0
  /// The chunks of the change log (`ChangeRecord.swift`), or zero without one.
  package var changeCapacity: UInt64 = 0
  /// The first commit version in the change log.
  package var changeStart: UInt64 = 0
  /// The number of the newest chunk of the change log.
  package var changeCount: UInt64 = 0

  /// The bytes that count against the budget of the store.
  package var charged: UInt64 {
    let (sum, overflow) = bytes.addingReportingOverflow(objectBytes)
    return overflow ? .max : sum
  }

  /// A number of entries, and what they count against the budget.
  package struct Sum: Sendable, Hashable {
    package var bytes: UInt64 = 0
    package var entries: UInt64 = 0

    package init() {}

    package mutating func add(_ header: EntryHeader) {
      bytes += UInt64(header.cost)
      entries += 1
    }

    package mutating func subtract(_ header: EntryHeader) {
      bytes -= min(bytes, UInt64(header.cost))
      entries -= min(entries, 1)
    }
  }

  /// Counts an entry that was added.
  package mutating func add(_ header: EntryHeader) {
    bytes += UInt64(header.cost)
    entries += 1
    if header.isPinned { pinned.add(header) }
    if header.isAbsent { absent.add(header) }
  }

  /// Counts an entry that was removed.
  package mutating func subtract(_ header: EntryHeader) {
    bytes -= min(bytes, UInt64(header.cost))
    entries -= min(entries, 1)
    if header.isPinned { pinned.subtract(header) }
    if header.isAbsent { absent.subtract(header) }
  }

  package static let key = Array("totals".utf8)

  package init() {}

  /// Decodes a `totals` record.
  ///
  /// - Returns: `nil` if the checksum does not match.
  package init?(_ record: RawSpan) {
    guard
      record.byteCount >= StoreTotals.size,
      let checksum: UInt64 = record.integer(at: 104),
      XXH64.hash(record.slice(0..<104)!) == checksum
    else { return nil }
    bytes = record.integer(at: 0)!
    entries = record.integer(at: 8)!
    nextChunk = record.integer(at: 16)!
    nextNamespace = record.integer(at: 24)!
    pinned.bytes = record.integer(at: 32)!
    pinned.entries = record.integer(at: 40)!
    absent.bytes = record.integer(at: 48)!
    absent.entries = record.integer(at: 56)!
    forgottenTags = record.integer(at: 64)!
    objectBytes = record.integer(at: 72)!
    changeCapacity = record.integer(at: 80)!
    changeStart = record.integer(at: 88)!
    changeCount = record.integer(at: 96)!
  }

  static let size = 112

  func write(to record: inout ScratchBuffer) {
    record.store(bytes, at: 0)
    record.store(entries, at: 8)
    record.store(nextChunk, at: 16)
    record.store(nextNamespace, at: 24)
    record.store(pinned.bytes, at: 32)
    record.store(pinned.entries, at: 40)
    record.store(absent.bytes, at: 48)
    record.store(absent.entries, at: 56)
    record.store(forgottenTags, at: 64)
    record.store(objectBytes, at: 72)
    record.store(changeCapacity, at: 80)
    record.store(changeStart, at: 88)
    record.store(changeCount, at: 96)
    record.store(XXH64.hash(record.prefix(104)), at: 104)
  }

  /// Returns the encoded record with its checksum.
  package func encoded() -> [UInt8] {
    withByteScratch(StoreTotals.size) { record in
      write(to: &record)
      return record.span.copied()
    }
  }
}
