// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Rate limiters between processes.
extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Processes share the rate of a limiter, also one after the other`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    #expect(try peer.ask("rate a 6 10") == "permitted 6")
    peer.kill()
    let limiter = ground.store.rateLimiter("a", .tokenBucket(rate: 0.000_01, burst: 10))
    for _ in 0..<3 { #expect(try limiter.tryAcquire()) }
    let next = try ground.peer()
    #expect(try next.ask("rate a 6 10") == "permitted 1")
    try next.dismiss()
  }

  /// A clock since 1970 of some processes, which a test sets.
  private struct WallClock {
    let environment: [String: String]
    private let offset: String

    init(in directory: TemporaryDirectory) throws {
      let shim = try PreloadShim("wall_clock", in: directory.path)
      offset = directory.appending("offset")
      try TestFiles.write([UInt8](repeating: 0, count: 8), to: offset)
      environment = shim.environment.merging(["WALL_CLOCK": offset]) { $1 }
    }

    /// Sets the clock to so many hours after this process's, and checks that other processes have that time.
    func jump(hours: Int64, _ peers: [ChildProcess]) throws {
      var bytes = [UInt8](repeating: 0, count: 8)
      bytes.store(hours * 3_600_000_000_000, at: 0)
      try TestFiles.overwrite(bytes, at: 0, in: offset)
      for peer in peers {
        let now = Clocks.wallMilliseconds()
        let difference = try #require(Int64(try peer.ask("wall"))) - now - hours * 3_600_000
        // On a busy machine the answer takes a while.
        try #require(abs(difference) < 1_800_000, "\(difference) ms")
      }
    }
  }

  @Test(.enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"), .timeLimit(.minutes(60)))
  func `A jump of the wall clock neither permits calls twice nor blocks them`() throws {
    let ground = try StoreFixture()
    let clock = try WallClock(in: ground.directory)
    let peers = try (0..<2).map { _ in try ground.peer(environment: clock.environment) }
    #expect(try peers[0].ask("window a 50 40") == "permitted 40")
    #expect(try peers[0].ask("rate b 1 6") == "permitted 1")
    for (index, hours) in [Int64(2), -2, 480, -480].enumerated() {
      try clock.jump(hours: hours, peers)
      #expect(try peers[index % 2].ask("window a 50 40") == "permitted 0")
      #expect(try peers[index % 2].ask("rate b 1 6") == "permitted 1")
    }
    #expect(try peers[0].ask("rate b 3 6") == "permitted 1")
    for peer in peers { try peer.dismiss() }
  }

  @Test(.enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"), .timeLimit(.minutes(60)))
  func `A jump of the wall clock ends no claim of a deque`() throws {
    let ground = try StoreFixture()
    let clock = try WallClock(in: ground.directory)
    let peers = try (0..<2).map { _ in try ground.peer(environment: clock.environment) }
    try peers[0].order("push q 1")
    let claimed = try peers[0].ask("claimfirst q 3600000")
    #expect(claimed.hasPrefix("claimed "), "\(claimed)")
    for hours: Int64 in [48, -48] {
      try clock.jump(hours: hours, peers)
      #expect(try peers[1].ask("pop q") == "none")
    }
    for peer in peers { try peer.dismiss() }
  }

  @Test(.enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"), .timeLimit(.minutes(60)))
  func `A jump of the wall clock ends no delay of an element of a deque`() throws {
    let ground = try StoreFixture()
    let clock = try WallClock(in: ground.directory)
    let peers = try (0..<2).map { _ in try ground.peer(environment: clock.environment) }
    try peers[0].order("push q 1")
    try peers[0].order("postpone q 7200000")
    for hours: Int64 in [48, -48] {
      try clock.jump(hours: hours, peers)
      #expect(try peers[1].ask("pop q") == "none")
    }
    for peer in peers { try peer.dismiss() }
  }

  @Test(.enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"), .timeLimit(.minutes(60)))
  func `The state of a limiter survives a restart of the machine`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    #expect(try peer.ask("window a 30 40") == "permitted 30")
    #expect(try peer.ask("rate b 4 6") == "permitted 4")
    try peer.dismiss()
    ground.store.close()
    let boot = try SystemBoot()
    let next = try ground.peer(environment: boot.environment)
    #expect(try next.ask("window a 30 40") == "permitted 10")
    #expect(try next.ask("rate b 4 6") == "permitted 2")
    try next.dismiss()
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `Processes killed while they add names of limiters take no room of locks`() throws {
    let ground = try StoreFixture()
    var random = Seed.announce().generator()
    for round in 0..<12 {
      // While it changes a slot, it also has the ticket of the allocation.
      let occurrence = Int.random(in: 1...3000, using: &random)
      let peer = try ground.peer(environment: ["LARDER_FAULTS": "lockEntered:kill@\(occurrence)"])
      try peer.send("names \(round)- 5000")
      _ = try peer.wait()
      try ground.store.lock("reindex").withLock(timeout: .seconds(600)) { _ in }
      let limit = RateLimit.slidingWindow(limit: 100, per: .seconds(3600))
      #expect(try ground.store.rateLimiter("round \(round)", limit).tryAcquire())
    }
    #expect(try ground.store.locks() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A waiter of a limiter that was killed takes no permission`() throws {
    let ground = try StoreFixture()
    let shared = ground.directory.appending("clock")
    let clock = try ManualClock(sharedAt: shared)
    let peers = try (0..<2).map { _ in try ground.peer("shared=\(shared)") }
    #expect(try peers[1].ask("rate a 2 1") == "permitted 1")
    try peers[0].send("acquire a")
    try eventually("a process waits") { try ground.store.locks().contains { !$0.waiters.isEmpty } }
    peers[0].kill()
    _ = try peers[0].wait()
    clock.advance(by: .seconds(200_000))
    #expect(try peers[1].ask("rate a 1 1") == "permitted 1")
    try peers[1].dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `The number of permits and parties can change once their users were killed`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<2).map { _ in try ground.peer() }
    #expect(try peers[0].ask("permit a 2") == "holding")
    try peers[1].send("barrier b 3")
    try eventually("a process waits") { try ground.store.locks().contains { !$0.waiters.isEmpty } }
    for peer in peers {
      peer.kill()
      _ = try peer.wait()
    }
    try ground.store.semaphore("a", permits: 3).withPermit(timeout: .seconds(600)) {}
    try ground.store.barrier("b", parties: 1).wait(timeout: .seconds(600))
    #expect(try ground.store.locks().allSatisfy(\.holders.isEmpty))
  }
}
