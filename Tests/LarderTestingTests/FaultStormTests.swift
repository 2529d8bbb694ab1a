// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

// Children that run with a fault plan. The tests are about errors: wherever a step can fail, its
// caller gets a StoreError, nothing acknowledged is lost, and the store works again.

@Suite(.enabled(if: FaultPlan.isCompiledIn, needsFaults), .timeLimit(.minutes(60)))
struct FaultStormTests {
  private func peer(_ faults: FaultPlan.Fault..., seed: Seed? = nil) throws -> ChildProcess {
    let environment = try FaultPlan(faults, seed: seed).environment
    return try TestExecutable.peer.start(environment: environment)
  }

  private func order(_ child: ChildProcess, _ line: String) throws {
    try child.send(line)
    try child.expect("ok")
  }

  // MARK: Kill, stop, delay

  @Test func `A child is killed at the occurrence the plan names`() throws {
    let temporary = try TemporaryStore()
    let child = try peer(.kill(at: .afterCommit, occurrence: 3))
    #expect(try child.ask("open \(temporary.path)").hasPrefix("opened "))
    try child.send("numbers 0 1000")
    try child.wait(for: "ack 1")
    #expect(try child.wait() == .killed)
    #expect(try child.remainingLines() == [])
    let cache = PersistentCache<Int, String>(storage: temporary.store)
    #expect((0..<4).map { cache[$0] } == ["v0", "v1", "v2", nil])
    try temporary.verifyAndClose()
  }

  @Test func `A child stops itself, and continues when it is resumed`() throws {
    let temporary = try TemporaryStore()
    let child = try peer(.stop(at: .beforeCommit, occurrence: 2))
    #expect(try child.ask("open \(temporary.path)").hasPrefix("opened "))
    try order(child, "set 1 a")
    try child.send("set 2 b")
    try child.waitUntilStopped()
    let cache = PersistentCache<Int, String>(storage: temporary.store)
    #expect([cache[1], cache[2]] == ["a", nil])
    child.continue()
    try child.expect("ok")
    #expect(cache[2] == "b")
    try temporary.verifyAndClose()
  }

  @Test func `A delay is as long as in the plan`() throws {
    let temporary = try TemporaryStore()
    let child = try peer(.delay(at: .betweenPuts, microseconds: 200_000, occurrence: 2))
    #expect(try child.ask("open \(temporary.path)").hasPrefix("opened "))
    try order(child, "set 1 a")
    let start = ContinuousClock.now
    try order(child, "set 2 b")
    #expect(start.duration(to: .now) >= .milliseconds(200))
  }

  // MARK: Errors

  static let writingPoints: [FaultPlan.Point] = [
    .begin, .afterWriterLabel, .betweenPuts, .beforeStamps, .beforeCommit,
  ]

  @Test(arguments: writingPoints)
  func `A write that fails is an error, and nothing else is lost`(
    point: FaultPlan.Point
  ) throws {
    for (errno, code) in [(ENOSPC, "storageFull"), (EINVAL, "system")] {
      let temporary = try TemporaryStore(StoreOptions(durability: .durable))
      let child = try peer(.error(at: point, errno: errno, occurrence: 3))
      #expect(try child.ask("open \(temporary.path) durable").hasPrefix("opened "))
      let cache = PersistentCache<Int, String>(storage: temporary.store)
      try cache.setValue("old", forKey: 2)
      try order(child, "set 0 v0")
      try order(child, "set 1 v1")
      #expect(try child.ask("set 2 v2").hasPrefix("error \(code) "), "\(point)")
      #expect((0..<3).map { cache[$0] } == ["v0", "v1", "old"], "\(point)")
      #expect(try child.ask("get 2") == "value old", "\(point)")
      try order(child, "set 2 new")
      #expect(cache[2] == "new", "\(point)")
      cache.clearMemoryCache()
      #expect((0..<3).map { cache[$0] } == ["v0", "v1", "new"], "\(point)")
      #expect(try child.ask("verify") == "sound", "\(point)")
      try temporary.verifyAndClose()
    }
  }

  @Test(arguments: writingPoints)
  func `A cache that gets a full disk once makes room and continues`(
    point: FaultPlan.Point
  ) throws {
    let temporary = try TemporaryStore()
    let child = try peer(.error(at: point, errno: ENOSPC, occurrence: 3))
    #expect(try child.ask("open \(temporary.path)").hasPrefix("opened "))
    for key in 0..<3 { try order(child, "set \(key) v\(key)") }
    // The last written value is there; the rest may have been evicted to make room for it.
    #expect(try child.ask("get 2") == "value v2", "\(point)")
    let cache = PersistentCache<Int, String>(storage: temporary.store)
    #expect(cache[2] == "v2", "\(point)")
    try temporary.verifyAndClose()
  }

