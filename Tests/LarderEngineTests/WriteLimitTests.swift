// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// The time limit of writes, and its error.
@Suite(.timeLimit(.minutes(60))) struct WriteLimitTests {
  @Test
  func `A write inside its transaction fails after three limits, with that time in its error`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let limit: Duration = .seconds(10)
    let store = try SharedStore(
      at: directory.appending("store"), StoreOptions(writeTimeout: limit))
    let goOn = Event()
    let start = ContinuousClock.now
    let error = await #expect(throws: StoreError.self) {
      try await store.write { transaction in
        try transaction.setBytes([1], forKey: "a")
        goOn.wait(nanoseconds: 800_000_000_000)
      }
    }
    // A machine that is slow makes it later.
    #expect(ContinuousClock.now - start >= limit * 3)
    #expect(error?.code == .outcomeUnknown)
    #expect(error?.message.contains("has not ended after \(limit * 3)") == true, "\(error as Any)")
    // A queued one is withdrawn after one limit.
    let other = await #expect(throws: StoreError.self) {
      try await store.setBytes([2], forKey: "b")
    }
    #expect(other?.code == .writerStalled)
    #expect(other?.message.contains("timed out after \(limit)") == true, "\(other as Any)")
    goOn.set()
    try await awaitEventually("the store is synced") {
      do {
        try await store.sync()
        return true
      } catch let error as StoreError where error.code == .writerStalled {
        return false
      }
    }
    // Its outcome was unknown: it was stored after all, and the other was not.
    #expect(try store.bytes(forKey: "a") == [1] && store.bytes(forKey: "b") == nil)
  }
}
