// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderLMDB
import LarderTesting
import Testing

/// A healthy file is never called damaged, however it came to be.
@Suite(.timeLimit(.minutes(60)))
struct StructuralVerifierTests {
  let scratch: ScratchDirectory

  init() throws { scratch = try ScratchDirectory() }

  private func expectSound(
    _ path: String, _ note: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let report = try StructuralVerifier.verify(path: path)
    #expect(report.findings == [], note, sourceLocation: sourceLocation)
    let quick = try StructuralVerifier.quickCheck(path: path, atLeast: 8_192)
    #expect(quick == [], note, sourceLocation: sourceLocation)
  }

  static let modes = [
    0, RawEnvironment.noSync, RawEnvironment.writeMap, RawEnvironment.noSubdirectory,
  ]

  @Test(arguments: modes)
  func `A fresh environment is valid, before and after its first transactions`(
    flags: UInt32
  ) throws {
    let environment = try RawEnvironment(scratch.path, flags: flags, mapBytes: 1 << 20)
    try expectSound(environment.dataPath)
    try environment.write { _ in }
    try expectSound(environment.dataPath)
    try environment.write { _ = try $0.table("empty", RawEnvironment.create) }
    let report = try StructuralVerifier.verify(path: environment.dataPath)
    #expect(report.isSound)
    #expect(report.tables.map(\.name) == ["empty"])
    #expect(report.tables.map(\.entries) == [0])
    #expect(report.transactionID == 1)
    #expect(report.pagesReached == 1)
  }

  @Test(arguments: [20, 100, 2_030, 2_040, 4_000, 4_080, 4_081, 100_000])
  func `Values of one size make a valid file`(size: Int) throws {
    let environment = try RawEnvironment(scratch.path)
    var random = SeededGenerator(seed: UInt64(size))
    let count = size > 50_000 ? 40 : 400
    for round in 0..<3 {
      try environment.write { transaction in
        let flags = RawEnvironment.create | RawEnvironment.integerKey
        let table = try transaction.table("values", flags)
        for _ in 0..<count {
          try transaction.put(table, integerKey(random.below(2 * count)), random.bytes(size))
        }
      }
      try expectSound(environment.dataPath, "round \(round)")
    }
    let report = try StructuralVerifier.verify(path: environment.dataPath)
    #expect(report.pagesReached + report.pagesFree + 2 <= report.lastPage + 1)
    #expect(report.pagesFree > 0)
    #expect(report.tables.first.map { Int($0.entries) } ?? 0 > count / 2)
  }

  @Test func `Many named tables are all walked`() throws {
    let environment = try RawEnvironment(scratch.path)
    for part in 0..<4 {
      try environment.write { transaction in
        for number in 0..<100 {
          let name = "table \(part * 100 + number)"
          let table = try transaction.table(name, RawEnvironment.create)
          for key in 0..<number % 7 { try transaction.put(table, [UInt8(key)], [1, 2, 3]) }
        }
      }
      try expectSound(environment.dataPath)
    }
    let report = try StructuralVerifier.verify(path: environment.dataPath)
    #expect(report.tables.count == 400)
    #expect(report.tables.first { $0.name == "table 305" }?.entries == 5)
  }

  /// The free list grows over many pages, and into overflow runs, while the reader pins them.
  @Test func `A long reader leaves a valid file`() throws {
    let environment = try RawEnvironment(scratch.path)
    var workload = Workload(seed: 11)
    workload.largestValue = 60_000
    for _ in 0..<20 { try environment.write { try workload.work($0) } }
    let reader = try environment.begin(readOnly: true)
    for round in 0..<150 {
      try environment.write { try workload.work($0) }
      if round % 10 == 0 { try expectSound(environment.dataPath, "round \(round)") }
    }
    reader.abort()
    for round in 0..<60 {
      try environment.write { try workload.work($0) }
      try expectSound(environment.dataPath, "afterwards, round \(round)")
    }
  }

  @Test func `Thousands of pages freed at once make a valid free list`() throws {
    let environment = try RawEnvironment(scratch.path)
    for round in 0..<4 {
      try environment.write { transaction in
        let table = try transaction.table("bulk", RawEnvironment.create | RawEnvironment.integerKey)
        for key in 0..<3_000 {
          try transaction.put(table, integerKey(key), [UInt8](repeating: 1, count: 2_000))
        }
      }
      try expectSound(environment.dataPath, "full, round \(round)")
      try environment.write { try $0.drop(try $0.table("bulk"), andForget: round % 2 == 0) }
      try expectSound(environment.dataPath, "empty, round \(round)")
      try environment.write { try $0.put(try $0.table(nil), [0xFF], [1, 2, 3]) }
      try expectSound(environment.dataPath, "reused, round \(round)")
    }
    #expect(try StructuralVerifier.verify(path: environment.dataPath).pagesFree > 1_000)
  }

