// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderLMDB
import LarderTesting
import Testing

/// Any damaged file gets a verdict, and LMDB survives what was accepted.
@Suite(.timeLimit(.minutes(60)))
struct StructuralDamageTests {
  let scratch: ScratchDirectory

  init() throws { scratch = try ScratchDirectory() }

  // MARK: Named damage

  /// Damages that are never harmless, and what they must be called (in any of the words).
  static let plain: [(Damage, [StructuralVerifier.Finding.Code])] = [
    (.empty, [.fileTooShort]), (.oneByte, [.fileTooShort]), (.onlyMetas, [.fileTooShort]),
    (.half, [.fileTooShort]), (.text, [.meta]), (.json, [.fileTooShort]), (.randomBytes, [.meta]),
    (.zeroedPage, [.pageLayout]), (.randomHeader, [.pageLayout, .pageRange, .node]),
    (.magic, [.meta]), (.version, [.meta]), (.noPageSize, [.meta]), (.otherPageSize, [.meta]),
    (.smallLastPage, [.pageRange, .freeList, .transactionIDs, .meta]),
    (.swappedRoots, [.table, .pageLayout, .node, .key, .pageUsedTwice, .counters]),
    (.zeroedMeta, [.meta]),
    (.cycle, [.pageUsedTwice]), (.dirtyFlag, [.pageLayout]),
    (.tableCounters, [.counters]),
    (.freeLive, [.pageUsedTwice, .freeList]), (.freeTwice, [.freeList]),
  ]

  @Test(arguments: plain)
  func `Damage that is never harmless is found, and called by its name`(
    kind: Damage, codes: [StructuralVerifier.Finding.Code]
  ) throws {
    let corpus = try Corpus(directory: scratch.path, seed: 7)
    for attempt in 0..<5 {
      var random = SeededGenerator(seed: UInt64(attempt))
      var image = corpus.images[2]
      image.damage(kind, older: corpus.older[2], random: &random)
      guard image.bytes != corpus.images[2].bytes else { continue }
      let path = try corpus.write(image.bytes)
      let report = try StructuralVerifier.verify(path: path)
      #expect(!report.isSound, "attempt \(attempt)")
      #expect(report.findings.allSatisfy { codes.contains($0.code) }, "\(report.findings)")
    }
  }

  @Test func `A table with sorted duplicates is reported as foreign`() throws {
    let environment = try RawEnvironment(scratch.path)
    try environment.write {
      let flags = RawEnvironment.create | RawEnvironment.duplicates
      let table = try $0.table("many", flags)
      for value in 0..<100 { try $0.put(table, [1], [UInt8(value)]) }
    }
    let report = try StructuralVerifier.verify(path: environment.dataPath)
    #expect(report.findings.map(\.code) == [.notOurs])
  }

