// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderCoding
import LarderEngine
import LarderSystem
import LarderTesting

/// The file `state`.
struct StateFuzz: FuzzTarget {
  let name = "state"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    [true, false].map {
      StoreState(
        isDirty: $0, bootID: random.next(), storeID: (random.next(), random.next()),
        clean: (random.next(), random.next()),
        pageCache: .init(mount: random.next(), fileSystem: random.next())
      ).bytes()
    }
  }

  func repair(_ bytes: inout [UInt8]) {
    guard bytes.count >= StoreState.size else { return }
    let end = StoreState.checksumOffset
    bytes.store(XXH64.hash(Array(bytes[..<end])), at: end)
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    guard let state = StoreState(bytes) else { return UInt64(min(bytes.count, 100)) }
    let again = StoreState(state.bytes())
    law(
      again?.bytes() == state.bytes() && again?.isDirty == state.isDirty,
      "state is another after encoding")
    return state.isDirty ? 1001 : 1002
  }
}

/// The file `CURRENT`.
struct CurrentFuzz: FuzzTarget {
  let name = "current"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    [1, 2, 10, 999, (1 << 20) - 1].map { Array(CurrentPointer.text($0).utf8) }
  }

  func repair(_ bytes: inout [UInt8]) {
    let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
    guard words.count > 2, words[2].hasPrefix("g-"), let number = UInt64(words[2].dropFirst(2))
    else { return }
    bytes = Array(CurrentPointer.text(number).utf8)
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    guard let number = CurrentPointer.parse(bytes) else {
      return UInt64(min(bytes.split(separator: 32).count, 20))
    }
    law(number > 0 && number < 1 << 20, "CURRENT names generation \(number)")
    law(CurrentPointer.parse(Array(CurrentPointer.text(number).utf8)) == number, "CURRENT differs")
    return 1000 + UInt64(number.bitWidth - number.leadingZeroBitCount)
  }
}

/// Keys made again from their bytes, of every type that can be.
struct KeyFuzz: FuzzTarget {
  let name = "key"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    func seed(_ type: UInt8, _ key: some CacheKey) -> [UInt8] { [type] + key.keyBytes }
    return [
      seed(0, "a key, æøå"), seed(1, random.bytes(20)), seed(2, Data([1, 2])), seed(3, UUID()),
      seed(4, Int.min), seed(4, -1), seed(5, Int8(-128)), seed(6, Int16.max), seed(7, Int32(7)),
      seed(8, Int64.max), seed(9, UInt.max), seed(10, UInt8(255)), seed(11, UInt16(1)),
      seed(12, UInt32(0)), seed(13, UInt64.max),
    ]
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    let key = Array(bytes.dropFirst())
    return switch (bytes.first ?? 0) % 14 {
    case 0: check(String.self, key)
    case 1: check([UInt8].self, key)
    case 2: check(Data.self, key)
    case 3: check(UUID.self, key)
    case 4: check(Int.self, key)
    case 5: check(Int8.self, key)
    case 6: check(Int16.self, key)
    case 7: check(Int32.self, key)
    case 8: check(Int64.self, key)
    case 9: check(UInt.self, key)
    case 10: check(UInt8.self, key)
    case 11: check(UInt16.self, key)
    case 12: check(UInt32.self, key)
    default: check(UInt64.self, key)
    }
  }

  /// A key that can be made again is the same key: its bytes are these.
  private func check<Key: DecodableCacheKey>(_ type: Key.Type, _ bytes: [UInt8]) -> UInt64 {
    guard let key = Key(keyBytes: bytes) else { return UInt64(Key.keyTag.rawValue) << 8 }
    law(key.keyBytes == bytes, "\(type): the key of \(bytes) has the bytes \(key.keyBytes)")
    return UInt64(Key.keyTag.rawValue) << 8 | UInt64(min(bytes.count, 20))
  }
}

/// `shared.table`: its first kilobytes are the input, the rest is zero.
///
/// The length of the file is the one a valid table has, or that of the input.
struct TableFuzz: FuzzTarget {
  let name = "table"
  private static let head = SharedTableLayout.processes + 4096

  private static func path() -> String {
    (FileSystem.environment("LARDER_FUZZ_DIRECTORY") ?? "/tmp") + "/fuzz-\(ProcessIdentity.pid)"
  }

  func seeds(_ random: inout SeededRandom) throws -> [[UInt8]] {
    let path = Self.path() + "-seed"
    defer { TestFiles.removeAll(path) }
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    var meta = StoreMeta(
      durability: .cache, generation: 3, inheriting: nil, budget: 1 << 20,
      shape: SharedTableShape(budget: 0), created: 0)
    meta.storeID = (1, 2)
    try SharedTable.create(
      in: file, for: meta, commitVersion: 3 << 40 + 17, files: .init(isDirty: false))
    let head = try file.read(count: Self.head, at: 0)
    return [Array(head.prefix(512)), Array(head.prefix(1200)), head]
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    let path = Self.path()
    guard let file = try? OwnedFile(path: path, creation: .createIfMissing) else { return 0 }
    let whole = SharedTableShape(budget: 0).fileSize
    guard (try? file.truncate(to: 0)) != nil,
      (try? file.truncate(to: bytes.count % 7 == 6 ? bytes.count : whole)) != nil,
      (try? file.write(bytes, at: 0)) != nil,
      let table = try? SharedTable(mapping: file)
    else { return 1 }
    var outcome = DecodingFacts()
    outcome.add(table.isFenced ? 1 : 0)
    outcome.add(table.isDirty ? 1 : 0)
    outcome.add(count: Int(truncatingIfNeeded: table.budget))
    outcome.add(count: Int(truncatingIfNeeded: table.floor))
    outcome.add(table.ticketHolder == nil ? 0 : 1)
    for slot in [0, 1, 65_535].map({ StampSlot(hash: $0) }) {
      _ = table.minimumValidReadVersion(slot: slot)
      outcome.add(table.isCurrent(slot: slot, readVersion: ~(5 << 40)) ? 1 : 0)
      table.stamp(slot: slot, commitVersion: 4 << 40)
      law(table.minimumValidReadVersion(slot: slot) >= 4 << 40, "a stamp was not taken")
    }
    for hash in [0, 1, UInt64.max] {
      table.touch(hash: hash)
      _ = table.lastUse(hash: hash)
    }
    let before = table.floor
    table.raiseFloor(to: 5 << 40)
    law(table.floor >= max(before, 5 << 40), "the floor fell")
    for process in 0..<4 {
      outcome.add(table.pid(process: process) == nil ? 0 : 1)
      outcome.add(table.leave(process: process) ? 1 : 0)
    }
    table.enter(process: 0)
    table.count(.commits, process: 0)
    for counter in Counter.allCases { _ = table.total(counter) }
    for hash in 0..<3 {
      guard let lease = table.takeLease(hash: UInt64(hash), namespace: 1, process: 0) else {
        continue
      }
      table.cancelLeases(hash: UInt64(hash))
      law(!table.isValid(lease), "a lease was not cancelled")
      table.dropLease(lease)
    }
    table.cancelLeases(namespace: 0)
    table.cancelAllLeases()
    _ = table.namespaceLabel(.max)
    table.stampNamespace(.max, commitVersion: 6 << 40)
    _ = table.advanceClock(milliseconds: .max)
    _ = table.claimReaderCheck(now: 1_700_000_000_000, interval: 5000)
    table.raiseDataBytes(to: 1 << 20)
    table.advanceWakeWord()
    table.fence()
    law(table.isFenced, "not condemned")
    return outcome.value
  }
}
#endif
