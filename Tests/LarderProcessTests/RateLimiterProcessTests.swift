// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Rate limiters between processes.
extension Processes {
  @Test(.timeLimit(.minutes(15)))
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

  @Test(.timeLimit(.minutes(15)))
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

  @Test(.timeLimit(.minutes(15)))
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
    try ground.store.semaphore("a", permits: 3).withPermit(timeout: .seconds(120)) {}
    try ground.store.barrier("b", parties: 1).wait(timeout: .seconds(120))
    #expect(try ground.store.locks().allSatisfy(\.holders.isEmpty))
  }
}