  @Test func `A failing commit without a waiting caller is reported to onError`() async {
    await #expect(processExitsWith: .success) {
      setEnvironment(FaultPlan([.error(at: .beforeCommit, errno: EINVAL)]))
      let errors = ErrorList()
      let temporary = try TemporaryStore(
        StoreOptions(onError: { errors.add($0) }))
      let cache = PersistentCache<Int, String>(storage: temporary.store)
      cache[1] = "lost"
      try? cache.sync()
      // The thread that led the commit makes the call after it has ended the wait of `sync()`.
      try await awaitEventually("the error is reported") { !errors.codes.isEmpty }
      #expect(errors.codes == [.system])
      #expect(cache[1] == nil)
    }
  }

  @Test func `A value whose write is being committed is visible to every reader`() async {
    await #expect(processExitsWith: .success) {
      setEnvironment(FaultPlan([.delay(at: .betweenPuts, microseconds: 100_000)]))
      let temporary = try TemporaryStore()
      let cache = PersistentCache<Int, String>(storage: temporary.store)
      for value in ["there", nil] {
        cache[1] = value
        let end = ContinuousClock.now + .milliseconds(150)
        while ContinuousClock.now < end {
          let answers = [try cache.contains(1), cache[1] != nil]
          guard answers == [value != nil, value != nil] else {
            Issue.record("contains and get say \(answers) of \(value ?? "nothing")")
            return
          }
        }
      }
    }
  }

  @Test func `Making the store dirty and evicting may fail like any write`() throws {
    let temporary = try TemporaryStore(StoreOptions(budget: .bytes(4096)))
    try temporary.store.setBytes([1], forKey: "first")
    temporary.store.close()
    let evicting = try peer(.error(at: .afterEviction, errno: EINVAL, occurrence: 1))
    #expect(try evicting.ask("open \(temporary.path)").hasPrefix("opened "))
    var failed = 0
    for key in 0..<100 where try evicting.ask("set \(key) value") != "ok" { failed += 1 }
    #expect(failed == 1)
    #expect(try evicting.ask("verify") == "sound")
    try order(evicting, "close")
    // The last user closed the store, so it is clean: the next write has to mark it as in use.
    let dirtying = try peer(.error(at: .stateDirty, errno: EINVAL, occurrence: 1))
    #expect(try dirtying.ask("open \(temporary.path)").hasPrefix("opened "))
    #expect(try dirtying.ask("set 1000 a").hasPrefix("error system "))
    try order(dirtying, "set 1000 b")
    #expect(try dirtying.ask("get 1000") == "value b")
    #expect(try dirtying.ask("verify") == "sound")
  }

  @Test(arguments: FaultPlan.Point.allCases.filter { $0.canFail && $0.rawValue.contains("open") })
  func `An opening that fails is an error, and loses nothing`(point: FaultPlan.Point) throws {
    for durable in ["", " durable"] {
      let temporary = try TemporaryDirectory()
      let path = temporary.appending("store")
      let isCreation =
        [.openGenerationBuilt, .openGenerationRenamed, .openCurrentWritten].contains(point)
      if !isCreation {
        let creator = try peer()
        #expect(try creator.ask("open \(path)\(durable)").hasPrefix("opened "))
        try order(creator, "set 1 kept")
        try order(creator, "close")
      }
      let child = try peer(.error(at: point, errno: EMFILE))
      for _ in 0..<4 {
        let answer = try child.ask("open \(path)\(durable)")
        if isCreation && answer.hasPrefix("opened ") { continue }
        #expect(answer.hasPrefix("error system "), "\(point): \(answer)")
      }
      let next = try peer()
      #expect(try next.ask("open \(path)\(durable)") == "opened 1", "\(point)")
      if !isCreation { #expect(try next.ask("get 1") == "value kept", "\(point)") }
      try order(next, "set 2 new")
      #expect(try next.ask("verify") == "sound", "\(point)")
    }
  }

  @Test func `A read that fails is an error, and the next one succeeds`() throws {
    let temporary = try TemporaryStore()
    let cache = PersistentCache<Int, String>(storage: temporary.store)
    try cache.setValue("here", forKey: 1)
    let child = try peer(.error(at: .afterRenew, errno: EINVAL, percent: 50), seed: Seed(1))
    try eventually("the store is opened") {
      try child.ask("open \(temporary.path)").hasPrefix("opened ")
    }
    var failed = 0
    for _ in 0..<200 {
      // Each of these goes to the store: a commit of ours forbids what the child has in memory.
      try cache.setValue("here", forKey: 1)
      let answer = try child.ask("get 1")
      if answer.hasPrefix("error system ") { failed += 1 } else { #expect(answer == "value here") }
    }
    #expect((60...140).contains(failed))
    #expect(try temporary.store.statistics().readers < 20)
    try temporary.verifyAndClose()
  }

  @Test(arguments: [FaultPlan.Point.leaseTaken, .leaseRegistered, .leaseBeforeFill])
  func `A computation whose step fails leaves no lock`(point: FaultPlan.Point) async {
    await #expect(processExitsWith: .success) { [point = point.rawValue as String] in
      let point = FaultPlan.Point(rawValue: point)
      setEnvironment(FaultPlan([.error(at: point, errno: EINVAL, occurrence: 1)]))
      let errors = ErrorList()
      let temporary = try TemporaryStore(StoreOptions(onError: { errors.add($0) }))
      let cache = PersistentCache<Int, String>(storage: temporary.store)
      if point == .leaseBeforeFill {
        // The value is right even if it cannot be kept.
        #expect(try await cache.value(forKey: 1) { "first" } == "first")
        // The caller may have its value before the computation has ended.
        try await awaitEventually("the error is reported") { !errors.codes.isEmpty }
        #expect(errors.codes.allSatisfy { $0 == .system })
      } else {
        await #expect(throws: StoreError.self) {
          try await cache.value(forKey: 1) { "first" }
        }
      }
      try await awaitEventually("a value is computed again") {
        try await cache.value(forKey: 1) { "second" } == "second"
      }
      try await awaitEventually("it is stored") { try await cache.value(forKey: 1) == "second" }
      #expect(try await cache.value(forKey: 1) { "third" } == "second")
      try temporary.verifyAndClose()
    }
  }

  @Test func `A closing that cannot synchronise keeps everything`() throws {
    let temporary = try TemporaryStore(StoreOptions(durability: .durable))
    temporary.store.close()
    let child = try peer(.error(at: .closeGateTaken))
    #expect(try child.ask("open \(temporary.path) durable").hasPrefix("opened "))
    try order(child, "set 1 kept")
    try order(child, "close")
    let cache = PersistentCache<Int, String>(storage: try temporary.reopen())
    #expect(cache[1] == "kept")
    try temporary.verifyAndClose()
  }

  @Test func `Whatever is called, a failing transaction is a StoreError`() async {
    await #expect(processExitsWith: .success) {
      let full = FaultPlan([.error(at: .begin, errno: ENOSPC)])
      setEnvironment(full)
      let temporary = try TemporaryStore(StoreOptions(durability: .durable))
      let store = temporary.store
      let cache = PersistentCache<Int, String>(storage: store)
      let calls: [(String, () throws -> Void)] = [
        ("setBytes", { try store.setBytes([1], forKey: 1) }),
        ("remove", { try store.remove(forKey: 1) }),
        ("setValue", { try cache.setValue("a", forKey: 1) }),
        ("write", { try store.write { try $0.setBytes([1], forKey: 1) } }),
        ("removeAll", { try store.removeAll(in: "a") }),
        ("removeExpired", { try store.removeExpired() }),
      ]
      for (name, call) in calls {
        let error = #expect(throws: StoreError.self, "\(name)") { try call() }
        #expect(error?.code == .storageFull, "\(name)")
      }
    }
  }

  // MARK: Chance

  @Test func `A seed repeats what percentages pick`() throws {
    func outcomes(_ seed: Seed) throws -> [Bool] {
      let temporary = try TemporaryStore()
      let child = try peer(.error(at: .begin, errno: EINVAL, percent: 50), seed: seed)
      #expect(try child.ask("open \(temporary.path)").hasPrefix("opened "))
      return try (0..<64).map { try child.ask("set \($0) v") == "ok" }
    }
    let first = try outcomes(Seed(7))
    #expect(try outcomes(Seed(7)) == first)
    #expect(try outcomes(Seed(8)) != first)
    #expect((12...52).contains(first.count { $0 }))
  }
}

// MARK: - In separate processes

private func setEnvironment(_ plan: FaultPlan) {
  unsafe setenv(FaultPlan.variable, plan.description, 1)
}

/// The errors that a store reported to `onError`.
private final class ErrorList: Sendable {
  private let errors = Mutex<[any Error]>([])

  func add(_ error: any Error) { errors.withLock { $0.append(error) } }

  var codes: [StoreError.Code?] {
    errors.withLock { $0.map { ($0 as? StoreError)?.code } }
  }
}
