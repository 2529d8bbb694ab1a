// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderLMDB
import Testing

/// Each rule of the verifier has a file that breaks it and, as far as can be, no other.
struct StructuralRuleTests {
  /// An edit of the healthy file, and what must be found first.
  struct Rule: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let code: StructuralVerifier.Finding.Code
    let edit: @Sendable (inout Image) -> Void

    init(
      _ name: String, _ code: StructuralVerifier.Finding.Code,
      _ edit: @escaping @Sendable (inout Image) -> Void
    ) {
      testDescription = name
      self.code = code
      self.edit = edit
    }
  }

  // The tables of the healthy file, as indices into its records. Record 0 is the main table's.
  static let (pair, empty, hidden, long, tree) = (1, 2, 3, 4, 5)

  static func healthy() throws -> Image {
    let scratch = try ScratchDirectory()
    let environment = try RawEnvironment(scratch.path, mapBytes: 1 << 20)
    // A node within a value: header (data 4, flags 0, key 1), key 9, data; it ends where its host does.
    let fake: [UInt8] = [0, 4, 0, 0, 0, 0, 0, 1, 0, 9, 1, 2, 3, 4, 5]
    try environment.write { transaction in
      let pair = try transaction.table("a pair", RawEnvironment.create)
      try transaction.put(pair, [2], [UInt8](repeating: 2, count: 1_901))
      try transaction.put(pair, [3], [UInt8](repeating: 3, count: 1_001))
      _ = try transaction.table("empty", RawEnvironment.create)
      try transaction.put(try transaction.table("hidden", RawEnvironment.create), [1], fake)
      let long = try transaction.table("long", RawEnvironment.create)
      try transaction.put(long, [1], [UInt8](repeating: 1, count: 9_000))
      let flags = RawEnvironment.create | RawEnvironment.integerKey
      let tree = try transaction.table("tree", flags)
      for key in 0..<60 { try transaction.put(tree, integerKey(2 * key), [1, 2, 3]) }
    }
    for key in 60..<200 {
      try environment.write {
        try $0.put(try $0.table("tree"), integerKey(2 * key), [UInt8](repeating: 1, count: 40))
      }
    }
    return Image(Array(try Data(contentsOf: URL(fileURLWithPath: environment.dataPath))))
  }

  @Test(arguments: rules)
  func `Each rule finds the file that breaks it`(rule: Rule) throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/data.mdb"
    var image = try Self.healthy()
    try Data(image.bytes).write(to: URL(fileURLWithPath: path))
    #expect(try StructuralVerifier.verify(path: path).findings == [])
    let before = image.bytes
    rule.edit(&image)
    #expect(image.bytes != before)
    try Data(image.bytes).write(to: URL(fileURLWithPath: path))
    let report = try StructuralVerifier.verify(path: path)
    #expect(report.findings.first?.code == rule.code, "\(report.findings)")
  }

  /// The last offset is in the first two bytes of the lowest node: the low half of the size of an
  /// overflow value, which happens to equal that offset. All other rules hold. LMDB would take the
  /// room on this page for almost 64 kB.
  @Test func `Offsets that run into the nodes are found`() throws {
    let scratch = try ScratchDirectory()
    let environment = try RawEnvironment(scratch.path, mapBytes: 1 << 20)
    try environment.write { transaction in
      let table = try transaction.table("full", RawEnvironment.create)
      for key in 0..<338 {
        let value: [UInt8] = key == 0 ? [1, 2, 3, 4, 5, 6] : []
        try transaction.put(table, [UInt8(key / 256), UInt8(key % 256)], value)
      }
    }
    var image = Image(Array(try Data(contentsOf: URL(fileURLWithPath: environment.dataPath))))
    let (record, page) = (image.records[1], image.root(1))
    #expect(image.u16(page + 12) == 692)
    #expect(image.u16(page + 14) == 710)
    let run = image.pages
    image.bytes += [UInt8](repeating: 0, count: Image.pageSize)
    image.set(run * Image.pageSize, UInt64(run))
    image.set(run * Image.pageSize + 10, 4 | 1 << 16, bytes: 6)
    image.set(image.meta + 136, UInt64(run))
    image.set(page + 12, 694 | 692 << 16, bytes: 4)
    image.set(page + 692, 692 | 1 << 32 | 2 << 48)
    image.set(page + 700, 0xFFFF | UInt64(run) << 16)
    image.set(page + 708, 0, bytes: 2)
    image.set(record + 24, 1)
    image.set(record + 32, 339)
    let path = scratch.path + "/damaged.mdb"
    try Data(image.bytes).write(to: URL(fileURLWithPath: path))
    let findings = try StructuralVerifier.verify(path: path).findings
    #expect(findings.map(\.detail) == ["has bounds 694 and 692"])
  }

  static let metaRules = [
    Rule("a flag too many in a meta page's header", .meta) { $0.set(10, 0x18, bytes: 2) },
    Rule("a meta page with another number", .meta) { $0.set(4_096, 7) },
    Rule("a free table that sorts duplicates", .meta) { $0.set($0.meta + 44, 0x0C, bytes: 2) },
    Rule("metas of different page sizes", .meta) { $0.set(4_096 + 40, 8_192, bytes: 4) },
    Rule("a last page beyond the map", .meta) { $0.set($0.meta + 136, 256) },
    Rule("a page more than there are", .fileTooShort) {
      $0.set($0.meta + 136, $0.u64($0.meta + 136) + 1)
    },
    Rule("metas on each other's side", .transactionIDs) {
      let first = $0.u64(144)
      $0.set(144, $0.u64(4_096 + 144))
      $0.set(4_096 + 144, first)
    },
    Rule("metas two transactions apart", .transactionIDs) {
      $0.set($0.meta + 144, $0.u64($0.meta + 144) + 2)
    },
    Rule("an older meta that calls itself the newer one", .transactionIDs) {
      let older = Image.pageSize - $0.meta
      $0.set(older + 144, $0.u64(older + 144) + 2)
    },
    Rule("transactions of the far future", .transactionIDs) {
      $0.set(144, $0.u64(144) | 1 << 63)
      $0.set(4_096 + 144, $0.u64(4_096 + 144) | 1 << 63)
    },
    Rule("an older meta with more pages", .transactionIDs) {
      $0.set(4_096 - $0.meta + 136, 200)
    },
  ]

  static let pageRules = [
    Rule("another page's number", .pageLayout) { $0.set($0.root(tree), 9) },
    Rule("a dirty page", .pageLayout) { $0.set($0.root(tree) + 10, 0x11, bytes: 2) },
    Rule("a leaf above its level", .pageLayout) { $0.set($0.records[tree] + 6, 3, bytes: 2) },
    Rule("a branch at the bottom", .pageLayout) { $0.set($0.records[tree] + 6, 1, bytes: 2) },
    Rule("an empty leaf", .pageLayout) {
      $0.set($0.root(hidden) + 12, 16 | 4_096 << 16, bytes: 4)
      $0.set($0.records[hidden] + 32, 0)
    },
    Rule("a branch with one child", .pageLayout) {
      let root = $0.root(tree)
      $0.set(root + 12, 18, bytes: 2)
      $0.set(root + 14, UInt64($0.u16(root + 16)), bytes: 2)
    },
    Rule("an odd count of bytes in offsets", .pageLayout) {
      $0.set($0.root(tree) + 12, UInt64($0.u16($0.root(tree) + 12) + 1), bytes: 2)
    },
    Rule("an odd offset", .node) {
      $0.set($0.root(tree) + 16, UInt64($0.u16($0.root(tree) + 16) + 1), bytes: 2)
    },
    Rule("a node that leaves the page", .node) { $0.set($0.node(hidden, 0) + 0, 1_000, bytes: 4) },
    Rule("a gap before the first node", .pageLayout) {
      $0.set($0.root(tree) + 14, UInt64($0.u16($0.root(tree) + 14) - 2), bytes: 2)
    },
    Rule("a node within another's value", .pageLayout) {
      let root = $0.root(hidden)
      $0.set(root + 12, 20, bytes: 2)
      $0.set(root + 18, UInt64($0.u16(root + 16) + 10), bytes: 2)
      $0.set($0.records[hidden] + 32, 2)
    },
    Rule("a node too large for a page with two", .node) {
      let root = $0.root(pair)
      $0.set($0.node(pair, 1), UInt64(1_001 + 1_910), bytes: 4)
      $0.set(root + 16, UInt64($0.u16(root + 18)), bytes: 2)
      $0.set(root + 12, 18, bytes: 2)
      $0.set($0.records[pair] + 32, 1)
    },
    Rule("a key longer than keys can be", .node) {
      $0.set($0.node(pair, 1), UInt64(1_001 - 511), bytes: 4)
      $0.set($0.node(pair, 1) + 6, 512, bytes: 2)
    },
    Rule("an empty key", .key) {
      $0.set($0.node(pair, 0), 1_902, bytes: 4)
      $0.set($0.node(pair, 0) + 6, 0, bytes: 2)
    },
    Rule("unknown node flags", .node) { $0.set($0.node(pair, 0) + 4, 8, bytes: 2) },
    Rule("a table within a table", .node) { $0.set($0.node(pair, 0) + 4, 2, bytes: 2) },
    Rule("equal keys", .key) { $0.set($0.node(pair, 1) + 8, 2, bytes: 1) },
    Rule("an integer key of six bytes", .key) {
      let node = $0.nodes($0.child(tree, 0))[0]
      $0.set(node, 5, bytes: 4)
      $0.set(node + 6, 6, bytes: 2)
    },
    Rule("a first key before its branch key", .key) {
      $0.set($0.node(tree, 1) + 8, $0.u64($0.node(tree, 1) + 8) + 1)
    },
    Rule("a last key of the next page", .key) {
      $0.set($0.node(tree, 1) + 8, $0.u64($0.node(tree, 1) + 8) - 2)
    },
    Rule("a child used twice", .pageUsedTwice) {
      $0.set($0.node(tree, 1), UInt64($0.child(tree, 0)), bytes: 6)
    },
    Rule("a meta page as a child", .pageRange) { $0.set($0.node(tree, 1), 1, bytes: 6) },
  ]

  static let tableRules = [
    Rule("an unknown flag of a table", .table) { $0.set($0.records[pair] + 4, 0x100, bytes: 2) },
    Rule("a table that sorts duplicates", .notOurs) { $0.set($0.records[pair] + 4, 4, bytes: 2) },
    Rule("a depth beyond LMDB's", .table) { $0.set($0.records[pair] + 6, 33, bytes: 2) },
    Rule("no depth", .table) { $0.set($0.records[pair] + 6, 0, bytes: 2) },
    Rule("entries without a root", .table) { $0.set($0.records[empty] + 32, 1) },
    Rule("a wrong count of entries", .counters) { $0.set($0.records[tree] + 32, 201) },
    Rule("a wrong count of overflow pages", .counters) { $0.set($0.records[long] + 24, 4) },
    Rule("an overflow run too short", .overflow) {
      $0.set($0.overflows[0] * 4_096 + 12, 2, bytes: 4)
    },
    Rule("an overflow run that is too long", .pageRange) {
      $0.set($0.overflows[0] * 4_096 + 12, 300, bytes: 4)
    },
    Rule("an overflow run with another number", .overflow) { $0.set($0.overflows[0] * 4_096, 3) },
    Rule("an overflow run that is a leaf", .overflow) {
      $0.set($0.overflows[0] * 4_096 + 10, 2, bytes: 2)
    },
    Rule("a list freed in the future", .freeList) {
      $0.set($0.lastFreed + 8, $0.u64($0.meta + 144) + 1)
    },
    Rule("a list longer than its room", .freeList) {
      $0.set($0.lastFreed + 16, $0.u64($0.lastFreed + 16) + 1)
    },
    Rule("a list that is not descending", .freeList) {
      $0.set($0.lastFreed + 32, $0.u64($0.lastFreed + 24))
    },
    Rule("a free page beyond the last", .freeList) { $0.set($0.lastFreed + 24, 250) },
    Rule("a free meta page", .freeList) {
      $0.set($0.lastFreed + 16, 1)
      $0.set($0.lastFreed + 24, 1)
    },
    Rule("a free page that is in use", .pageUsedTwice) {
      $0.set($0.lastFreed + 16, 1)
      $0.set($0.lastFreed + 24, UInt64($0.overflows[0] + 1))
    },
  ]

  static var rules: [Rule] { metaRules + pageRules + tableRules }
}

extension Image {
  fileprivate func root(_ table: Int) -> Int { Int(u64(records[table] + 40)) * Self.pageSize }
  fileprivate func node(_ table: Int, _ index: Int) -> Int {
    nodes(root(table) / Self.pageSize)[index]
  }
  fileprivate func child(_ table: Int, _ index: Int) -> Int {
    Int(u64(node(table, index)) & 0xFFFF_FFFF_FFFF)
  }
  /// The node of the newest list of free pages.
  fileprivate var lastFreed: Int { nodes(freeLeaves[freeLeaves.count - 1]).last! }
}
