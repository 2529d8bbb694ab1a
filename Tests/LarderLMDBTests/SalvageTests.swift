// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderLMDB
import LarderTesting
import Testing

/// Reading damaged files by bytes.
@Suite(.timeLimit(.minutes(60))) struct SalvageTests {
  private struct Row: Hashable {
    let source: SalvageReader.Source
    let key: [UInt8]
    let value: [UInt8]
  }

  private func rows(_ reader: inout SalvageReader, _ sources: [SalvageReader.Source]) throws
    -> Set<Row>
  {
    var result: Set<Row> = []
    let values = reader.values
    for source in sources {
      try reader.forEachNode(of: source) { node in
        guard let bytes = values.bytes(of: node.value) else { return }
        result.insert(Row(source: source, key: node.key, value: bytes))
      }
    }
    return result
  }

  @Test func `A valid file is read completely`() throws {
    for seed in 1...6 as ClosedRange<UInt64> {
      let scratch = try ScratchDirectory()
      let environment = try RawEnvironment(scratch.path)
      var workload = Workload(seed: seed)
      // Larder's integers have eight bytes.
      workload.tables.removeAll { $0.keyBytes == 4 }
      for _ in 0..<30 { try environment.write { try workload.work($0) } }
      var reader = try SalvageReader(path: environment.dataPath)
      let report = reader.report
      #expect(report.findings == [] && report.isFreeListSound && !report.mayMissCommits)
      #expect(report.pagesDamaged == 0 && report.pagesScavenged == 0)
      let verified = try StructuralVerifier.verify(path: environment.dataPath)
      #expect(report.transactionID == verified.transactionID)
      var expected = 0
      let transaction = try environment.begin(readOnly: true)
      for (name, entries) in verified.tables {
        let keys = try transaction.scan(transaction.table(name)).keys
        #expect(keys.count == Int(entries))
        let found = try rows(&reader, [.table(name)])
        #expect(Set(found.map(\.key)) == Set(keys), "table \(name), seed \(seed)")
        expected += keys.count
      }
      transaction.abort()
      #expect(expected > 50)
    }
  }

  @Test func `Any bytes are read to an end, and bounded by the file`() throws {
    let seed = Seed.announce().value
    let scratch = try ScratchDirectory()
    let corpus = try Corpus(directory: scratch.path, seed: seed)
    let count = Damage.allCases.count * corpus.images.count * 2
    var nodes = 0
    for index in 0..<count {
      let (kind, bytes, _) = corpus.damaged(index, seed: seed)
      let path = try corpus.write(bytes)
      var reader = try SalvageReader(path: path)
      let report = reader.report
      #expect(report.pagesScavenged <= bytes.count / 4096, "\(kind), \(index) of seed \(seed)")
      let names = ["plain", "reverse", "numbers", "small numbers"]
      let sources: [SalvageReader.Source] =
        [.main, .olderMain, .unknown] + names.map { .table($0) }
      nodes += try rows(&reader, sources).count
    }
    #expect(nodes > count * 10)
  }

  @Test func `Leaves below a damaged branch are found, removed values are not`() throws {
    let scratch = try ScratchDirectory()
    let environment = try RawEnvironment(scratch.path)
    // Every page is used several times; half of the keys go again.
    for round in 0..<6 {
      try environment.write { transaction in
        let table = try transaction.table(
          "numbers", RawEnvironment.integerKey | RawEnvironment.create)
        for key in stride(from: round % 2, to: 3000, by: 2) {
          try transaction.put(
            table, integerKey(key), Array("\(key).\(round)".utf8) + Array(repeating: 7, count: 40))
        }
      }
    }
    try environment.write { transaction in
      let table = try transaction.table("numbers")
      for key in stride(from: 0, to: 3000, by: 3) {
        _ = try transaction.delete(table, integerKey(key))
      }
    }
    func expected(_ key: Int) -> [UInt8]? {
      if key % 3 == 0 { return nil }
      return Array("\(key).\(4 + key % 2)".utf8) + Array(repeating: 7, count: 40)
    }
    let corpusPath = scratch.path + "/damaged.mdb"
    let healthy = try bytes(of: environment.dataPath)
    let image = Image(healthy)
    #expect(!image.branches.isEmpty)
    for page in image.branches + image.leaves.prefix(12) {
      var damaged = healthy
      for offset in 0..<4096 { damaged[page * 4096 + offset] = 0 }
      try write(damaged, to: corpusPath)
      var reader = try SalvageReader(path: corpusPath)
      let isBranch = image.branches.contains(page)
      let isFreeList = image.freeLeaves.contains(page)
      let found = try rows(&reader, [.table("numbers"), .unknown])
      for row in found {
        let key = (0..<8).reduce(0) { $0 | Int(row.key[$1]) << (8 * $1) }
        #expect(row.value == expected(key), "page \(page), key \(key)")
      }
      let report = reader.report
      if isBranch {
        #expect(found.count == 2000 && report.pagesScavenged > 2, "page \(page): \(found.count)")
      } else if !isFreeList {
        #expect(found.count >= 1900, "page \(page)")
      }
      #expect(report.isFreeListSound == !isFreeList, "page \(page)")
    }
  }

  /// The older meta may claim to be the newest: that is detected. The newest may claim to be the
  /// older one: that resembles a failed write, and is reported as doubtful.
  @Test(arguments: [2, -2] as [Int64])
  func `A meta with a false number is detected, or reported as doubtful`(lie: Int64) throws {
    let scratch = try ScratchDirectory()
    let environment = try RawEnvironment(scratch.path)
    for round in 0..<9 as Range<UInt8> {
      try environment.write {
        try $0.put(try $0.table("rounds", RawEnvironment.create), [1], [round])
      }
    }
    var image = Image(try bytes(of: environment.dataPath))
    let newest = image.meta
    let liar = lie > 0 ? Image.pageSize - newest : newest
    image.set(liar + 144, image.u64(liar + 144) &+ UInt64(bitPattern: lie))
    let path = scratch.path + "/lying.mdb"
    for isMainLost in [false, true] {
      // Once more with a main table, in the newest, that cannot be followed.
      if isMainLost { image.set(newest + 88 + 4, 1 << 8, bytes: 2) }
      try write(image.bytes, to: path)
      var reader = try SalvageReader(path: path)
      #expect(reader.report.mayMissCommits)
      let values = try rows(&reader, [.table("rounds"), .unknown]).map(\.value)
      if lie > 0 {
        #expect(reader.report.transactionID == 9)
        #expect(reader.report.findings.first?.code == .transactionIDs)
        #expect(values == [[8]], "\(isMainLost)")
      } else {
        #expect(reader.report.transactionID == 8 && values == [[7]])
        // For the verifier it is a failed write, which is not damage.
        #expect(try StructuralVerifier.verify(path: path).isSound)
      }
    }
  }
}

private func bytes(of path: String) throws -> [UInt8] {
  Array(try Data(contentsOf: URL(fileURLWithPath: path)))
}

private func write(_ bytes: [UInt8], to path: String) throws {
  try Data(bytes).write(to: URL(fileURLWithPath: path))
}
