// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Objects, in a program that declares two versions of a type.
//
//   people PATH          opens a store of objects -> opened
//   migrate [loud] [meet]
//                        migrates to version 2; `loud`: prints `step DONE` after each step, `meet`:
//                        prints `ready` and begins after `go` -> migrated OBJECTS
//   populate COUNT       saves COUNT objects of version 1 -> ok
//   measured             migrates to version 2; prints `held` in the first step and waits for a line
//                              -> measured OBJECTS KILOBYTES (the peak private memory
//                        of the process during that, minus the amount before)
//   edit FROM COUNT SEED the old program: changes, deletes, saves again and reads its objects
//                        until an error reports a newer schema; then checks that version 2 has
//                        the acknowledged objects -> edited WRITES MISTAKES
//   newer ID             saves an object of version 2 -> ok
//   numbered PATH ID     saves an object of version 1 with an age that is a number, in a store that
//                        is opened to erase what does not fit -> numbered CODE ERASED, where CODE is
//                        `ok` or that of the error
//   older ID             saves an object of version 1 -> ok
//   page SIZE [CURSOR]   a page of the people of version 1 by name -> page CURSOR|end IDS
//   index [held]         queries a form of version 1 that declares one index more, which starts its
//                        build: prints `built DONE` after each step; `held`: the build waits after the
//                        first for `go on` -> indexing
//   indexed              waits until the index is complete -> ok
//   go on                lets a held build continue -> ok
//   raise ID COUNT       adds one to the age of a person of version 2, COUNT times, each time by a
//                        versioned read and a save that is repeated after a conflict
//                        -> raised CONFLICTS
//   side plain|aged FROM COUNT SEED
//                        saves and deletes random people of version 1 until it is killed, as a
//                        program that declares the index on the age, or as one that does not:
//                        prints `wrote` after every tenth transaction
//   team ID COUNT        saves a team of new people of version 1, in one transaction -> ok

import LarderEngine
import LarderObjects
import LarderSystem
import LarderTesting
import Synchronization

struct PersonV1: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [Index<PersonV1>("name", \.name)]
}

/// The same version, and an index that was declared later.
struct AgedPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [
    Index<AgedPerson>("name", \.name), Index<AgedPerson>("age", \.age),
  ]
}

struct PersonV2: Storable, Equatable {
  let id: Int
  var name: String
  var age: Int
  static let storedName = "Person"
  static let schemaVersion = 2
  static let indexes = [
    Index<PersonV2>("name", \.name, unique: true), Index<PersonV2>("age", \.age),
  ]

  init(id: Int, name: String, age: Int) {
    self.id = id
    self.name = name
    self.age = age
  }

  /// Doing it twice shows.
  init(_ old: PersonV1) { self.init(id: old.id, name: old.name + "!", age: Int(old.age)! + 1) }
}

/// The number of erased objects.
private final class Tally: Sendable {
  let erased = Atomic<Int>(0)
}

/// The same version, with a contradictory declaration.
struct NumberedPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: Int
  static let storedName = "Person"
}

/// Some people: an object with children.
struct Team: Storable, Equatable {
  let id: Int
  @HasMany var members: [PersonV1]
  static let storedName = "Team"
}

extension Peer {
  var objects: ObjectStore {
    get throws { try openedObjects ?? refuse("open a store of objects first") }
  }

  func people(_ command: String, _ words: [Substring]) throws -> String {
    switch command {
    case "people":
      openedObjects = try ObjectStore(
        at: String(words[0]), StoreOptions(onEvent: { BuildHold.shared.receive($0) }))
      return "opened"
    case "index":
      BuildHold.shared.start(isHeld: words.contains("held"))
      _ = try objects.objects(AgedPerson.self).where(\.age == "1").count()
      return "indexing"
    case "indexed":
      try objects.prepare(AgedPerson.self)
      return "ok"
    case "go":
      BuildHold.shared.release()
      return "ok"
    case "migrate":
      if words.contains("meet"), !ProcessBarrier.arrive() {
        return try refuse("no go from the parent")
      }
      return try migrate(isLoud: words.contains("loud"))
    case "populate":
      let count = try number(words[0])
      for from in stride(from: 0, to: count, by: 1000) {
        try objects.save(
          (from..<min(from + 1000, count)).map { PersonV1(id: $0, name: "n\($0)", age: "\($0)") })
      }
      return "ok"
    case "measured": return try measured()
    case "edit":
      var editor = PeopleEditor(
        store: try objects, from: try number(words[0]), count: try number(words[1]),
        random: SeededRandom(seed: UInt64(try number(words[2]))))
      return try editor.run()
    case "newer":
      try objects.save(PersonV2(id: number(words[0]), name: "newer \(words[0])", age: 1))
      return "ok"
    case "older":
      try objects.save(PersonV1(id: number(words[0]), name: "older \(words[0])", age: "1"))
      return "ok"
    case "numbered":
      let tally = Tally()
      var options = StoreOptions(onEvent: { event in
        guard case .objectsErased(_, let count, _) = event else { return }
        tally.erased.store(count, ordering: .relaxed)
      })
      options.erasesOnSchemaChange = true
      let store = try ObjectStore(at: String(words[0]), options)
      var code = "ok"
      do {
        try store.save(NumberedPerson(id: number(words[1]), name: "n", age: 1))
      } catch let error as ObjectError {
        code = error.code.rawValue
      }
      return "numbered \(code) \(tally.erased.load(ordering: .relaxed))"
    case "page":
      let page = try objects.objects(PersonV1.self).sorted(by: \.name).page(
        after: words.count > 1 ? PageCursor(String(words[1])) : nil, size: number(words[0]))
      let ids = page.objects.map { "\($0.id)" }.joined(separator: " ")
      return "page \(page.next?.description ?? "end") \(ids)"
    case "side":
      var random = SeededRandom(seed: UInt64(try number(words[3])))
      try side(words[0] == "aged", number(words[1]), number(words[2]), &random)
    case "raise": return try raise(number(words[0]), times: number(words[1]))
    case "team":
      let (id, count) = (try number(words[0]), try number(words[1]))
      try objects.save(
        Team(
          id: id,
          members: (0..<count).map {
            PersonV1(id: 1000 * id + $0, name: "t\($0)", age: "1")
          }))
      return "ok"
    default: return try notes(command, words)
    }
  }

