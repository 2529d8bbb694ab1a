// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

// The types are those of `Peer+Objects.swift`, under the same stored name.

private struct OldPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [Index<OldPerson>("name", \.name)]
}

private struct NewPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: Int
  static let storedName = "Person"
  static let schemaVersion = 2
  static let indexes = [
    Index<NewPerson>("name", \.name, unique: true), Index<NewPerson>("age", \.age),
  ]
}

/// A store of people in version 1 and programs that work on it.
private struct PeopleGround {
  /// The objects that no process changes. Objects of the editors are stored before them, copied
  /// long before the migration's end, and after them.
  static let still = 200..<6200
  let directory: TemporaryDirectory
  let path: String
  let store: ObjectStore

  init() throws {
    directory = try TemporaryDirectory()
    path = directory.appending("people")
    store = try ObjectStore(at: path, StoreOptions())
    try store.save(
      (0..<6400).map { OldPerson(id: $0, name: "n\($0)", age: "\($0)") })
  }

  func peer(environment: [String: String] = [:]) throws -> ChildProcess {
    let peer = try TestExecutable.peer.start(environment: environment)
    let answer = try peer.ask("people \(path)")
    try #require(answer == "opened", "\(answer)")
    return peer
  }

  /// Two old programs that change separate sets of objects.
  func editors(_ seed: Seed) throws -> [ChildProcess] {
    try [0, Self.still.upperBound].map { from in
      let editor = try peer()
      let random = seed.derived(UInt64(from + 1)).value >> 2
      try editor.send("edit \(from) 200 \(random)")
      return editor
    }
  }

  /// Checks that every unchanged object is there, migrated once and in order, and that the editors
  /// agree.
  func judge(_ editors: [ChildProcess], _ seed: Seed) throws {
    for editor in editors {
      let edited = try editor.nextLine().split(separator: " ")
      try #require(edited.count == 3 && edited[0] == "edited", "\(edited), \(seed)")
      #expect(edited[2] == "0", "\(edited), \(seed)")
      try editor.dismiss()
    }
    let people = try store.objects(NewPerson.self).fetch().filter { Self.still.contains($0.id) }
    let wanted = Self.still.map { NewPerson(id: $0, name: "n\($0)!", age: $0 + 1) }
    #expect(people == wanted, "\(seed)")
    #expect(try store.appliedMigrations() == ["two"], "\(seed)")
    #expect(try store.storage.verify() == [], "\(seed)")
    let all = try store.objects(NewPerson.self).fetch()
    let aged = try store.objects(NewPerson.self).where(\.age >= 0).fetch()
    #expect(Set(all.map(\.id)) == Set(aged.map(\.id)) && all.count == aged.count, "\(seed)")
  }
}

