// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The damage generator: a healthy file, a kind of damage and a seed make a damaged file, the same
// in any process. Some kinds are what disks, crashes and careless tools do; the others aim at each
// field that LMDB trusts.

/// A kind of damage.
enum Damage: String, CaseIterable {
  // The file as a whole.
  case empty, oneByte, withinMeta, onlyMetas, half, lastPage, anywhere, grown
  case text, json, randomBytes
  // Bits and pages.
  case flippedBit, flippedBits, flippedMetaBit, flippedHeaderBit, flippedOffsetBit, flippedNodeBit
  case zeroedPage, zeroedPages, randomPage, randomPages, randomHeader
  case swappedPages, copiedPage, sharedPage, tornWrite, lostPage
  // Metas.
  case magic, version, noPageSize, otherPageSize, hugeLastPage, smallLastPage, mapSize
  case mainRoot, freeRoot, swappedRoots, transactionID, zeroedMeta, copiedMeta, metaTable
  // Trees.
  case cycle, wrongChild, swappedChildren, dirtyFlag, bounds, offsets, swappedKeys, branchKey
  case keySize, dataSize, nodeFlags
  case overflowCount, overflowPage, overflowShared
  case tableRoot, tableDepth, tableFlags, tableCounters
  case freePage, freeLive, freeTwice, freeCount, freeFuture
}

/// A data file in memory, and where its live pages are.
struct Image {
  var bytes: [UInt8]
  private(set) var branches: [Int] = []
  private(set) var leaves: [Int] = []
  private(set) var overflows: [Int] = []
  /// Offsets of the records of the main and the named tables, in the file.
  private(set) var records: [Int] = []
  private(set) var freeLeaves: [Int] = []

  static let pageSize = 4_096

  /// `bytes` must be healthy.
  init(_ bytes: [UInt8]) {
    self.bytes = bytes
    records = [meta + 88]
    visit(Int(truncatingIfNeeded: u64(meta + 88 + 40)), isFree: false)
    visit(Int(truncatingIfNeeded: u64(meta + 40 + 40)), isFree: true)
  }

  var pages: Int { bytes.count / Self.pageSize }
  /// The offset of the newer meta page.
  var meta: Int { u64(144) < u64(Self.pageSize + 144) ? Self.pageSize : 0 }

  /// Aiming beyond the end of the file misses.
  private func byte(_ offset: Int) -> UInt8 { offset < bytes.count ? bytes[offset] : 0 }
  func u16(_ offset: Int) -> Int {
    Int(byte(offset)) | Int(byte(offset + 1)) << 8
  }
  func u64(_ offset: Int) -> UInt64 {
    (0..<8).reduce(0) { $0 | UInt64(byte(offset + $1)) << UInt64(8 * $1) }
  }
  mutating func set(_ offset: Int, _ value: UInt64, bytes count: Int = 8) {
    for index in 0..<count where offset + index < bytes.count {
      bytes[offset + index] = UInt8(truncatingIfNeeded: value >> UInt64(8 * index))
    }
  }
  func nodes(_ page: Int) -> [Int] {
    let base = page * Self.pageSize
    return (0..<(u16(base + 12) - 16) / 2).map { base + u16(base + 16 + 2 * $0) }
  }

  private mutating func visit(_ page: Int, isFree: Bool) {
    guard page > 0 else { return }
    if u16(page * Self.pageSize + 10) == 1 {
      branches.append(page)
      for node in nodes(page) {
        visit(u16(node) | u16(node + 2) << 16 | u16(node + 4) << 32, isFree: isFree)
      }
      return
    }
    leaves.append(page)
    if isFree { freeLeaves.append(page) }
    for node in nodes(page) {
      let data = node + 8 + u16(node + 6)
      if u16(node + 4) == 1 { overflows.append(Int(u64(data))) }
      if u16(node + 4) == 2 {
        records.append(data)
        visit(Int(truncatingIfNeeded: u64(data + 40)), isFree: false)
      }
    }
  }
}

