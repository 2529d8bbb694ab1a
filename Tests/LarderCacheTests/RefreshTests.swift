// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// Values that are computed again: served stale, early, after errors, conditionally.
@Suite(.timeLimit(.minutes(60))) struct RefreshTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()
  let store: SharedStore
  let reported = Shared<[String]>([])

  init() throws {
    directory = try TemporaryDirectory()
    var options = StoreOptions(budget: .megabytes(8), clock: clock.storeClock)
    options.sweepsWhenIdle = false
    options.onError = { [reported] error in reported.value.withLock { $0.append("\(error)") } }
    store = try SharedStore(at: directory.path + "/store", options)
  }

  private struct Failure: Error {}
  private typealias Gate = FlightTests.Gate

  private func cache(_ name: String = "") -> PersistentCache<String, Int> {
    PersistentCache(storage: store, namespace: name)
  }

  /// Waits until another value than `old` is stored.
  private func next(
    _ cache: PersistentCache<String, Int>, _ key: String, after old: Int? = nil
  ) async throws -> Int {
    var found: Int?
    try await awaitEventually("another value is stored") {
      found = try await cache.value(forKey: key)
      return found != nil && found != old
    }
    return try #require(found)
  }

  private let minute = Expiration.after(.seconds(60))

  @Test func `An expired value is served while one flight computes the next`() async throws {
    let cache = cache()
    let refresh = Refresh(staleFor: .seconds(600))
    #expect(try await cache.value(forKey: "k", expires: minute, refresh: refresh) { 1 } == 1)
    clock.advance(by: .seconds(60))
    #expect(try await cache.value(forKey: "k") == nil)
    #expect(try await !cache.contains("k"))
    #expect(try await cache.values(forKeys: ["k"]).isEmpty)
    #expect(try await cache.keys().isEmpty)
    let (goOn, calls) = (Gate(), Shared(0))
    for _ in 0..<5 {
      let value = try await cache.value(forKey: "k", expires: minute, refresh: refresh) {
        calls.value.withLock { $0 += 1 }
        await goOn.wait()
        return 2
      }
      #expect(value == 1)
    }
    // A call that serves nothing stale waits for the flight.
    async let waiting = cache.value(forKey: "k", expires: minute) { 3 }
    goOn.open()
    #expect(try await waiting == 2)
    #expect(try await next(cache, "k") == 2)
    #expect(calls.value.withLock { $0 } == 1)
    #expect(try store.verify() == [])
  }

  @Test func `A value is kept as long as its refresh says and then removed`() async throws {
    let cache = cache()
    let refresh = Refresh(staleFor: .seconds(10), staleIfError: .seconds(100))
    _ = try await cache.value(forKey: "k", expires: minute, refresh: refresh) { 1 }
    clock.advance(by: .seconds(159))
    try store.core.removeExpired()
    #expect(try store.statistics().entries == 1)
    #expect(try store.verify() == [])
    clock.advance(by: .seconds(1))
    try store.core.removeExpired()
    #expect(try store.statistics().entries == 0)
    #expect(try store.verify() == [])
  }

  @Test func `A kept value survives compaction and repair`() async throws {
    let cache = cache()
    let refresh = Refresh(staleFor: .seconds(600), early: 1)
    _ = try await cache.value(forKey: "k", expires: minute, refresh: refresh, tags: ["t"]) { 1 }
    try await cache.setValue(7, forKey: "other")
    clock.advance(by: .seconds(60))
    try await store.compact()
    #expect(try store.verify() == [])
    let value = try await cache.value(forKey: "k", expires: minute, refresh: refresh) { 2 }
    #expect(value == 1)
    #expect(try await next(cache, "k") == 2)
  }

  @Test(arguments: [true, false])
  func `A failed computation gives the expired value and reports its error`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(storage: usesStore ? store : nil)
    let errors = Shared<[String]>([])
    var refresh = Refresh(staleIfError: usesStore ? .seconds(100) : .seconds(3600))
    refresh.onError = { error in errors.value.withLock { $0.append("\(error)") } }
    let life = usesStore ? minute : Expiration.after(.milliseconds(1))
    _ = try await cache.value(forKey: "k", expires: life, refresh: refresh) { 1 }
    clock.advance(by: .seconds(60))
    try await awaitEventually("it expires") { try await cache.value(forKey: "k") == nil }
    let value = try await cache.value(forKey: "k", expires: life, refresh: refresh) {
      throw Failure()
    }
    #expect(value == 1)
    #expect(errors.value.withLock { $0 } == ["\(Failure())"])
    // Without a refresh the error is thrown.
    await #expect(throws: Failure.self) {
      try await cache.value(forKey: "k", expires: life) { throw Failure() }
    }
    guard usesStore else { return }
    clock.advance(by: .seconds(100))
    await #expect(throws: Failure.self) {
      try await cache.value(forKey: "k", expires: life, refresh: refresh) { throw Failure() }
    }
    #expect(try store.verify() == [])
  }

  @Test func `The error of a computation in the background goes to the store's handler`()
    async throws
  {
    let cache = cache()
    let refresh = Refresh(staleFor: .seconds(100))
    _ = try await cache.value(forKey: "k", expires: minute, refresh: refresh) { 1 }
    clock.advance(by: .seconds(60))
    let value = try await cache.value(forKey: "k", expires: minute, refresh: refresh) {
      throw Failure()
    }
    #expect(value == 1)
    try await awaitEventually("an error is reported") { !reported.value.withLock(\.isEmpty) }
    #expect(reported.value.withLock { $0 } == ["\(Failure())"])
  }

  @Test(arguments: [true, false])
  func `A value is computed early and the old one is returned meanwhile`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(storage: usesStore ? store : nil)
    // So early that every call computes.
    let refresh = Refresh(early: 1e12)
    let hour = Expiration.after(.seconds(3600))
    #expect(try await cache.value(forKey: "k", expires: hour, refresh: refresh) { 1 } == 1)
    #expect(try await cache.value(forKey: "k", expires: hour, refresh: refresh) { 2 } == 1)
    #expect(try await next(cache, "k", after: 1) == 2)
    // Never, without the factor.
    for _ in 0..<10 { _ = try await cache.value(forKey: "k", expires: hour) { 3 } }
    #expect(try await cache.value(forKey: "k") == 2)
  }

  @Test func `An early refresh is more likely near the expiration`() {
    let refresh = Refresh(early: 1)
    func share(remaining: Int64) -> Int {
      (0..<1000).count { _ in
        refresh.isDue(expires: 100_000, computeTime: 100, at: 100_000 - remaining)
      }
    }
    #expect(share(remaining: 10_000) == 0)
    #expect((270...470).contains(share(remaining: 100)))
    #expect(share(remaining: 1) > 950)
    #expect(!refresh.isDue(expires: .max, computeTime: 100, at: 0))
  }

  // MARK: Results that decide

  @Test func `A computation decides the expiration and the tags of its result`() async throws {
    let cache = cache()
    let value = try await cache.computedValue(forKey: "k") { old in
      #expect(old == nil)
      return Computed(1, expires: .after(.seconds(5)), tags: ["t"])
    }
    #expect(value == 1)
    #expect(try await cache.value(forKey: "k") == 1)
    clock.advance(by: .seconds(5))
    #expect(try await cache.value(forKey: "k") == nil)
    _ = try await cache.computedValue(forKey: "k") { _ in Computed(2, tags: ["t"]) }
    try await cache.removeAll(tagged: "t")
    #expect(try await cache.value(forKey: "k") == nil)
    let none = try await cache.computedValue(forKey: "k") { _ in .absent(for: .seconds(5)) }
    #expect(none == nil)
    let again = try await cache.computedValue(forKey: "k") { _ in Computed(9) }
    #expect(again == nil)
    clock.advance(by: .seconds(5))
    #expect(try await cache.computedValue(forKey: "k") { _ in Computed(9) } == 9)
    #expect(try store.verify() == [])
  }

  @Test(arguments: [10, 200_000])
  func `An unchanged value gets a new lifetime and keeps its tags`(size: Int) async throws {
    let cache = PersistentCache<String, String>(storage: store)
    let text = String(repeating: "a", count: size)
    let refresh = Refresh(keptFor: .seconds(3600))
    _ = try await cache.computedValue(forKey: "k", refresh: refresh) { _ in
      Computed(text, expires: .after(.seconds(60)), tags: ["t"])
    }
    for _ in 0..<3 {
      clock.advance(by: .seconds(1000))
      #expect(try await cache.value(forKey: "k") == nil)
      let value = try await cache.computedValue(forKey: "k", refresh: refresh) { old in
        #expect(old == text)
        return .unchanged(expires: .after(.seconds(60)))
      }
      #expect(value == text)
      #expect(try await cache.value(forKey: "k") == text)
    }
    try await cache.removeAll(tagged: "t")
    #expect(try await cache.value(forKey: "k") == nil)
    // The removed value is not passed on.
    clock.advance(by: .seconds(100))
    let value = try await cache.computedValue(forKey: "k", refresh: refresh) { old in
      Computed(old ?? "none")
    }
    #expect(value == "none")
    #expect(try store.verify() == [])
  }

  @Test func `A wrong result of a computation is an error of its callers`() async throws {
    let cache = cache()
    func code(_ computed: Computed<Int>, _ refresh: Refresh = .never) async throws -> StoreError
      .Code?
    {
      await #expect(throws: StoreError.self) {
        try await cache.computedValue(forKey: "k", refresh: refresh) { _ in computed }
      }?.code
    }
    #expect(try await code(.unchanged(expires: minute)) == .invalidOption)
    #expect(try await code(Computed(1, expires: .after(.zero))) == .invalidOption)
    #expect(try await code(Computed(1, tags: [""])) == .invalidOption)
    #expect(
      try await code(
        Computed(1, expires: .afterAccess(.seconds(1))), Refresh(staleFor: .seconds(1)))
        == .invalidOption)
    for refresh in [Refresh(staleFor: .seconds(-1)), Refresh(early: -1), Refresh(early: .nan)] {
      #expect(try await code(Computed(1), refresh) == .invalidOption)
    }
    #expect(try await cache.value(forKey: "k") == nil)
  }

  // MARK: Writes and removals during a computation

  @Test(arguments: [true, false])
  func `A cancelled computation that ends late does not replace a newer one`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(storage: usesStore ? store : nil)
    let (begun, goOn, ended) = (Gate(), Gate(), Gate())
    let first = Task {
      try await cache.value(forKey: "k") {
        begun.open()
        await goOn.wait()
        defer { ended.open() }
        return 1
      }
    }
    await begun.wait()
    first.cancel()
    await #expect(throws: CancellationError.self) { try await first.value }
    #expect(try await cache.value(forKey: "k") { 2 } == 2)
    goOn.open()
    await ended.wait()
    try await awaitEventually("no caller is left") { cache.waitingCallers == 0 }
    try cache.sync()
    #expect(try await cache.value(forKey: "k") == 2)
  }

  @Test(arguments: ["key", "tag", "all", "set"])
  func `A value that changes during a failing computation is not served`(
    kind: String
  ) async throws {
    let cache = cache()
    let refresh = Refresh(staleIfError: .seconds(1000))
    _ = try await cache.value(forKey: "k", expires: minute, refresh: refresh, tags: ["t"]) { 1 }
    clock.advance(by: .seconds(60))
    let compute: @Sendable () async throws -> Int = {
      switch kind {
      case "key": try await cache.removeValue(forKey: "k")
      case "tag": try await cache.removeAll(tagged: "t")
      case "all": try await cache.removeAll()
      default: try await cache.setValue(9, forKey: "k")
      }
      throw Failure()
    }
    if kind == "set" {
      let value = try await cache.value(
        forKey: "k", expires: minute, refresh: refresh, tags: ["t"], compute)
      #expect(value == 9)
    } else {
      await #expect(throws: Failure.self) {
        try await cache.value(forKey: "k", expires: minute, refresh: refresh, tags: ["t"], compute)
      }
    }
  }

  @Test func `Without a store an unchanged value keeps its tags and an absent one ends`()
    async throws
  {
    let cache = PersistentCache<String, Int>(storage: nil)
    let refresh = Refresh(staleFor: .seconds(3600), keptFor: .seconds(3600))
    let soon = Expiration.after(.milliseconds(1))
    _ = try await cache.computedValue(forKey: "k", refresh: Refresh(keptFor: .seconds(3600))) { _ in
      Computed(1, expires: soon, tags: ["t"])
    }
    try await awaitEventually("it expires") { try await cache.value(forKey: "k") == nil }
    let kept = try await cache.computedValue(
      forKey: "k", refresh: Refresh(keptFor: .seconds(3600))
    ) { old in
      #expect(old == 1)
      return .unchanged(expires: .after(.seconds(3600)))
    }
    #expect(kept == 1)
    #expect(try await cache.value(forKey: "k") == 1)
    try await cache.removeAll(tagged: "t")
    #expect(try await cache.value(forKey: "k") == nil)

    _ = try await cache.computedValue(forKey: "a", refresh: refresh) { _ in
      Computed(1, expires: soon)
    }
    try await awaitEventually("it expires") { try await cache.value(forKey: "a") == nil }
    let stale = try await cache.computedValue(forKey: "a", refresh: refresh) { _ in
      .absent(for: .seconds(1))
    }
    #expect(stale == 1)
    try await awaitEventually("the key is gone") { try await !cache.keys().contains("a") }
    let next = try await cache.computedValue(forKey: "a", refresh: refresh) { old in
      #expect(old == nil)
      return Computed(2)
    }
    #expect(next == 2)
  }

  @Test(arguments: [true, false])
  func `A key can be computed after its computation has requested it once more`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(
      storage: usesStore ? store : nil, options: CacheOptions(computeTimeout: .seconds(600)))
    await #expect(throws: Failure.self) {
      try await cache.value(forKey: "k") {
        try await cache.setValue(7, forKey: "k")
        try await cache.removeValue(forKey: "k")
        _ = try? await cache.value(forKey: "k") { 1 }
        throw Failure()
      }
    }
    try await cache.removeValue(forKey: "k")
    #expect(try await cache.value(forKey: "k") { 2 } == 2)
  }

  @Test func `A caller of a value computes while a computation without one is being stored`()
    async throws
  {
    let cache = cache()
    let values = try await withThrowingTaskGroup(of: Int?.self) { group in
      for number in 0..<50 {
        group.addTask {
          try await cache.value(forKey: "k\(number / 2)", absentFor: .seconds(60)) { nil }
        }
        group.addTask { try await cache.value(forKey: "k\(number / 2)") { 5 } }
      }
      return try await group.reduce(into: [Int?]()) { $0.append($1) }
    }
    #expect(values.count { $0 == 5 } >= 50)
  }

  // MARK: Limits

  @Test func `The shortest time limit ends a computation that hangs`() async throws {
    let cache = PersistentCache<Int, Int>(
      storage: store, options: CacheOptions(computeLimit: .zero))
    for key in 0..<200 {
      let error = await #expect(throws: (any Error).self) {
        try await cache.value(forKey: key) {
          try await Gate().hang()
          return 1
        }
      }
      #expect((error as? StoreError)?.code == .computationStalled)
    }
  }

  @Test(arguments: [true, false])
  func `A computation that takes too long is cancelled and the next caller computes`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(
      storage: usesStore ? store : nil, namespace: "slow",
      options: CacheOptions(computeLimit: .milliseconds(50)))
    let wasCancelled = Shared(false)
    let error = await #expect(throws: StoreError.self) {
      try await cache.value(forKey: "k") {
        do {
          try await Gate().hang()
        } catch {
          wasCancelled.value.withLock { $0 = true }
          throw error
        }
        return 1
      }
    }
    #expect(error?.code == .computationStalled)
    #expect(error?.message.contains("key k of namespace slow") == true)
    try await awaitEventually("it is cancelled") { wasCancelled.value.withLock { $0 } }
    // The limit is that of this computation too, which may get no time for so long.
    try await awaitEventually("the next caller computes") {
      (try? await cache.value(forKey: "k") { 2 }) == 2
    }
  }

  @Test(arguments: [true, false])
  func `When the last caller is cancelled the computation is cancelled`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(storage: usesStore ? store : nil)
    let (begun, ended) = (Gate(), Shared(false))
    let callers = (0..<3).map { _ in
      Task {
        try await cache.value(forKey: "k") {
          begun.open()
          defer { ended.value.withLock { $0 = true } }
          try await Gate().hang()
          return 1
        }
      }
    }
    await begun.wait()
    try await awaitEventually("three wait") { cache.waitingCallers == 3 }
    for caller in callers { caller.cancel() }
    for caller in callers {
      await #expect(throws: CancellationError.self) { try await caller.value }
    }
    try await awaitEventually("it ends") { ended.value.withLock { $0 } }
    #expect(try await cache.value(forKey: "k") { 2 } == 2)
  }
}