extension ProcessStorms {
  @Test(.timeLimit(.minutes(60)))
  func `Eight processes that start one migration at once apply it once`() throws {
    let seed = Seed.announce()
    let ground = try PeopleGround()
    let editors = try ground.editors(seed)
    let peers = try (0..<8).map { _ in try ground.peer() }
    for peer in peers { try peer.send("migrate meet") }
    try ProcessBarrier.release(peers)
    for peer in peers {
      let answer = try peer.nextLine()
      #expect(answer.hasPrefix("migrated "), "\(answer), \(seed)")
    }
    for peer in peers { try peer.dismiss() }
    try ground.judge(editors, seed)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A migration killed at random moments is gone on with, and nothing is lost`() throws {
    var kills = 0
    // A kill after the last step does not count, and on a busy machine many come there.
    for (number, trial) in Seed.announce().trials(80).enumerated() where number < 8 || kills < 4 {
      var random = trial.generator()
      let ground = try PeopleGround()
      let editors = try ground.editors(trial)
      var isDone = false
      while !isDone {
        let peers = try (0..<Int.random(in: 1...2, using: &random)).map { _ in try ground.peer() }
        for peer in peers { try peer.send("migrate loud") }
        let lines = Int.random(in: 0...2, using: &random)
        for _ in 0..<lines where !isDone {
          let line = try peers[0].nextLine()
          if line.hasPrefix("migrated") { isDone = true }
          #expect(line.hasPrefix("step ") || isDone, "\(line), \(trial)")
        }
        // Somewhere in the next transaction; on a busy machine a yield may be all of it.
        var spins = 1 << Int.random(in: 0...11, using: &random)
        while spins > 0 { spins -= sched_yield() == 0 ? 1 : 0 }
        for peer in peers {
          peer.kill()
          _ = try peer.wait()
        }
        // The last kill may have come after the last step.
        if try ground.store.appliedMigrations() == ["two"] { isDone = true }
        if !isDone { kills += peers.count }
      }
      try ground.judge(editors, trial)
    }
    #expect(kills >= 4)
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)), arguments: writingPoints)
  func `A migration killed at a point of the protocol is gone on with`(point: String) throws {
    let seed = Seed.announce()
    for occurrence in [1, 3, 6] {
      let ground = try PeopleGround()
      let editors = try ground.editors(seed)
      let victim = try ground.peer(
        environment: ["LARDER_FAULTS": "\(point):kill@\(occurrence)"])
      try victim.send("migrate")
      #expect(try victim.wait() == .signalled(SIGKILL))
      let next = try ground.peer()
      let answer = try next.ask("migrate")
      #expect(answer.hasPrefix("migrated "), "\(answer), \(point), \(seed)")
      try ground.judge(editors, seed)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Two versions of a program on one store never write past each other`() throws {
    let ground = try PeopleGround()
    let old = try ground.peer()
    let new = try ground.peer()
    // The newer program does not take what the older has stored for its own,
    #expect(try new.ask("newer 1").contains("[schemaMismatch]"))
    try old.order("older 1")
    #expect(try new.ask("migrate").hasPrefix("migrated "))
    // and the older does not write what it does not know.
    #expect(try old.ask("older 2").contains("[newerSchema]"))
    try new.order("newer 2")
    #expect(try ground.store.object(NewPerson.self, id: 1)?.name == "older 1!")
    #expect(try ground.store.object(NewPerson.self, id: 2)?.name == "newer 2")
    for peer in [old, new] { try peer.dismiss() }
  }

  /// With LARDER_PEOPLE=1000000, in a release build, this is the figure of the documentation.
  @Test(.timeLimit(.minutes(60)))
  func `A migration takes bounded memory, and others read at the same time`() throws {
    let wanted = unsafe getenv("LARDER_PEOPLE").map { unsafe String(cString: $0) }
    let count = wanted.flatMap { Int($0) } ?? 20_000
    let directory = try TemporaryDirectory()
    let path = directory.appending("people")
    let filler = try TestExecutable.peer.start()
    try filler.send("people \(path)")
    try filler.expect("opened")
    try filler.order("populate \(count)")
    try filler.dismiss()
    let store = try ObjectStore(at: path, StoreOptions())
    let peer = try TestExecutable.peer.start()
    try peer.send("people \(path)")
    try peer.expect("opened")
    let start = ContinuousClock.now
    try peer.send("measured")
    try peer.expect("held")
    var reads = 0
    func read() throws {
      let id = reads * 7919 % count
      let person = try store.object(OldPerson.self, id: id)
      #expect(person?.name == "n\(id)")
      reads += 1
    }
    // In the middle of the migration.
    for _ in 0..<100 { try read() }
    try peer.send("go")
    var answer: String?
    while answer == nil {
      // The old version until the last step, and then an error that reports the newer version.
      do {
        try read()
      } catch let error as ObjectError where error.code == .newerSchema {
        answer = try peer.nextLine()
      }
    }
    let words = try #require(answer).split(separator: " ")
    try #require(words.count == 3 && words[1] == "\(count)", "\(answer!)")
    print("migrated \(count) in \(ContinuousClock.now - start), \(words[2]) kB, \(reads) reads")
    #expect(Int(words[2])! < 64 << 10)
    #expect(try store.objects(NewPerson.self).count() == count)
    try peer.dismiss()
  }
}
