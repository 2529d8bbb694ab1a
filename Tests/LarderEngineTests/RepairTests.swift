// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Repair of closed stores.
@Suite(.timeLimit(.minutes(60))) struct RepairTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var original: String { directory.path + "/original" }
  var path: String { directory.path + "/damaged" }

  static let zeros = [UInt8](repeating: 0, count: 4096)

  @Test func `A valid store needs no repair and is left unchanged`() throws {
    for durability in Durability.allCases {
      let path = "\(path)-\(durability)"
      let store = try SharedStore(at: path, .init(durability: durability))
      for key in 0..<50 {
        try store.setBytes([UInt8](repeating: 7, count: key * 1000), forKey: key)
      }
      store.close()
      let files = try StoreFiles(of: path)
      let before = try TestFiles.contents(of: files.data)
      for dryRun in [true, false] {
        let report = try SharedStore.repair(at: path, dryRun: dryRun)
        #expect(report.outcome == .sound && report.isComplete, "\(report.findings)")
        #expect(report.kept == 50 && report.lost == 0)
      }
      #expect(try TestFiles.contents(of: files.data) == before)
      #expect(TestFiles.names(in: files.root).filter { $0.hasPrefix("g-") } == ["g-1"])
    }
  }

  enum Damage: String, CaseIterable {
    case zeroedPage, randomPage, randomBytes, flippedBit, flippedBits, flippedMeta, flippedHeader
    case swappedPages, copiedPage, truncated, halfMeta
  }

  static func apply(
    _ damage: Damage, to file: String, _ live: LivePages, with random: inout SeededRandom
  ) throws -> String {
    var bytes = try TestFiles.contents(of: file)
    let pages = bytes.count / 4096
    func any() -> Int { Int.random(in: 2..<pages, using: &random) }
    func inUse() -> Int { live.pages.keys.sorted().randomElement(using: &random)! }
    func flip(_ offset: Int) { bytes[offset] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
    var what = ""
    switch damage {
    case .zeroedPage, .randomPage:
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        let page = inUse()
        for offset in 0..<4096 {
          bytes[page * 4096 + offset] =
            damage == .zeroedPage ? 0 : UInt8.random(in: 0...255, using: &random)
        }
        what += " \(page)"
      }
    case .randomBytes:
      let place = Int.random(in: 8192..<(bytes.count - 100), using: &random)
      for offset in 0..<100 { bytes[place + offset] = UInt8.random(in: 0...255, using: &random) }
      what = " at \(place)"
    case .flippedBit, .flippedBits:
      for _ in 0..<(damage == .flippedBit ? 1 : 40) {
        let place = inUse() * 4096 + Int.random(in: 0..<4096, using: &random)
        flip(place)
        what += " \(place)"
      }
    case .flippedMeta:
      for _ in 0..<Int.random(in: 1...2, using: &random) {
        let place =
          Int.random(in: 0...1, using: &random) * 4096 + Int.random(in: 40..<152, using: &random)
        flip(place)
        what += " \(place)"
      }
    case .flippedHeader:
      // Headers, and the offsets and nodes of branches: all that leads anywhere.
      let branches = live.pages.filter { $0.value.kind == .branch }.keys.sorted()
      let page = branches.randomElement(using: &random) ?? inUse()
      let isBranch = live.pages[page]?.kind == .branch
      let place = page * 4096 + Int.random(in: 0..<(isBranch ? 4096 : 64), using: &random)
      flip(place)
      what = " \(place)"
    case .swappedPages, .copiedPage:
      let (one, two) = (inUse(), any())
      for offset in 0..<4096 {
        let other = bytes[two * 4096 + offset]
        if damage == .swappedPages { bytes[two * 4096 + offset] = bytes[one * 4096 + offset] }
        bytes[one * 4096 + offset] = other
      }
      what = " \(one) \(two)"
    case .truncated:
      let size = Int.random(in: 0..<bytes.count, using: &random)
      bytes.removeSubrange(size...)
      what = " to \(size)"
    case .halfMeta:
      let place = Int.random(in: 0...1, using: &random) * 4096 + 2048
      for offset in 0..<4096 where offset < 2048 || place > 4096 {
        bytes[place - 2048 + offset] = 0
      }
      what = " \(place)"
    }
    try TestFiles.write(bytes, to: file)
    return "\(damage)\(what)"
  }

  @Test(arguments: [64, 4])
  func `A repair recovers complete values, and the newest ones`(hashBits: Int) throws {
    let seed = Seed.announce()
    var outcomes: [String: Int] = [:]
    let ground = try RepairGround(
      at: original, seed: seed.derived(0), hashBits: hashBits)
    let live = try LivePages(TestFiles.contents(of: StoreFiles(of: ground.path).data))
    for (index, trial) in seed.derived(100).trials(22).enumerated() {
      var random = trial.generator()
      let damage = Damage.allCases[index % Damage.allCases.count]
      let files = try ground.copy(to: path)
      let what = try Self.apply(damage, to: files.data, live, with: &random)
      let comment: Comment = "\(what), \(trial) of \(seed)"
      let before = try TestFiles.contents(of: files.data)
      do {
        let report = try SharedStore.repair(at: path)
        outcomes["\(report.outcome)", default: 0] += 1
        if report.outcome == .repaired {
          let kept = try #require(report.damagedFiles)
          #expect(try TestFiles.contents(of: kept + "/data.mdb") == before, comment)
        }
        let found = try ground.check(path, mayMissCommits: report.mayMissCommits, comment)
        let isAll = found.count == ground.newest.count
        #expect(isAll || !report.isComplete, comment)
        #expect(report.kept >= found.count || report.outcome == .sound, comment)
        #expect(try SharedStore.repair(at: path).outcome == .sound, comment)
      } catch let error as StoreError where error.code == .damaged {
        outcomes["refused", default: 0] += 1
        #expect(try TestFiles.contents(of: files.data) == before, comment)
      }
    }
    print("repairs: \(outcomes.sorted { $0.key < $1.key })")
    // Some damage is to bytes that are not in use. The lower bound is that of no seed.
    #expect(outcomes["repaired", default: 0] > 5, "\(outcomes), \(seed)")
  }

  @Test func `Everything on undamaged pages is kept, below damaged branches too`() throws {
    let seed = Seed.announce()
    let ground = try RepairGround(at: original, seed: seed, rounds: 400)
    let bytes = try TestFiles.contents(of: StoreFiles(of: ground.path).data)
    let live = LivePages(bytes)
    #expect(live.pages.values.contains(.init(table: "entries", kind: .branch)))
    var pages: [RepairGround.Place: Set<Int>] = [:]
    let marks = live.marks()
    for (place, value) in ground.newest {
      let mark = Array(value.prefix { $0 != UInt8(ascii: ">") } + [UInt8(ascii: ">")])
      pages[place] = marks[mark]
    }
    // The free list distinguishes old pages from new ones, and is unchanged here.
    let targets = live.pages.filter { $0.value.table != "free" }
    let branches = targets.filter { $0.value.kind == .branch && $0.value.table == "entries" }
    var scavenged = 0
    for (index, trial) in seed.trials(25).enumerated() {
      var random = trial.generator()
      var damaged: Set<Int> = []
      if index.isMultiple(of: 4) {
        damaged.insert(branches.keys.sorted().randomElement(using: &random)!)
      }
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        damaged.insert(targets.keys.sorted().randomElement(using: &random)!)
      }
      if index.isMultiple(of: 5) {
        damaged.formUnion(targets.filter { $0.value.table == "main" }.keys)
      }
      let files = try ground.copyWithoutCheckpoint(to: path)
      for page in damaged { try TestFiles.overwrite(Self.zeros, at: page * 4096, in: files.data) }
      let comment: Comment = "\(damaged.sorted()), \(trial) of \(seed)"
      let report = try SharedStore.repair(at: path)
      #expect(report.pagesDamaged <= damaged.count && !report.mayMissCommits, comment)
      scavenged += report.pagesScavenged
      let found = try ground.check(path, mayMissCommits: false, comment)
      // The pages of a large value do not identify the leaf of its key, nor do those of a record on
      // overflow pages, where a small value shares a hash with a large one.
      for (place, pages) in pages
      where ground.newest[place]!.count < 1500
        && pages.allSatisfy({ live.pages[$0]?.kind == .leaf })
      {
        let isThere = found.contains(place) || !pages.isDisjoint(with: damaged)
        #expect(isThere, "\(place) on \(pages), \(comment)")
      }
      // Without the newest main table, the counters are those of one commit earlier.
      let hasBooks = !damaged.contains { live.pages[$0]?.table == "main" }
      let isCounted = found.count + report.lost >= ground.newest.count
      #expect(isCounted || !hasBooks, "\(found.count) and \(report.lost), \(comment)")
    }
    #expect(scavenged > 10, "\(scavenged)")
  }
}
