// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

extension Processes {
  @Test(.timeLimit(.minutes(60)), arguments: Durability.allCases)
  func `A store under two busy writers is valid at every check`(durability: Durability) throws {
    let ground = try StoreFixture(StoreOptions(durability: durability, budget: .megabytes(6)))
    let option = durability == .cache ? "" : "\(durability)"
    for key in 0..<2000 { ground.numbers[key] = Filling.make(key) }
    try ground.store.sync()
    let (fast, wild) = (try ground.peer(option), try ground.peer(option))
    try fast.send("churn 5000 500")
    try wild.send("stir 100000 150")
    let end = ContinuousClock.now + .seconds(4)
    // Checks during which the writers have committed: they do not wait for it.
    var overtaken = 0
    var checked = 0
    while ContinuousClock.now < end || overtaken < 10 {
      let before = try ground.store.statistics().commits
      let findings = try ground.store.verify()
      if try ground.store.statistics().commits > before { overtaken += 1 }
      checked += 1
      #expect(findings == [], "after \(checked) rounds")
    }
    let churned = try fast.numbers("stop", "churned")
    #expect(churned[0] > 0 && churned[1] == 0, "\(churned)")
    #expect(try wild.numbers("stop", "stirred")[0] > 0)
    #expect(try ground.store.verify() == [])
    for peer in [fast, wild] { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A writer commits while another process verifies`() throws {
    let ground = try StoreFixture()
    for key in 0..<300 { try ground.numbers.setValue("v\(key)", forKey: key) }
    let other = try ground.peer()
    let phases = Mutex<[StoreProgress.Phase]>([])
    let findings = try ground.store.verify { progress in
      phases.withLock { phases in
        guard phases.last != progress.phase else { return }
        // In the middle of it: with the writer lock held, the peer would not answer.
        #expect((try? other.ask("set \(phases.count) new")) == "ok")
        phases.append(progress.phase)
      }
      #expect(progress.done <= progress.total)
    }
    #expect(findings == [])
    #expect(phases.withLock { $0 } == [.pages, .entries])
    #expect(try ground.numbers.value(forKey: 0) == "new")
    #expect(try ground.store.verify() == [])
    try other.dismiss()
  }
}

private enum Filling {
  static func make(_ key: Int) -> String { String(repeating: "\(key);", count: 20 + key % 200) }
}