  private func measured() throws -> String {
    let before = ownMemory
    var most = before
    var isHeld = true
    let steps = [ObjectMigration.objects("two") { (old: PersonV1) in PersonV2(old) }]
    let reports = try objects.migrate(steps) { _ in
      most = max(most, ownMemory)
      guard isHeld else { return }
      isHeld = false
      ParentProcess.send("held")
      _ = ParentProcess.nextLine()
    }
    return "measured \(reports[0].objects) \(most - before)"
  }

  /// Memory that belongs to this process alone, in kilobytes: without the pages of files.
  private var ownMemory: Int {
    guard let bytes = try? TestFiles.contents(of: "/proc/self/status") else { return 0 }
    let line = String(decoding: bytes, as: UTF8.self).split(separator: "\n").first {
      $0.hasPrefix("RssAnon:")
    }
    return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0
  }

  private func side(
    _ isAged: Bool, _ from: Int, _ count: Int, _ random: inout SeededRandom
  ) throws -> Never {
    var writes = 0
    while true {
      let ids = (0..<Int.random(in: 1...3, using: &random)).map { _ in
        Int.random(in: from..<from + count, using: &random)
      }
      let age = "\(Int.random(in: 0..<7, using: &random))"
      if random.chance(20) {
        try objects.delete(PersonV1.self, ids: ids)
      } else if isAged {
        try objects.save(ids.map { AgedPerson(id: $0, name: "n", age: age) })
      } else {
        try objects.save(ids.map { PersonV1(id: $0, name: "n", age: age) })
      }
      writes += 1
      if writes % 10 == 0 { ParentProcess.send("wrote") }
    }
  }

  private func raise(_ id: Int, times: Int) throws -> String {
    var conflicts = 0
    for _ in 0..<times {
      var isSaved = false
      while !isSaved {
        guard let read = try objects.versionedObject(PersonV2.self, id: id) else {
          return try refuse("no person \(id)")
        }
        var person = read.object
        person.age += 1
        do {
          try objects.save(person, ifUnchangedSince: read.version)
          isSaved = true
        } catch is ObjectConflict<PersonV2> {
          conflicts += 1
        }
      }
    }
    return "raised \(conflicts)"
  }

  private func migrate(isLoud: Bool) throws -> String {
    let steps = [ObjectMigration.objects("two") { (old: PersonV1) in PersonV2(old) }]
    let reports = try objects.migrate(steps) { progress in
      if isLoud { ParentProcess.send("step \(progress.done)") }
    }
    return "migrated \(reports[0].objects)"
  }
}

/// Reports the steps of an index build, and holds it.
private final class BuildHold: Sendable {
  static let shared = BuildHold()
  private let isLoud = Atomic<Bool>(false)
  private let isHeld = Atomic<Bool>(false)
  private let released = Event()

  func start(isHeld: Bool) {
    self.isHeld.store(isHeld, ordering: .relaxed)
    isLoud.store(true, ordering: .releasing)
  }

  func release() { released.set() }

  func receive(_ event: StoreEvent) {
    guard case .indexBuilding(_, _, let done, _) = event, isLoud.load(ordering: .acquiring) else {
      return
    }
    ParentProcess.send("built \(done)")
    if isHeld.load(ordering: .relaxed) { released.wait() }
  }
}

/// The old program, and what it must find again.
private struct PeopleEditor {
  let store: ObjectStore
  let from: Int
  let count: Int
  var random: SeededRandom
  private var expected: [Int: PersonV1] = [:]
  private var writes = 0
  private var mistakes = 0

  init(store: ObjectStore, from: Int, count: Int, random: SeededRandom) {
    self.store = store
    self.from = from
    self.count = count
    self.random = random
  }

  mutating func run() throws -> String {
    for id in from..<from + count { expected[id] = try store.object(PersonV1.self, id: id) }
    do {
      while true { try edit() }
    } catch let error as ObjectError where error.code == .newerSchema {
      try judge()
    }
    return "edited \(writes) \(mistakes)"
  }

  private mutating func edit() throws {
    let id = Int.random(in: from..<from + count, using: &random)
    if random.chance(50) {
      if try store.object(PersonV1.self, id: id) != expected[id] { mistakes += 1 }
      return
    }
    if random.chance(30) {
      if try store.delete(PersonV1.self, id: id) != (expected[id] != nil) { mistakes += 1 }
      expected[id] = nil
    } else {
      let person = PersonV1(id: id, name: "edited \(id) \(writes)", age: "\(writes)")
      try store.save(person)
      expected[id] = person
    }
    writes += 1
  }

  private mutating func judge() throws {
    for id in from..<from + count {
      let found = try store.object(PersonV2.self, id: id)
      if found != expected[id].map(PersonV2.init) { mistakes += 1 }
      let named = store.objects(PersonV2.self).where(\.name == (expected[id]?.name ?? "") + "!")
      if try named.fetch() != (found.map { [$0] } ?? []) { mistakes += 1 }
    }
  }
}
