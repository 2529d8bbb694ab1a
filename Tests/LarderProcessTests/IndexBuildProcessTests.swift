// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

// The types are those of `Peer+Objects.swift`, under the same stored name.

private struct YoungPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [Index<YoungPerson>("name", \.name)]
}

private struct OldPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [
    Index<OldPerson>("name", \.name), Index<OldPerson>("age", \.age),
  ]
}

/// A store of people without an index on their age, and a process that builds it and is held after
/// its first step.
private struct BuildGround {
  static let count = 3500
  let directory: TemporaryDirectory
  let path: String
  let builder: ChildProcess

  init() throws {
    directory = try TemporaryDirectory()
    path = directory.appending("people")
    let store = try ObjectStore(at: path, StoreOptions())
    try store.save(
      (0..<Self.count).map { YoungPerson(id: $0, name: "n\($0)", age: "\($0 % 7)") })
    store.close()
    builder = try TestExecutable.peer.start()
    let answer = try builder.ask("people \(path)")
    try #require(answer == "opened", "\(answer)")
    try builder.send("index held")
    try builder.wait(for: "built 1000")
  }

  /// Opens the store here; `steps` receives what this process builds.
  func open(_ steps: StepLog) throws -> ObjectStore {
    try ObjectStore(
      at: path,
      StoreOptions(onEvent: { event in
        if case .indexBuilding(_, _, let done, _) = event { steps.append(done) }
      }))
  }

  func check(_ store: ObjectStore) throws {
    let people = store.objects(OldPerson.self).where(\.age == "3")
    #expect(try people.explain().hasPrefix("scan index \"age\""))
    #expect(try people.count() == Self.count / 7)
    #expect(try store.storage.verify() == [])
  }
}

private final class StepLog: Sendable {
  private let steps = Mutex<[Int]>([])
  var all: [Int] { steps.withLock { $0 } }
  func append(_ step: Int) { steps.withLock { $0.append(step) } }
}

@Suite struct IndexBuildProcessTests {
  @Test(.timeLimit(.minutes(60)))
  func `A build whose process is killed is continued by the next use in another`() throws {
    let ground = try BuildGround()
    ground.builder.kill()
    #expect(try ground.builder.wait() == .killed)
    let log = StepLog()
    let store = try ground.open(log)
    let people = store.objects(OldPerson.self).where(\.age == "3")
    #expect(try people.count() == BuildGround.count / 7)
    try store.prepare(OldPerson.self)
    // A step is reported after its commit, for which the call waits.
    try eventually("the last step is reported") { log.all.last == 3500 }
    #expect(log.all == [2000, 3000, 3500])
    try ground.check(store)
  }

  @Test(.timeLimit(.minutes(60)))
  func `One process builds while another waits for it and names it after the limit`() throws {
    for _ in 0..<30 {
      if try waitForBuilder() { return }
    }
    Issue.record("The builder was replaced each time.")
  }

  /// Waits for a builder that is held.
  ///
  /// - Returns: `false` if this process has replaced it. A builder that does nothing for two seconds is
  ///   replaced, and on a busy machine they pass before it continues.
  private func waitForBuilder() throws -> Bool {
    let ground = try BuildGround()
    let log = StepLog()
    let store = try ground.open(log)
    let people = store.objects(OldPerson.self).where(\.age == "3")
    let last = try people.explain().split(separator: "\n").last
    #expect(last == "index \"age\" is being built, 28 %")
    let result = Result { try store.prepare(OldPerson.self, within: .milliseconds(300)) }
    try ground.builder.send("go on")
    try store.prepare(OldPerson.self)
    if !log.all.isEmpty { return false }
    let error = #expect(throws: ObjectError.self) { try result.get() }
    #expect(error?.code == .buildTimeout)
    #expect(
      error?.message.contains("process \(ground.builder.processIdentifier)") == true,
      "\(error as Any)")
    try ground.check(store)
    return true
  }

  @Test(.timeLimit(.minutes(60)))
  func `A build whose process is stopped is taken over`() throws {
    let ground = try BuildGround()
    try ground.builder.stop()
    defer { ground.builder.kill(SIGCONT) }
    let log = StepLog()
    let store = try ground.open(log)
    try store.prepare(OldPerson.self)
    // As above.
    try eventually("the last step is reported") { log.all.last == 3500 }
    #expect(log.all == [2000, 3000, 3500])
    try ground.check(store)
  }
}