extension Image {
  /// Damages the file. `older` is the same file some transactions before.
  mutating func damage(_ kind: Damage, older: [UInt8], random: inout SeededGenerator) {
    let size = Self.pageSize
    let tree = branches + leaves
    let meta = self.meta
    let page = tree[random.below(tree.count)]
    let leaf = leaves[random.below(leaves.count)]
    let branch = branches.isEmpty ? leaf : branches[random.below(branches.count)]
    let leafNodes = nodes(leaf)
    let node = leafNodes[random.below(leafNodes.count)]
    let anyPage = UInt64(2 + random.below(pages - 2))
    let record = records[random.below(records.count)]
    let freeLeaf = freeLeaves.isEmpty ? leaf : freeLeaves[random.below(freeLeaves.count)]
    let freeNodes = nodes(freeLeaf)
    let list = freeNodes[random.below(freeNodes.count)] + 16

    switch kind {
    case .empty: bytes = []
    case .oneByte: bytes = [0]
    case .withinMeta: bytes.removeLast(bytes.count - 1 - random.below(2 * size - 1))
    case .onlyMetas: bytes.removeLast(bytes.count - 2 * size)
    case .half: bytes.removeLast(bytes.count / 2)
    case .lastPage: bytes.removeLast(size)
    case .anywhere: bytes.removeLast(1 + random.below(bytes.count - 1))
    case .grown: bytes += random.bytes(1 + random.below(3 * size))
    case .text: bytes = Array("SQLite format 3\0".utf8) + bytes.dropFirst(16)
    case .json: bytes = Array("{\"values\": [1, 2, 3]}\n".utf8)
    case .randomBytes: bytes = (0..<40).flatMap { _ in random.bytes(512) }

    case .flippedBit: flip(random.below(bytes.count), &random)
    case .flippedBits: for _ in 0..<100 { flip(random.below(bytes.count), &random) }
    case .flippedMetaBit: flip(random.below(2) * size + random.below(152), &random)
    case .flippedHeaderBit: flip(page * size + random.below(16), &random)
    case .flippedOffsetBit: flip(page * size + 16 + random.below(2 * nodes(page).count), &random)
    case .flippedNodeBit: flip(node + random.below(8), &random)
    case .zeroedPage: fill(page, with: [])
    case .zeroedPages: for _ in 0..<10 { fill(2 + random.below(pages - 2), with: []) }
    case .randomPage: randomise(page, &random)
    case .randomPages: for _ in 0..<10 { randomise(2 + random.below(pages - 2), &random) }
    case .randomHeader:
      set(page * size + random.below(16), random.next(), bytes: 1 + random.below(8))
    case .swappedPages:
      let (first, second) = (content(page), content(leaf))
      fill(page, with: second)
      fill(leaf, with: first)
    case .copiedPage: fill(page, with: content(Int(anyPage)))
    case .sharedPage:
      fill(page, with: content(leaf))
      set(page * size, UInt64(page))
    case .tornWrite:
      // The metas are on the disk, some of the other pages are not: a crash without sync.
      for page in 2..<min(pages, older.count / size) where random.chance(3) {
        fill(page, with: Array(older[page * size..<(page + 1) * size]))
      }
    case .lostPage:
      let old = min(page, older.count / size - 1)
      fill(page, with: Array(older[old * size..<(old + 1) * size]))

    case .magic: set(random.below(2) * size + 16, random.next(), bytes: 4)
    case .version: set(random.below(2) * size + 20, random.next(), bytes: 4)
    case .noPageSize: set(random.below(2) * size + 40, 0, bytes: 4)
    case .otherPageSize:
      let other = UInt64(256) << UInt64(random.below(10))
      set(40, other == 4_096 ? 4_097 : other, bytes: 4)
      if random.chance(2) { set(size + 40, other, bytes: 4) }
    case .hugeLastPage: set(meta + 136, number(&random))
    case .smallLastPage: set(meta + 136, UInt64(random.below(pages - 1)))
    case .mapSize: set(meta + 32, number(&random))
    case .mainRoot: set(meta + 88 + 40, random.chance(3) ? number(&random) : anyPage)
    case .freeRoot: set(meta + 40 + 40, random.chance(3) ? number(&random) : anyPage)
    case .swappedRoots:
      let main = u64(meta + 88 + 40)
      set(meta + 88 + 40, u64(meta + 40 + 40))
      set(meta + 40 + 40, main)
    case .transactionID:
      let id = u64(meta + 144)
      set(meta + 144, random.chance(2) ? number(&random) : id &+ UInt64(1 + random.below(9)))
    case .zeroedMeta: fill(random.below(2), with: [])
    case .copiedMeta: fill(random.below(2), with: content(random.below(2)))
    case .metaTable: set(meta + 40 + random.below(96), random.next(), bytes: 1 + random.below(8))

    case .cycle:
      setChild(of: branch, UInt64(random.chance(2) ? branch : branches.first ?? branch), &random)
    case .wrongChild: setChild(of: branch, random.chance(3) ? number(&random) : anyPage, &random)
    case .swappedChildren:
      let nodes = nodes(branch)
      let (first, second) = (nodes[0], nodes[random.below(nodes.count)])
      let child = u64(first) & 0xFFFF_FFFF_FFFF
      set(first, u64(second), bytes: 6)
      set(second, child, bytes: 6)
    case .dirtyFlag:
      let flag = UInt64([0x10, 0x20, 0x40, 0x4000, 0x8000][random.below(5)])
      set(page * size + 10, UInt64(u16(page * size + 10)) ^ flag, bytes: 2)
    case .bounds:
      let field = page * size + 12 + 2 * random.below(2)
      let near = UInt64(u16(field) + 8 - random.below(17))
      set(field, random.chance(2) ? near : random.next(), bytes: 2)
    case .offsets:
      let field = page * size + 16 + 2 * random.below(nodes(page).count)
      let near = UInt64(u16(field) + 8 - random.below(17))
      set(field, random.chance(2) ? near : random.next(), bytes: 2)
    case .swappedKeys:
      let first = page * size + 16
      let second = first + 2 * random.below(nodes(page).count)
      let offset = UInt64(u16(first))
      set(first, UInt64(u16(second)), bytes: 2)
      set(second, offset, bytes: 2)
    case .branchKey:
      let nodes = nodes(branch)
      set(nodes[random.below(nodes.count)] + 8 + random.below(4), random.next(), bytes: 1)
    case .keySize:
      set(node + 6, random.chance(2) ? UInt64(random.below(600)) : random.next(), bytes: 2)
    case .dataSize: set(node, random.chance(2) ? UInt64(u16(node) ^ 1) : random.next(), bytes: 4)
    case .nodeFlags: set(node + 4, UInt64(random.below(16)), bytes: 2)
    case .overflowCount, .overflowPage, .overflowShared:
      damageOverflow(kind, anyPage: anyPage, &random)

    case .tableRoot: set(record + 40, random.chance(3) ? number(&random) : anyPage)
    case .tableDepth: set(record + 6, UInt64(random.below(40)), bytes: 2)
    case .tableFlags: set(record + 4, UInt64(1) << UInt64(random.below(16)), bytes: 2)
    case .tableCounters:
      let field = record + 8 + 8 * random.below(4)
      set(field, random.chance(2) ? u64(field) &+ 1 : number(&random))

    case .freePage: set(list + 8, number(&random))
    case .freeLive: set(list + 8, UInt64(page))
    case .freeTwice: set(list + 8, u64(list + 16))
    case .freeCount: set(list, random.chance(2) ? u64(list) &+ 1 : number(&random))
    case .freeFuture: set(list - 8, number(&random))
    }
  }

