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
}
