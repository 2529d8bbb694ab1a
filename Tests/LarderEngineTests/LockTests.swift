// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// Locks within one process, and the file `locks`.
@Suite(.timeLimit(.minutes(60))) struct LockTests {
  let directory: TemporaryDirectory
  let store: SharedStore
  var file: String { directory.appending("store/v1/locks") }

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.appending("store"))
  }

  /// Returns the code of the error that a function throws, or `nil`.
  func code(_ body: () throws -> Void) -> StoreError.Code? {
    do {
      try body()
      return nil
    } catch {
      return (error as? StoreError)?.code
    }
  }

  @Test func `A store that uses no lock has no lock file`() throws {
    try store.setBytes([1], forKey: "a")
    #expect(!TestFiles.exists(file))
    try store.lock("a").withLock { _ in }
    #expect(TestFiles.exists(file))
  }

  @Test func `Tokens of a name grow, also across reopening and without the file`() throws {
    var last: UInt64 = 0
    for round in 0..<6 {
      let store = try SharedStore(at: store.path)
      for _ in 0..<200 {
        let token = try store.lock("a").withLock { $0.token }
        #expect(token > last)
        last = token
      }
      store.close()
      if round > 1 {
        self.store.close()
        TestFiles.removeAll(file)
      }
    }
  }

  @Test func `A name is 1 to 250 bytes, and other lengths are errors`() throws {
    for name in ["", String(repeating: "x", count: 251), String(repeating: "é", count: 126)] {
      #expect(code { try store.lock(name).withLock { _ in } } == .invalidLockName)
    }
    #expect(code { try store.lock(String(repeating: "é", count: 125)).withLock { _ in } } == nil)
  }

  @Test func `Names that differ in one byte are different locks`() throws {
    let long = String(repeating: "n", count: 249)
    // The second and third are equal as strings, not as bytes.
    let names = [long + "a", "\u{e9}", "e\u{301}", long + "b", long, "a", "a\u{0}", "\u{0}"]
    func nest(_ rest: ArraySlice<String>) throws {
      guard let name = rest.first else { return }
      try store.lock(name).withLock(timeout: .zero) { _ in try nest(rest.dropFirst()) }
    }
    try nest(names[...])
  }

  @Test func `A thread that holds a lock gets an error at once when it waits for it`() throws {
    let lock = store.lock("a")
    let thread = JoinableThread { [self] in
      code { try lock.withLock { _ in try lock.withLock(timeout: .seconds(600)) { _ in } } }
    }
    #expect(thread.join() == .lockedByCaller)
    try lock.withLock(timeout: .zero) { _ in }
  }

  @Test func `A task that holds a lock gets an error at once when it waits for it`() async throws {
    let lock = store.lock("a")
    try await lock.withLock { _ in
      await #expect(throws: StoreError.self) {
        try await lock.withLock(timeout: .seconds(600)) { _ in }
      }
      #expect(code { try lock.withLock(timeout: .seconds(600)) { _ in } } == .lockedByCaller)
    }
    try await lock.withLock(timeout: .zero) { _ in }
  }

  @Test func `A wait in this process times out and names it`() async throws {
    let lock = store.lock("a")
    try await lock.withLock { _ in
      let waiter = Task.detached { try await lock.withLock(timeout: .milliseconds(20)) { _ in } }
      let error = await #expect(throws: StoreError.self) { try await waiter.value }
      #expect(error?.code == .lockTimeout && error?.pid == ProcessIdentity.pid)
      #expect(error?.process?.startTime == ProcessIdentity.startTime)
    }
    try await lock.withLock(timeout: .zero) { _ in }
  }

  @Test func `A cancelled task stops waiting at once, and its place is free`() async throws {
    let lock = store.lock("a")
    try await lock.withLock { _ in
      let waiter = Task.detached { try await lock.withLock(timeout: .seconds(86_400)) { _ in } }
      try await awaitEventually("the task waits") { try waiting("a") == 1 }
      waiter.cancel()
      await #expect(throws: CancellationError.self) { try await waiter.value }
      try await awaitEventually("the request is removed") { try waiting("a") == 0 }
    }
    try await lock.withLock(timeout: .zero) { _ in }
  }

  @Test func `Tasks that wait for a lock leave the threads of the pool free`() async throws {
    let lock = store.lock("a")
    let waiters = try await lock.withLock { _ in
      let waiters = (0..<100).map { _ in
        Task.detached {
          try await lock.withLock(timeout: .seconds(600)) { held async in held.token }
        }
      }
      // The tasks below run only if the threads are free.
      try await awaitEventually("all wait") { try waiting("a") == 100 }
      for number in 0..<10 { #expect(await Task.detached { number }.value == number) }
      return waiters
    }
    var tokens: Set<UInt64> = []
    for waiter in waiters { tokens.insert(try await waiter.value) }
    #expect(tokens.count == 100)
  }

  @Test func `Tasks get a lock in the order in which they began to wait`() async throws {
    let lock = store.lock("a")
    let order = Order()
    var waiters: [Task<Void, any Error>] = []
    try await lock.withLock { _ in
      for number in 0..<20 {
        waiters.append(
          Task.detached {
            try await lock.withLock(timeout: .seconds(600)) { _ in
              await order.add(number)
            }
          })
        try await awaitEventually("task \(number) waits") { try waiting("a") == number + 1 }
      }
    }
    for waiter in waiters { try await waiter.value }
    #expect(await order.numbers == Array(0..<20))
  }

  @Test func `A hundred tasks and eight threads never hold a lock at once`() async throws {
    let lock = store.lock("a")
    let tally = Tally()
    let threads = (0..<8).map { _ in
      JoinableThread {
        for _ in 0..<50 { try? lock.withLock(timeout: .seconds(600)) { _ in tally.pass() } }
        tally.ended.wrappingAdd(1, ordering: .releasing)
      }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<100 {
        group.addTask {
          for _ in 0..<5 {
            try await lock.withLock(timeout: .seconds(600)) { _ async in tally.pass() }
          }
        }
      }
      try await group.waitForAll()
    }
    try await awaitEventually("the threads end") { tally.ended.load(ordering: .acquiring) == 8 }
    for thread in threads { thread.join() }
    #expect(tally.most.load(ordering: .relaxed) == 1)
    #expect(tally.total.load(ordering: .relaxed) == 900)
  }

  @Test func `Closing the store ends waits with an error`() async throws {
    let other = try SharedStore(at: store.path)
    let lock = other.lock("a")
    try await store.lock("a").withLock { _ in
      let waiter = Task.detached { try await lock.withLock(timeout: .seconds(86_400)) { _ in } }
      try await awaitEventually("the task waits") { try waiting("a") == 1 }
      other.close()
      let error = await #expect(throws: StoreError.self) { try await waiter.value }
      #expect(error?.code == .closed)
    }
    #expect(code { try lock.withLock { _ in } } == .closed)
  }

  @Test func `A table full of names in use is an error, and unused names make room`() throws {
    for number in 0..<1023 { try store.lock("n\(number)").withLock { _ in } }
    // Names that are not in use are replaced.
    let first = try store.lock("held").withLock { held in
      try store.lock("n1024").withLock { _ in }
      try store.lock("n1025").withLock { _ in }
      #expect(held.isHeld)
      return held.token
    }
    #expect(try store.lock("held").withLock { $0.token } > first)
    @Sendable func hold(_ number: Int) throws {
      guard number < 1024 else {
        #expect(code { try store.lock("one more").withLock { _ in } } == .tooManyLocks)
        return
      }
      try store.lock("h\(number)").withLock { _ in try hold(number + 1) }
    }
    let thread = JoinableThread { Result { try hold(0) } }
    try thread.join().get()
  }

  private final class Tally: Sendable {
    let inside = Atomic<Int>(0)
    let most = Atomic<Int>(0)
    let total = Atomic<Int>(0)
    let ended = Atomic<Int>(0)

    func pass() {
      most.max(inside.wrappingAdd(1, ordering: .relaxed).newValue, ordering: .relaxed)
      total.wrappingAdd(1, ordering: .relaxed)
      inside.wrappingSubtract(1, ordering: .relaxed)
    }
  }

  private actor Order {
    private(set) var numbers: [Int] = []
    func add(_ number: Int) { numbers.append(number) }
  }

  /// The number of requests that wait for a lock of this process.
  private func waiting(_ name: String) throws -> Int {
    try store.locks().first { $0.name == name }?.waiters.count ?? 0
  }
}