  private mutating func damageOverflow(
    _ kind: Damage, anyPage: UInt64, _ random: inout SeededGenerator
  ) {
    guard overflows.count > 1 else { return flip(random.below(bytes.count), &random) }
    let run = overflows[random.below(overflows.count)]
    let count = run * Self.pageSize + 12
    switch kind {
    case .overflowCount:
      set(count, random.chance(2) ? u64(count) + 1 : random.next(), bytes: 4)
    default:
      for leaf in leaves {
        for node in nodes(leaf) where u16(node + 4) == 1 && random.chance(8) {
          let page = kind == .overflowShared ? UInt64(run) : anyPage
          set(node + 8 + u16(node + 6), page)
        }
      }
    }
  }

  private mutating func setChild(of page: Int, _ child: UInt64, _ random: inout SeededGenerator) {
    let nodes = nodes(page)
    set(nodes[random.below(nodes.count)], child, bytes: 6)
  }

  private mutating func flip(_ offset: Int, _ random: inout SeededGenerator) {
    bytes[offset] ^= 1 << UInt8(random.below(8))
  }

  private func content(_ page: Int) -> [UInt8] {
    Array(bytes[page * Self.pageSize..<(page + 1) * Self.pageSize])
  }

  private mutating func fill(_ page: Int, with content: [UInt8]) {
    let range = page * Self.pageSize..<(page + 1) * Self.pageSize
    bytes.replaceSubrange(
      range, with: content.isEmpty ? [UInt8](repeating: 0, count: Self.pageSize) : content)
  }

  private mutating func randomise(_ page: Int, _ random: inout SeededGenerator) {
    fill(page, with: (0..<8).flatMap { _ in random.bytes(512) })
    // Half of them keep a plausible header, so that the later checks get random bytes too.
    guard random.chance(2) else { return }
    set(page * Self.pageSize, UInt64(page))
    set(page * Self.pageSize + 10, UInt64([1, 2, 4][random.below(3)]), bytes: 2)
    set(page * Self.pageSize + 12, UInt64(16 + 2 * random.below(40)), bytes: 2)
    set(page * Self.pageSize + 14, UInt64(100 + 2 * random.below(1_900)), bytes: 2)
  }

  /// Small, large, around a power of two, or the largest.
  private func number(_ random: inout SeededGenerator) -> UInt64 {
    switch random.below(4) {
    case 0: UInt64(random.below(300))
    case 1: (1 << UInt64(random.below(64))) &- UInt64(random.below(3))
    case 2: UInt64.max - UInt64(random.below(3))
    default: random.next()
    }
  }
}
