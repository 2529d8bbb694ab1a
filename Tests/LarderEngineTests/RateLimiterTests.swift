// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// Rate limiters within one process.
@Suite(.timeLimit(.minutes(60))) struct RateLimiterTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()
  let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(
      at: directory.appending("store"), StoreOptions(clock: clock.storeClock))
  }

  /// The number of calls that a limiter permits at once, up to 1,000.
  private func permitted(_ limiter: RateLimiter) throws -> Int {
    for count in 0..<1000 where try !limiter.tryAcquire() { return count }
    return 1000
  }

  /// Returns the code of the error that a function throws, or `nil`.
  private func code(_ body: () throws -> Void) -> StoreError.Code? {
    do {
      try body()
      return nil
    } catch {
      return (error as? StoreError)?.code
    }
  }

  @Test func `A token bucket permits its burst at once and then its rate`() throws {
    let limiter = store.rateLimiter("a", .tokenBucket(rate: 10, burst: 5))
    #expect(try permitted(limiter) == 5)
    for (milliseconds, count) in [(99, 0), (1, 1), (100, 1), (250, 2), (50, 1), (60_000, 5)] {
      clock.advance(by: .milliseconds(milliseconds))
      #expect(try permitted(limiter) == count, "after \(milliseconds) ms")
    }
  }

  @Test(arguments: [1, 5, 16, 17, 160])
  func `A sliding window of a few milliseconds has its limit`(milliseconds: Int) throws {
    let limiter = store.rateLimiter("a", .slidingWindow(limit: 5, per: .milliseconds(milliseconds)))
    #expect(try permitted(limiter) == 5)
    clock.advance(by: .milliseconds(milliseconds * 2 + 20))
    #expect(try permitted(limiter) == 5)
  }

  @Test func `Windows of different lengths under one name do not reset each other`() throws {
    let limiters = [1, 2].map {
      store.rateLimiter("a", .slidingWindow(limit: 5, per: .seconds($0)))
    }
    var counts: [Int] = []
    for _ in 0..<2 {
      counts.append(try (0..<100).count { try limiters[$0 % 2].tryAcquire() })
    }
    #expect(counts == [5, 0])
    // Nor do they renew them.
    var later = 0
    for number in 0..<100 {
      clock.advance(by: .milliseconds(100))
      if try limiters[number % 2].tryAcquire() { later += 1 }
    }
    #expect((15...50).contains(later), "\(later) in ten seconds")
  }

  @Test func `A bucket of one token is full again after one interval of the exact clock`() throws {
    let system = try SharedStore(at: directory.appending("system"))
    let limiter = system.rateLimiter("a", .tokenBucket(rate: 1000, burst: 1))
    for round in 0..<50 {
      #expect(try limiter.tryAcquire(), "in round \(round)")
      // The system's coarse clock advances every 4 ms.
      let full = Clocks.wallNanoseconds() + 1_000_000
      try eventually("a millisecond has passed") { Clocks.wallNanoseconds() >= full }
    }
  }

  @Test func `A shorter window keeps its own calls whatever the longer one has counted`() throws {
    for shift in 0..<17 {
      let name = "n\(shift)"
      let long = store.rateLimiter(name, .slidingWindow(limit: 10, per: .milliseconds(1600)))
      let short = store.rateLimiter(name, .slidingWindow(limit: 10, per: .milliseconds(160)))
      for _ in 0..<5 { #expect(try long.tryAcquire()) }
      // The middle of that part and now are in parts of 10 ms with one place.
      clock.advance(by: .milliseconds(900))
      for _ in 0..<5 { #expect(try long.tryAcquire()) }
      #expect(try permitted(short) == 5, "after \(shift) shifts")
      clock.advance(by: .milliseconds(10_000 + 100))
    }
  }

  @Test func `A sliding window never has more calls than its limit`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let limiter = store.rateLimiter("a", .slidingWindow(limit: 20, per: .seconds(1)))
    var calls: [Int64] = []
    for _ in 0..<2000 {
      if try limiter.tryAcquire() { calls.append(clock.now) }
      clock.advance(by: .milliseconds(Int.random(in: 0...60, using: &random)))
    }
    for (index, start) in calls.enumerated() {
      #expect(calls[index...].prefix { $0 < start + 1000 }.count <= 20)
    }
    // It is not far below its limit either.
    let span = Double(clock.now - calls[0]) / 1000
    #expect(Double(calls.count) > span * 20 * 0.8)
  }

  @Test func `A clock that is set back does not stop a limiter for longer than its burst`() throws {
    let bucket = store.rateLimiter("a", .tokenBucket(rate: 10, burst: 5))
    let window = store.rateLimiter("a", .slidingWindow(limit: 5, per: .seconds(1)))
    #expect(try permitted(bucket) == 5 && permitted(window) == 5)
    clock.advance(by: .seconds(-86_400))
    #expect(try permitted(bucket) == 0)
    clock.advance(by: .milliseconds(500))
    #expect(try permitted(bucket) == 5)
    clock.advance(by: .milliseconds(1200))
    #expect(try permitted(window) == 5)
  }

  @Test func `A call that waits for the rate is permitted when the time comes`() async throws {
    let limiter = store.rateLimiter("a", .tokenBucket(rate: 1, burst: 1))
    try await limiter.acquire(timeout: .zero)
    let waiter = Task.detached { try await limiter.acquire(timeout: .seconds(600)) }
    try await awaitEventually("it waits") { try store.locks().first?.waiters.count == 1 }
    // No call overtakes it, and a deadline counts as no call.
    #expect(try !limiter.tryAcquire())
    #expect(code { try limiter.acquire(timeout: .milliseconds(1)) } == .lockTimeout)
    clock.advance(by: .seconds(1))
    try await waiter.value
    #expect(try !limiter.tryAcquire())
    clock.advance(by: .seconds(1))
    #expect(try limiter.tryAcquire())
  }

  /// Requests a permission of each of many names, which have no room for more then.
  private func fill(_ limit: RateLimit) throws {
    for number in 0..<9000 {
      _ = try store.rateLimiter("client \(number)", limit).tryAcquire()
    }
  }

  @Test func `Any number of names of limiters leaves locks alone, and exceeds no rate`() throws {
    let limit = RateLimit.slidingWindow(limit: 500, per: .seconds(3600))
    for number in 0..<1100 {
      #expect(try store.rateLimiter("client \(number)", limit).tryAcquire(), "client \(number)")
    }
    try fill(limit)
    try store.lock("a").withLock(timeout: .zero) { _ in }
    try store.semaphore("a", permits: 1).withPermit(timeout: .zero) {}
    try store.barrier("a", parties: 1).wait(timeout: .zero)
    // Another rate has its own room, whatever its form.
    let few = RateLimit.slidingWindow(limit: 3, per: .seconds(3600))
    for number in 0..<200 {
      #expect(try permitted(store.rateLimiter("other \(number)", few)) <= 3)
    }
    #expect(try permitted(store.rateLimiter("a", .tokenBucket(rate: 0.001, burst: 4))) == 4)
    #expect(try store.locks() == [])
    // When the names are at rest there is room for new ones.
    clock.advance(by: .seconds(7200))
    for number in 0..<200 {
      #expect(try permitted(store.rateLimiter("new \(number)", few)) == 3)
    }
  }

  @Test func `A name that gets separate room keeps the calls that were counted before`() throws {
    let limit = RateLimit.slidingWindow(limit: 10, per: .seconds(3600))
    try fill(limit)
    clock.advance(by: .seconds(1800))
    // These have no room, and share.
    let names = (0..<300).map { store.rateLimiter("late \($0)", limit) }
    var counts = try names.map { limiter in try (0..<2).count { _ in try limiter.tryAcquire() } }
    #expect(counts.contains { $0 < 2 })
    clock.advance(by: .seconds(1800 + 240))
    for (index, limiter) in names.enumerated() { counts[index] += try permitted(limiter) }
    #expect(counts.allSatisfy { $0 <= 10 }, "\(counts.max() ?? 0)")
    #expect(counts.contains { $0 > 0 })
  }

  @Test func `The room of limiters is in a separate file, and the list has both`() async throws {
    let limiter = store.rateLimiter("a", .tokenBucket(rate: 0.001, burst: 1))
    #expect(try limiter.tryAcquire())
    let waiter = Task.detached { try await limiter.acquire(timeout: .seconds(600)) }
    try await awaitEventually("it waits") { try store.locks().first?.waiters.count == 1 }
    let lock = store.lock("b")
    try await lock.withLock { _ async throws in
      #expect(try store.locks().map(\.name) == ["b", "a"])
    }
    waiter.cancel()
    await #expect(throws: CancellationError.self) { try await waiter.value }
    let names = TestFiles.names(in: directory.appending("store/v1"))
    #expect(names.contains("rates") && names.contains("locks"))
  }

  @Test func `The state of a limiter survives the store`() throws {
    let limit = RateLimit.tokenBucket(rate: 0.001, burst: 3)
    #expect(try permitted(store.rateLimiter("a", limit)) == 3)
    store.close()
    let again = try SharedStore(at: store.path, StoreOptions(clock: clock.storeClock))
    #expect(try permitted(again.rateLimiter("a", limit)) == 0)
  }

  @Test func `Rates out of range are errors`() throws {
    let limits: [RateLimit] = [
      .tokenBucket(rate: 0, burst: 1), .tokenBucket(rate: -1, burst: 1),
      .tokenBucket(rate: .nan, burst: 1), .tokenBucket(rate: .infinity, burst: 1),
      .tokenBucket(rate: 1, burst: 0), .slidingWindow(limit: 0, per: .seconds(1)),
      .slidingWindow(limit: 1, per: .zero), .slidingWindow(limit: .max, per: .seconds(1)),
    ]
    for limit in limits {
      #expect(code { _ = try store.rateLimiter("a", limit).tryAcquire() } == .invalidOption)
    }
  }
}
