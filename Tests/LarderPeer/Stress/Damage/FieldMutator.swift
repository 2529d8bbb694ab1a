// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderSystem
import LarderTesting

// HOSTILE LENGTHS
//
// Random bytes rarely give a field a value that is wrong and plausible at once. Here single fields
// of the formats get 0, 1, -1, huge values, or their value plus or minus one: the metas, page
// headers, nodes, table records and entry headers of data.mdb; the head, slots and stamps of
// shared.table; `state`, with its checksum put right; `CURRENT`, with its checksum put right; the
// head, mutexes and reader slots of lock.mdb.

enum FieldMutator {
  /// Damages one field, and returns a description, or `nil` if the file has no known fields.
  static func damage(
    _ bytes: inout [UInt8], of name: String, _ random: inout SeededRandom
  ) -> String? {
    switch name {
    case "data.mdb": data(&bytes, &random)
    case "shared.table": table(&bytes, &random)
    case "state": state(&bytes, &random)
    case "CURRENT": current(&bytes, &random)
    case "lock.mdb": lock(&bytes, &random)
    default: nil
    }
  }

  /// Replaces the integer of `size` bytes at an offset by a hostile one.
  private static func spoil(
    _ bytes: inout [UInt8], _ offset: Int, _ size: Int, _ what: String,
    _ random: inout SeededRandom
  ) -> String {
    guard offset >= 0, offset + size <= bytes.count else { return "\(what): not there" }
    var old: UInt64 = 0
    for index in (0..<size).reversed() { old = old << 8 | UInt64(bytes[offset + index]) }
    let value: UInt64 =
      switch Int.random(in: 0..<12, using: &random) {
      case 0: 0
      case 1: 1
      case 2, 3: .max
      case 4: .max - 1
      case 5: 1 << 31
      case 6: 1 << 63
      case 7: 0x7FFF_FFFF_FFFF_FFFF
      case 8: old &+ 1
      case 9: old &- 1
      case 10: old ^ (1 << UInt64.random(in: 0..<UInt64(size * 8), using: &random))
      default: random.next() >> UInt64.random(in: 0..<64, using: &random)
      }
    for index in 0..<size {
      bytes[offset + index] = UInt8(truncatingIfNeeded: value >> UInt64(8 * index))
    }
    return "\(what) (\(size) bytes at \(offset)): \(old) became \(value)"
  }

  // MARK: data.mdb