  @Test func `A path that is not a file is a finding or an error, and never blocks`() throws {
    let missing = #expect(throws: LMDBFileError.self) {
      try StructuralVerifier.verify(path: scratch.path + "/nothing")
    }
    #expect(missing?.code == .notFound)
    let report = try StructuralVerifier.verify(path: scratch.path)
    #expect(report.findings.map(\.code) == [.notAFile])
    let pipe = scratch.path + "/pipe"
    #expect(unsafe mkfifo(pipe, 0o600) == 0)
    #expect(try StructuralVerifier.verify(path: pipe).findings.map(\.code) == [.notAFile])
    let link = scratch.path + "/link"
    #expect(unsafe symlink(pipe, link) == 0)
    let linked = #expect(throws: LMDBFileError.self) {
      try StructuralVerifier.quickCheck(path: link, atLeast: 0)
    }
    #expect(linked?.code == .symbolicLink)
    let closed = #expect(throws: LMDBFileError.self) {
      try StructuralVerifier.verify(fileDescriptor: -1)
    }
    #expect(closed?.code == .cannotRead)
    #expect(closed?.errno == EBADF)
  }

  @Test func `Findings are capped, and a huge last page allocates nothing for it`() throws {
    let corpus = try Corpus(directory: scratch.path, seed: 3)
    var image = corpus.images[2]
    for page in 2..<image.pages { image.set(page * Image.pageSize, 1) }
    #expect(image.records.count > 2)
    var path = try corpus.write(image.bytes)
    #expect(try StructuralVerifier.verify(path: path).findings.count <= 64)

    // The largest map there can be, and one that no process could make.
    let maps: [(UInt64, StructuralVerifier.Finding.Code)] = [
      (1 << 46, .fileTooShort), (.max, .meta),
    ]
    for (map, code) in maps {
      for last: UInt64 in [1 << 20, 1 << 33, (1 << 34) - 1] {
        image = corpus.images[2]
        image.set(image.meta + 32, map)
        image.set(image.meta + 136, last)
        path = try corpus.write(image.bytes)
        #expect(try StructuralVerifier.verify(path: path).findings.map(\.code) == [code])
      }
    }
  }

  // MARK: The guard of every open

  @Test func `The quick check stops a file that lost its end or a meta`() throws {
    let corpus = try Corpus(directory: scratch.path, seed: 9)
    let image = corpus.images[1]
    let size = UInt64(image.bytes.count)
    var path = try corpus.write(image.bytes)
    #expect(try StructuralVerifier.quickCheck(path: path, atLeast: size) == [])
    #expect(
      try StructuralVerifier.quickCheck(path: path, atLeast: size + 1).map(\.code)
        == [.fileTooShort])
    for kind in [Damage.empty, .withinMeta, .magic, .version, .noPageSize, .zeroedMeta, .text] {
      var random = SeededGenerator(seed: 1)
      var damaged = image
      damaged.damage(kind, older: corpus.older[1], random: &random)
      path = try corpus.write(damaged.bytes)
      #expect(try StructuralVerifier.quickCheck(path: path, atLeast: 0) != [], "\(kind)")
    }
  }

  // MARK: Thousands of damaged files

  /// Verifies damaged files here; then LMDB reads and writes the accepted ones in another process,
  /// where a signal is a failure, and the resulting file must be valid again.
  @Test func `LMDB survives each damaged file that the verifier accepts`() async throws {
    let environment = ProcessInfo.processInfo.environment
    let count = Int(environment["LARDER_DAMAGED_FILES"] ?? "") ?? 2_000
    let seed = Seed.announce().value
    let directory = scratch.path
    let corpus = try Corpus(directory: directory, seed: seed)
    var accepted: [Int] = []
    var unchanged = 0
    var kinds: [Damage: Int] = [:]
    for index in 0..<count {
      let (kind, bytes, isChanged) = corpus.damaged(index, seed: seed)
      let report = try StructuralVerifier.verify(path: try corpus.write(bytes))
      #expect(report.findings.count <= StructuralVerifier.maximumFindings)
      if !isChanged {
        unchanged += 1
        #expect(report.isSound, "file \(index)")
      } else if report.isSound {
        accepted.append(index)
        kinds[kind, default: 0] += 1
      }
    }
    try accepted.map(String.init).joined(separator: "\n")
      .write(toFile: directory + "/accepted", atomically: true, encoding: .utf8)
    print("\(count) files, \(unchanged) unchanged, \(accepted.count) accepted:")
    let most = kinds.sorted { ($0.value, $0.key.rawValue) > ($1.value, $1.key.rawValue) }
    print(most.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
    #expect(accepted.count < count / 2)

    await #expect(processExitsWith: .success) {
      [directory = directory as String, seed = seed as UInt64] in
      // A hang is a signal, too.
      alarm(800)
      exit(try Survivor.outlives(directory: directory, seed: seed) ? 0 : 1)
    }
    let log = (try? String(contentsOfFile: directory + "/log", encoding: .utf8)) ?? ""
    print(log.split(separator: "\n").last.map(String.init) ?? "")
    #expect(log.hasSuffix("survived all\n"), "\(log.suffix(300))")
  }
}
