// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderCache
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// Deques in one process.
@Suite(.timeLimit(.minutes(60))) struct DequeTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()
  let errors = Shared<[String]>([])
  let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    var options = StoreOptions(clock: clock.storeClock)
    options.onError = { [errors] error in errors.value.withLock { $0.append("\(error)") } }
    options.sweepsWhenIdle = false
    store = try SharedStore(at: directory.path + "/store", options)
  }

  private func deque(_ name: String = "jobs", attempts: Int = 5) -> SharedDeque<String> {
    SharedDeque(storage: store, name: name, maximumAttempts: attempts)
  }

  @Test func `Elements are popped in their order from both ends`() throws {
    let deque = deque()
    #expect(try deque.popFirst() == nil && deque.popLast() == nil)
    try deque.push("b")
    try deque.push(contentsOf: ["c", "d"])
    try deque.pushFirst("a")
    #expect(try deque.elements() == ["a", "b", "c", "d"])
    #expect(try deque.elements(limit: 2) == ["a", "b"])
    #expect(try deque.count() == 4)
    #expect(try deque.popLast() == "d")
    #expect(try deque.popFirst() == "a")
    try deque.push("e")
    #expect(try deque.elements() == ["b", "c", "e"])
    #expect(try store.verify() == [])
  }

  @Test func `Random calls give the results of an array`() throws {
    var random = Seed.announce().generator()
    let deque = deque(attempts: .max)
    var model: [Int] = []
    var claims: [(SharedDeque<String>.Claim, Int)] = []
    for step in 0..<2000 {
      let text = String(step)
      switch Int.random(in: 0..<9, using: &random) {
      case 0, 1:
        try deque.push(text)
        model.append(step)
      case 2:
        try deque.pushFirst(text)
        model.insert(step, at: 0)
      case 3: #expect(try deque.popFirst() == (model.isEmpty ? nil : String(model.removeFirst())))
      case 4: #expect(try deque.popLast() == model.popLast().map(String.init))
      case 5, 6:
        guard let claim = try deque.claim(lease: .seconds(60)) else {
          #expect(model.isEmpty)
          continue
        }
        let first = model.removeFirst()
        #expect(claim.element == String(first))
        claims.append((claim, first))
      case 7 where !claims.isEmpty:
        let index = Int.random(in: claims.indices, using: &random)
        #expect(try claims.remove(at: index).0.complete())
      case 8 where !claims.isEmpty:
        // The last of the claims is before all elements that were not claimed since.
        let (claim, element) = claims.removeLast()
        let isInPlace = try deque.elements(limit: 1).first == model.first.map(String.init)
        #expect(isInPlace)
        #expect(try claim.release())
        let rest = try deque.elements(limit: .max)
        #expect(rest.count == model.count + 1 && rest.contains(String(element)))
        model = rest.compactMap { Int($0) }
      default: break
      }
      #expect(try deque.count() == model.count && deque.status().claimed == claims.count)
    }
    #expect(try deque.elements(limit: .max) == model.map(String.init))
    #expect(try store.verify() == [])
  }

  @Test func `A claimed element is completed once, or returns to its place`() throws {
    let deque = deque()
    try deque.push(contentsOf: ["a", "b"])
    let a = try #require(try deque.claim(lease: .seconds(60)))
    let b = try #require(try deque.claim(lease: .seconds(60)))
    #expect(a.element == "a" && b.element == "b" && a.attempt == 1 && a.token < b.token)
    #expect(try deque.claim(lease: .seconds(60)) == nil && deque.popFirst() == nil)
    #expect(try deque.count() == 0 && deque.status().claimed == 2)
    #expect(try b.complete() && !b.complete() && !b.release() && !b.extend(lease: .seconds(1)))
    #expect(try a.release())
    try deque.push("c")
    let again = try #require(try deque.claim(lease: .seconds(60)))
    #expect(again.element == "a" && again.attempt == 2)
    #expect(try !a.complete(), "the claim has ended")
    #expect(try again.complete())
    #expect(try deque.elements() == ["c"])
  }

  @Test func `A claim from before all elements were removed does not end a later one`() throws {
    let deque = deque()
    for _ in 0..<20 {
      try deque.push(contentsOf: ["a", "b"])
      let former = [try deque.claim(lease: .seconds(60)), try deque.claim(lease: .seconds(60))]
      try deque.removeAll()
      try deque.push("c")
      let claim = try #require(try deque.claim(lease: .seconds(60)))
      for case let former? in former {
        #expect(try !former.complete() && former.token < claim.token)
      }
      #expect(try claim.complete())
    }
  }

  @Test func `A lease that has ended returns the element, an extended one does not`() throws {
    let deque = deque()
    try deque.push(contentsOf: ["a", "b"])
    let a = try #require(try deque.claim(lease: .seconds(10)))
    let b = try #require(try deque.claim(lease: .seconds(10)))
    clock.advance(by: .seconds(9))
    #expect(try b.extend(lease: .seconds(10)))
    clock.advance(by: .seconds(2))
    // A claim that was late, but whose element no caller has claimed since, still counts.
    let next = try #require(try deque.claim(lease: .seconds(10)))
    #expect(next.element == "a" && next.attempt == 2)
    #expect(try !a.complete() && b.complete() && next.complete())
  }

  @Test func `An element that is given back for later is claimed again later`() throws {
    let deque = deque()
    try deque.push("a")
    let claim = try #require(try deque.claim(lease: .seconds(10)))
    #expect(try claim.release(after: .seconds(30)))
    #expect(try deque.claim(lease: .seconds(10)) == nil && deque.count() == 1)
    clock.advance(by: .seconds(31))
    #expect(try deque.claim(lease: .seconds(10))?.attempt == 2)
  }

  @Test func `An element whose attempts have all failed is moved to the failed ones`() throws {
    let deque = deque(attempts: 2)
    try deque.push(contentsOf: ["a", "b"])
    for attempt in 1...2 {
      let claim = try #require(try deque.claim(lease: .seconds(10)))
      #expect(claim.element == "a" && claim.attempt == attempt)
      try claim.release()
    }
    #expect(try deque.elements() == ["b"] && deque.failed.elements() == ["a"])
    try deque.claim(lease: .seconds(10))?.fail()
    #expect(try deque.failed.elements() == ["a", "b"] && deque.count() == 0)
    // One whose lease has ended as well.
    try deque.push(contentsOf: ["c", "d"])
    for _ in 0..<2 {
      #expect(try deque.claim(lease: .seconds(10))?.element == "c")
      clock.advance(by: .seconds(11))
    }
    #expect(try deque.claim(lease: .seconds(10))?.element == "d")
    #expect(try deque.failed.popFirst() == "a" && deque.failed.elements() == ["b", "c"])
    #expect(try store.verify() == [])
  }

  @Test func `An element of another type fails and is not lost`() async throws {
    let numbers = SharedDeque<Int>(storage: store, name: "jobs")
    try await numbers.push(contentsOf: [1, 2])
    let texts = deque()
    await #expect(throws: StoreError.self) { try await texts.popFirst() }
    await #expect(throws: StoreError.self) { try await texts.claim(lease: .seconds(10)) }
    #expect(try numbers.failed.elements() == [1, 2] && numbers.count() == 0)
    try await numbers.push(3)
    try await texts.push("a")
    var iterator = texts.claims(lease: .seconds(10)).makeAsyncIterator()
    #expect(try await iterator.next()?.element == "a")
    #expect(try numbers.failed.elements() == [1, 2, 3])
    #expect(errors.value.withLock { $0.count } == 1)
  }

  @Test func `Failed elements are never lost, whatever is done with them`() throws {
    let deque = deque(attempts: 1)
    try deque.push(contentsOf: ["a", "b"])
    try deque.claim(lease: .seconds(10))?.release()
    try deque.claim(lease: .seconds(10))?.fail()
    let failed = deque.failed
    #expect(try failed.elements() == ["a", "b"])
    #expect(try failed.claim(lease: .seconds(10))?.fail() == true)
    try failed.push("c")
    #expect(try failed.elements() == ["a", "b", "c"])
    // As elements of another type.
    let numbers = SharedDeque<Int>(storage: store, name: "jobs").failed
    for _ in 0..<2 {
      #expect(throws: StoreError.self) { try numbers.claim(lease: .seconds(10)) }
    }
    #expect(try numbers.claim(lease: .seconds(10)) == nil, "each of them is not due for a minute")
    #expect(try numbers.elements() == [] && failed.count() == 3)
    #expect(errors.value.withLock { $0.count } == 3)
    #expect(try deque.status() == .init(waiting: 0, claimed: 0, failed: 3))
    #expect(try failed.retryFailed() == 0 && deque.retryFailed() == 3)
    #expect(try deque.status() == .init(waiting: 3, claimed: 0, failed: 0))
    #expect(try deque.claim(lease: .seconds(10))?.attempt == 1)
    try deque.removeAll()
    #expect(try deque.status() == .init(waiting: 0, claimed: 0, failed: 0))
    #expect(try store.verify() == [])
  }

  @Test func `A claim that was not used is no attempt`() throws {
    let deque = deque(attempts: 2)
    try deque.push("a")
    for _ in 0..<5 { try deque.claim(lease: .seconds(10))?.release(countsAttempt: false) }
    #expect(try deque.claim(lease: .seconds(10))?.attempt == 1)
  }

  @Test func `A claim is completed together with the results of its work, or not at all`() throws {
    let deque = deque()
    let cache = PersistentCache<Int, String>(storage: store)
    try deque.push("a")
    let claim = try #require(try deque.claim(lease: .seconds(10)))
    struct Refused: Error {}
    let finish: @Sendable (inout StoreTransaction) throws -> Bool = { transaction in
      guard try transaction.complete(claim) else { return false }
      try transaction.setValue("done", forKey: 1, in: cache)
      return true
    }
    #expect(throws: Refused.self) {
      try store.write { transaction in
        _ = try finish(&transaction)
        throw Refused()
      }
    }
    #expect(try deque.status().claimed == 1 && cache.value(forKey: 1) == nil)
    #expect(try store.write(finish))
    #expect(try deque.status().claimed == 0 && cache.value(forKey: 1) == "done")
    #expect(try !store.write(finish))
  }

  @Test func `A task that waits for an element gets one that is pushed`() async throws {
    let deque = deque()
    async let claim = deque.claim(lease: .seconds(10), timeout: .seconds(600))
    try await awaitEventually("the task waits") { store.observerCount > 0 }
    try await deque.push("a")
    #expect(try await claim?.element == "a")
    #expect(try await deque.claim(lease: .seconds(10), timeout: .milliseconds(20)) == nil)
  }

  @Test func `A task that waits gets an element whose lease has ended`() async throws {
    let deque = deque()
    try await deque.push("a")
    _ = try await deque.claim(lease: .seconds(10))
    async let claim = deque.claim(lease: .seconds(10), timeout: .seconds(600))
    try await awaitEventually("the task waits") { store.observerCount > 0 }
    clock.advance(by: .seconds(11))
    #expect(try await claim?.attempt == 2)
  }

  @Test func `Cancellation and closing end a wait for elements`() async throws {
    let deque = deque()
    let waiting = Task { try await deque.claim(lease: .seconds(10), timeout: .seconds(600)) }
    let iterating = Task {
      for try await _ in deque.claims(lease: .seconds(10)) { Issue.record("there is none") }
    }
    try await awaitEventually("both wait") { store.observerCount == 2 }
    waiting.cancel()
    await #expect(throws: CancellationError.self) { try await waiting.value }
    store.close()
    try await iterating.value
    let closed = await #expect(throws: StoreError.self) { try await deque.push("a") }
    #expect(closed?.code == .closed)
  }

  @Test func `Changes of a transaction and an element are stored together or not at all`() throws {
    let deque = deque()
    let cache = PersistentCache<Int, String>(storage: store)
    struct Refused: Error {}
    #expect(throws: Refused.self) {
      try store.write { transaction in
        try transaction.setValue("paid", forKey: 1, in: cache)
        try transaction.push("receipt", to: deque)
        throw Refused()
      }
    }
    #expect(try deque.count() == 0)
    try store.write { transaction in
      try transaction.setValue("paid", forKey: 1, in: cache)
      try transaction.push("receipt", to: deque)
      try transaction.push("mail", to: deque)
    }
    #expect(try deque.elements() == ["receipt", "mail"])
    try store.write { transaction in
      try transaction.push("lost", to: deque)
      try transaction.removeAll(in: "deque/jobs")
    }
    #expect(try deque.elements() == [] && deque.popFirst() == nil)
    try deque.push("a")
    #expect(try deque.elements() == ["a"])
  }

  @Test func `A claim of a deque that was removed ends no later claim`() throws {
    let deque = deque()
    try deque.push("old")
    let old = try #require(try deque.claim(lease: .seconds(60)))
    try deque.removeAll()
    try deque.push("new")
    clock.advance(by: .milliseconds(1))
    let new = try #require(try deque.claim(lease: .seconds(60)))
    #expect(new.token > old.token)
    #expect(try !old.complete() && !old.release() && new.complete())
  }

  @Test func `Pops find elements whose claim has ended`() throws {
    let deque = deque()
    try deque.push(contentsOf: ["a", "b"])
    _ = try deque.claim(lease: .microseconds(1))
    _ = try deque.claim(lease: .seconds(1))
    #expect(try deque.popFirst() == nil)
    clock.advance(by: .milliseconds(2))
    #expect(try deque.popFirst() == "a")
    clock.advance(by: .seconds(2))
    #expect(try deque.popLast() == "b")
  }

  @Test func `A damaged state is made again from the elements`() throws {
    let deque = deque()
    try deque.push(contentsOf: ["a", "b"])
    let path = store.path
    store.close()
    let file = path + "/v1/g-1/data.mdb"
    let bytes = try TestFiles.contents(of: file)
    let pattern = Array("state".utf8) + [1, 0, 0, 0, 0, 0, 0, 0]
    var damages = 0
    for start in 0..<(bytes.count - pattern.count)
    where bytes[start] == pattern[0]
      && bytes[start..<(start + pattern.count)].elementsEqual(pattern)
    {
      try TestFiles.overwrite([99], at: start + 20, in: file)
      damages += 1
    }
    #expect(damages > 0)
    let again = SharedDeque<String>(storage: try SharedStore(at: path), name: "jobs")
    #expect(try again.popFirst() == "a")
    #expect(try again.claim(lease: .seconds(10))?.element == "b")
  }

  @Test func `A deque without its state is made again from its elements`() throws {
    let deque = deque()
    try deque.push(contentsOf: ["a", "b", "c"])
    let claim = try #require(try deque.claim(lease: .seconds(10)))
    let namespace = try store.namespace("deque/jobs")
    #expect(try namespace.remove(forKey: "state"))
    #expect(try deque.popFirst() == "a")
    #expect(try !claim.complete())
    #expect(try deque.popFirst() == "b" && deque.popFirst() == "c" && deque.popFirst() == nil)
    // Integers of another program, which no search between them passes over.
    let places = PersistentCache<Int, String>(storage: store, namespace: "deque/jobs")
    try namespace.remove(forKey: "state")
    for (place, text) in [(Int.min, "x"), (-(1 << 60), "f"), (1 << 60, "g"), (.max, "x")] {
      try places.setValue(text, forKey: place)
    }
    #expect(try deque.popFirst() == "f" && deque.popFirst() == "g" && deque.popLast() == nil)
    try deque.removeAll()
    // An element that was removed by its key is skipped.
    try deque.push(contentsOf: ["d", "e"])
    try places.removeValue(forKey: try #require(try places.keys().min()))
    #expect(try deque.popFirst() == "e")
  }

  @Test func `Wrong names, leases and states are typed errors`() throws {
    #expect(throws: StoreError.self) { try deque("").push("a") }
    #expect(throws: StoreError.self) { try deque(String(repeating: "x", count: 251)).count() }
    #expect(throws: StoreError.self) { try deque().claim(lease: .zero) }
    try store.setBytes([9, 9], forKey: "state", in: "deque/other")
    let error = #expect(throws: StoreError.self) { try deque("other").push("a") }
    #expect(error?.code == .newerFormat)
    let inside = #expect(throws: StoreError.self) {
      let deque = deque()
      try store.write { _ in try deque.push("a") }
    }
    #expect(inside?.code == .insideTransaction)
  }

  @Test func `A full store refuses an element and keeps the others`() throws {
    let small = try SharedStore(
      at: directory.path + "/small", .init(budget: .kilobytes(256)))
    let deque = SharedDeque<[UInt8]>(storage: small, name: "jobs")
    let element = [UInt8](repeating: 7, count: 10_000)
    var count = 0
    let error = #expect(throws: StoreError.self) {
      while count < 100 {
        try deque.push(element)
        count += 1
      }
    }
    #expect(error?.code == .pinLimitReached && count > 5)
    // What is not pinned does not push out elements.
    for key in 0..<100 { try small.setBytes(element, forKey: key) }
    // Elements can be claimed, moved to the failed ones, and back.
    let claims = try (0..<count).map { _ in try #require(try deque.claim(lease: .seconds(60))) }
    for claim in claims { try claim.fail() }
    #expect(try deque.status() == .init(waiting: 0, claimed: 0, failed: count))
    #expect(throws: StoreError.self) {
      try SharedDeque<Int>(storage: small, name: "jobs").failed.popFirst()
    }
    #expect(try deque.retryFailed() == count)
    for _ in 0..<count { #expect(try deque.popFirst() == element) }
    #expect(try deque.popFirst() == nil)
    #expect(try small.verify() == [])
  }

  @Test func `Counters and sets are never evicted`() throws {
    let small = try SharedStore(
      at: directory.path + "/small", .init(budget: .kilobytes(256)))
    let counter = SharedCounter(storage: small, name: "visits")
    let set = SharedSet<String>(storage: small, name: "seen")
    #expect(try counter.value() == 0 && counter.increment() == 1 && counter.increment(by: 4) == 5)
    #expect(try set.insert("a") && !set.insert("a") && set.insert("b"))
    for key in 0..<1000 { try small.setBytes([UInt8](repeating: 1, count: 2000), forKey: key) }
    #expect(try counter.value() == 5)
    #expect(try set.contains("a") && !set.contains("c") && set.count() == 2)
    #expect(try Set(set.elements()) == ["a", "b"])
    #expect(try set.remove("a") && !set.remove("a") && set.count() == 1)
    try counter.set(.max)
    let error = #expect(throws: StoreError.self) { try counter.increment() }
    #expect(error?.code == .overflow)
    try set.removeAll()
    #expect(try set.elements() == [] && set.count() == 0)
  }
}