  private static let metaFields: [(Int, Int)] = [
    (0, 8), (10, 2), (16, 4), (20, 4), (24, 8), (32, 8), (40, 4), (44, 2), (46, 2), (48, 8),
    (56, 8), (64, 8), (72, 8), (80, 8), (92, 2), (94, 2), (96, 8), (104, 8), (112, 8), (120, 8),
    (128, 8), (136, 8), (144, 8),
  ]
  /// Of an entry's header, and of the store's own records, which begin where entries do.
  private static let recordFields: [(Int, Int)] = [
    (0, 1), (0, 4), (1, 1), (2, 2), (4, 4), (6, 1), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8),
    (48, 8), (48, 4), (52, 4), (56, 4), (56, 8), (60, 1), (64, 8), (72, 4),
  ]

  private static func data(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let pages = bytes.count / 4096
    guard pages > 2 else { return spoil(&bytes, 16, 4, "magic", &random) }
    if random.chance(30) {
      let (offset, size) = metaFields.randomElement(using: &random)!
      let which = Int.random(in: 0..<3, using: &random)
      var text = ""
      for meta in 0..<2 where which == 2 || which == meta {
        text += spoil(&bytes, meta * 4096 + offset, size, "meta \(meta) ", &random)
      }
      return text
    }
    // A page of a tree; else whatever page it is.
    var page = Int.random(in: 2..<pages, using: &random)
    for _ in 0..<20 {
      let flags: UInt16 = bytes.integer(at: page * 4096 + 10)!
      if flags == 1 || flags == 2 { break }
      page = Int.random(in: 2..<pages, using: &random)
    }
    let base = page * 4096
    let lower = Int(bytes.integer(at: base + 12, as: UInt16.self)!)
    let count = max((lower - 16) / 2, 0)
    if count == 0 || count > 2000 || random.chance(25) {
      let (offset, size) = [(0, 8), (8, 2), (10, 2), (12, 2), (14, 2), (12, 4)]
        .randomElement(using: &random)!
      return spoil(&bytes, base + offset, size, "header of page \(page)", &random)
    }
    let index = Int.random(in: 0..<count, using: &random)
    let slot = base + 16 + 2 * index
    if random.chance(15) { return spoil(&bytes, slot, 2, "node \(index) of \(page)", &random) }
    let node = base + Int(bytes.integer(at: slot, as: UInt16.self)!)
    let what = "node \(index) of page \(page)"
    guard let key: UInt16 = bytes.integer(at: node + 6), random.chance(75) else {
      let (offset, size) = [(0, 4), (4, 2), (6, 2), (8, 8)].randomElement(using: &random)!
      return spoil(&bytes, node + offset, size, what, &random)
    }
    let (offset, size) = recordFields.randomElement(using: &random)!
    return spoil(&bytes, node + 8 + Int(key) + offset, size, "the value of \(what)", &random)
  }

  // MARK: shared.table

  private static func table(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    typealias Layout = SharedTableLayout
    func number(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
    switch number(10) {
    case 0...4:
      // Every word of the head, defined or not.
      let size = random.chance(60) ? 8 : 4
      return spoil(&bytes, number(Layout.namespaceStamps / size) * size, size, "head", &random)
    case 5:
      let names = [
        Layout.condemned, Layout.openAttempts, Layout.crashesInLMDB, Layout.dirty,
        Layout.waiters,
      ]
      return spoil(&bytes, names.randomElement(using: &random)!, 4, "head", &random)
    case 6:
      let offset = Layout.namespaceStamps + 8 * number(Layout.namespaceStampCount)
      return spoil(&bytes, offset, 8, "namespace stamp", &random)
    case 7:
      let offset = Layout.leases + Layout.leaseSize * number(4) + 8 * number(3)
      return spoil(&bytes, offset, 8, "lease", &random)
    case 8:
      let offset = Layout.processes + Layout.processSize * number(3) + 8 * number(32)
      return spoil(&bytes, offset, 8, "process", &random)
    default:
      let shape = SharedTableShape(budget: 0)
      // Many at once: one of 65,536 stamps would hardly ever be met.
      let start = random.chance(50) ? shape.stamps : shape.recency
      let value: UInt64 = [0, 1, .max, random.next()].randomElement(using: &random)!
      for index in 0..<StampSlot.count where start + 8 * index + 8 <= bytes.count {
        bytes.store(value, at: start + 8 * index)
      }
      return "all \(start == shape.stamps ? "stamps" : "recency words") became \(value)"
    }
  }

  // MARK: The small files

  private static func state(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    guard bytes.count == StoreState.size else { return "not a state file any more" }
    let (offset, size) = [
      (0, 8), (8, 4), (12, 4), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8), (56, 8), (64, 8),
      (72, 8),
    ]
    .randomElement(using: &random)!
    let text = spoil(&bytes, offset, size, "field", &random)
    if random.chance(25) { return text }
    let end = StoreState.checksumOffset
    bytes.store(XXH64.hash(Array(bytes[..<end])), at: end)
    return text + ", checksum put right"
  }

  private static func current(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let text: String =
      switch Int.random(in: 0..<9, using: &random) {
      case 0: CurrentPointer.text(2)
      case 1: CurrentPointer.text(1)
      case 2: CurrentPointer.text(999)
      case 3: CurrentPointer.text((1 << 20) - 1)
      case 4: CurrentPointer.text(0)
      case 5: CurrentPointer.text(.max)
      case 6: "larder 2 g-1 0\n"
      case 7: String(repeating: "larder 1 g-1 ", count: 10_000)
      default: "larder 1 g-../.. 0\n"
      }
    bytes = Array(text.utf8)
    return "became \(text.prefix(40).debugDescription)"
  }

  private static func lock(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let size = random.chance(50) ? 8 : 4
    // Two lines of head, a mutex in each, then the reader slots.
    let words = (random.chance(70) ? 192 : 4096) / size
    return spoil(&bytes, Int.random(in: 0..<words, using: &random) * size, size, "word", &random)
  }
}
#endif