  @Test func `A value replaced by a shorter one in its transaction keeps its pages`() throws {
    let environment = try RawEnvironment(scratch.path)
    try environment.write { transaction in
      let table = try transaction.table("t", RawEnvironment.create)
      try transaction.put(table, [1], [UInt8](repeating: 1, count: 50_000))
      try transaction.put(table, [1], [UInt8](repeating: 2, count: 10))
    }
    try expectSound(environment.dataPath)
    #expect(try StructuralVerifier.verify(path: environment.dataPath).pagesReached == 2 + 13)
  }

  @Test func `Copies, plain and compact, are valid`() throws {
    let environment = try RawEnvironment(scratch.path)
    try environment.copy(to: scratch.path + "/none", compact: true)
    try expectSound(scratch.path + "/none/data.mdb")
    var workload = Workload(seed: 5)
    for _ in 0..<60 { try environment.write { try workload.work($0) } }
    for compact in [false, true] {
      let directory = scratch.path + "/copy \(compact)"
      try environment.copy(to: directory, compact: compact)
      try expectSound(directory + "/data.mdb", "compact: \(compact)")
      let copy = try RawEnvironment(directory)
      for _ in 0..<5 {
        try copy.write { try workload.work($0) }
        try expectSound(copy.dataPath, "compact: \(compact), written to")
      }
    }
  }

  /// The write of a page is cut short; the file ends within a page that no snapshot reaches.
  @Test func `A disk that was full leaves a valid file`() async throws {
    let path = scratch.path
    await #expect(processExitsWith: .success) { [path = path as String] in
      signal(SIGXFSZ, SIG_IGN)
      let environment = try RawEnvironment(path)
      try environment.write {
        let table = try $0.table("t", RawEnvironment.create)
        for key in 0..<50 { try $0.put(table, [UInt8(key)], [UInt8](repeating: 3, count: 900)) }
      }
      limitFileSize(40 * 4_096 + 1_000)
      var isFull = false
      do {
        try environment.write {
          try $0.put(try $0.table("t"), [99], [UInt8](repeating: 4, count: 300_000))
        }
      } catch { isFull = true }
      let attributes = try FileManager.default.attributesOfItem(atPath: environment.dataPath)
      let size = attributes[.size] as? Int ?? 0
      guard isFull, size % 4_096 == 1_000 else { exit(3) }
      exit(try StructuralVerifier.verify(path: environment.dataPath).isSound ? 0 : 4)
    }
  }

  /// Verified after each commit, by path and under the next, uncommitted transaction.
  @Test(arguments: 0..<6)
  func `Random work never makes an invalid file`(part: Int) throws {
    let seed = Seed.announce("Random work never makes an invalid file, part \(part)").value
    let flags = part == 5 ? RawEnvironment.writeMap | RawEnvironment.noSync : RawEnvironment.noSync
    let environment = try RawEnvironment(scratch.path, flags: flags, mapBytes: 1 << 30)
    var workload = Workload(seed: seed &+ UInt64(part))
    workload.keySpace = [20, 100, 400, 1_500, 6_000, 300][part]
    workload.operations = [5, 20, 60, 100, 300, 50][part]
    workload.largestValue = [30_000, 3_000, 100_000, 300, 100, 30_000][part]
    let rounds = Int(ProcessInfo.processInfo.environment["LARDER_ROUNDS"] ?? "") ?? 70
    var readers: [RawTransaction] = []
    for round in 0..<rounds {
      let note: Comment = "seed \(seed), part \(part), round \(round)"
      if workload.random.chance(8) { readers.append(try environment.begin(readOnly: true)) }
      if workload.random.chance(6), !readers.isEmpty {
        readers.remove(at: workload.random.below(readers.count)).abort()
      }
      let transaction = try environment.begin()
      try workload.work(transaction)
      let held = try StructuralVerifier.verify(fileDescriptor: environment.descriptor)
      #expect(held.findings == [], note)
      if workload.random.chance(5) { transaction.abort() } else { try transaction.commit() }
      try expectSound(environment.dataPath, note)
    }
    for reader in readers { reader.abort() }
  }
}

/// Writes beyond the limit are cut short, as on a full disk.
private func limitFileSize(_ bytes: rlim_t) {
  var limit = rlimit(rlim_cur: bytes, rlim_max: bytes)
  #if canImport(Glibc)
  let code = unsafe setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
  #else
  let code = unsafe setrlimit(RLIMIT_FSIZE, &limit)
  #endif
  precondition(code == 0)
}
