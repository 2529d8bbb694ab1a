// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

extension ProcessStorms {
  @Test(.timeLimit(.minutes(60)))
  func `A compaction keeps everything, in a smaller file`() throws {
    let clock = ManualClock()
    let ground = try StoreFixture(
      StoreOptions(budget: .megabytes(32), clock: StoreClock { clock.now }))
    let store = ground.store
    let large = [UInt8](repeating: 7, count: 100_000)
    for key in 0..<3000 { ground.numbers[key] = PeerTextLike.make(key) }
    for key in 0..<20 { try store.setBytes(large + [UInt8(key)], forKey: key, in: "large") }
    try store.setBytes(
      [1], forKey: "expiring", expires: .at(millisecondsSince1970: clock.now + 1000))
    try store.setBytes([2], forKey: "gone", in: "removed")
    try store.removeAll(in: "removed")
    try store.sync()
    for key in 1000..<3000 { try ground.numbers.removeValue(forKey: key) }
    _ = ground.numbers[5]
    let before = try store.statistics()
    try store.compact()
    let after = try store.statistics()
    #expect(after.generation == before.generation + 1)
    #expect(after.entries == before.entries && after.bytes == before.bytes)
    #expect(after.fileBytes < before.fileBytes)
    #expect(after.sets == before.sets && after.removals == before.removals)
    #expect(after.budget == before.budget)
    for key in 0..<3000 {
      #expect(ground.numbers[key] == (key < 1000 ? PeerTextLike.make(key) : nil))
    }
    for key in 0..<20 {
      #expect(try store.bytes(forKey: key, in: "large") == large + [UInt8(key)])
    }
    #expect(try store.bytes(forKey: "expiring") == [1])
    clock.advance(by: .seconds(2))
    #expect(try store.bytes(forKey: "expiring") == nil)
    #expect(try store.bytes(forKey: "gone", in: "removed") == nil)
    #expect(try store.verify() == [])
    try ground.numbers.setValue("new", forKey: 1)
    try store.compact()
    #expect(try store.statistics().generation == before.generation + 2)
    #expect(ground.numbers[1] == "new")
    #expect(TestFiles.names(in: ground.path + "/v1").filter { $0.hasPrefix("g-") }.count == 1)
  }

  @Test(.timeLimit(.minutes(60)), arguments: Durability.allCases)
  func `Others write on across compactions and nothing is lost`(durability: Durability) throws {
    let ground = try StoreFixture(StoreOptions(durability: durability))
    let option = durability == .cache ? "" : "\(durability)"
    let writers = try (0..<2).map { _ in try ground.peer(option) }
    for (index, writer) in writers.enumerated() {
      try writer.send("churn \(index * 1000) 20" + (index == 1 ? " behind" : ""))
    }
    for _ in 0..<10 {
      let sets = try ground.store.statistics().sets
      try ground.store.compact()
      try eventually("the writers go on") {
        try ground.store.statistics().sets >= sets + 20
      }
    }
    for writer in writers {
      try writer.send("enough")
      let answer = try writer.nextLine()
      let words = answer.split(separator: " ")
      #expect(words.first == "churned" && words[2] == "0", "\(answer)")
    }
    for writer in writers { try writer.order("sync") }
    #expect(try ground.store.statistics().generation >= 11)
    #expect(try ground.store.verify() == [])
    for writer in writers { try writer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A reader stopped for the whole run is named, and the file stays bounded`() throws {
    let events = Mutex<[StoreEvent]>([])
    let ground = try StoreFixture(
      StoreOptions(
        budget: .megabytes(2), onEvent: { event in events.withLock { $0.append(event) } }))
    try ground.store.setBytes([1], forKey: "old")
    let reader = try ground.peer()
    #expect(try reader.ask("pin") == "pinned")
    try reader.stop()
    let pid = reader.processIdentifier
    let value = [UInt8](repeating: 1, count: 20_000)
    var most = 0
    var isNamed = false
    // Three times what the file may reach is written.
    for round in 0..<20_000 {
      try ground.store.setBytes(value, forKey: round % 50)
      if round % 100 == 99 {
        let statistics = try ground.store.statistics()
        most = max(most, statistics.fileBytes)
        isNamed = isNamed || statistics.oldestReader?.pid == pid
      }
    }
    #expect(isNamed)
    #expect(most < 128 << 20, "\(most)")
    // An event comes after the commit that has caused it.
    try eventually("the reader is reported") {
      events.withLock { events in
        events.contains { if case .readerStalled(pid, _) = $0 { true } else { false } }
      }
    }
    #expect(try ground.store.verify() == [])
    // It continues in the current generation.
    reader.continue()
    try reader.order("go")
    #expect(try reader.ask("count") == "51")
    try reader.order("set 1 again")
    #expect(ground.numbers[1] == "again")
    try reader.dismiss()
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)),
    arguments: [
      "copyWritten", "openGenerationBuilt", "openGenerationRenamed", "openCurrentWritten",
      "condemnMarked",
    ], Durability.allCases)
  func `A compaction killed at any step has been done or not`(
    point: String, durability: Durability
  ) throws {
    let ground = try StoreFixture(StoreOptions(durability: durability))
    let option = durability == .cache ? "" : "\(durability)"
    for key in 0..<100 { try ground.numbers.setValue("v\(key)", forKey: key) }
    let killed = try ground.peer(option, environment: ["LARDER_FAULTS": "\(point):kill@1"])
    let live = try ground.peer(option)
    // In memory there, and remembered here.
    #expect(try live.ask("get 5") == "value v5")
    let before = try ground.store.bytes(forKey: 5)
    #expect(try ground.store.bytes(forKey: 5) == before && before != nil)
    try killed.send("compact")
    #expect(try killed.wait() == .signalled(9))
    // A new process opens the generation that CURRENT names and writes there; every process has to
    // follow.
    let newcomer = try ground.peer(option)
    try newcomer.order("set 5 newer")
    #expect(try ground.store.bytes(forKey: 5) != before)
    #expect(try live.ask("get 5") == "value newer")
    #expect(ground.numbers[5] == "newer")
    try live.order("set 6 newest")
    #expect(try newcomer.ask("get 6") == "value newest")
    for key in 0..<100 where key != 5 && key != 6 { #expect(ground.numbers[key] == "v\(key)") }
    #expect(try ground.store.verify() == [])
    for peer in [live, newcomer] { try peer.dismiss() }
  }
}

private enum PeerTextLike {
  static func make(_ key: Int) -> String { String(repeating: "\(key);", count: 50) }
}
