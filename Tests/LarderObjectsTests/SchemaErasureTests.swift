// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

private struct TextBoat: Storable, Equatable {
  let id: Int
  var length: String
  static let storedName = "Boat"
}

private struct NumberBoat: Storable, Equatable {
  let id: Int
  var length: Int
  static let storedName = "Boat"
}

private struct NewerBoat: Storable, Equatable {
  let id: Int
  var length: Int
  var mast: Double
  static let storedName = "Boat"
  static let schemaVersion = 2
  static let indexes = [Index<NewerBoat>("length", \.length, unique: true)]
}

private final class EventLog: Sendable {
  private let events = Mutex<[StoreEvent]>([])
  func append(_ event: StoreEvent) { events.withLock { $0.append(event) } }
  var erased: [Int] {
    events.withLock { $0 }.compactMap { event in
      if case .objectsErased("Boat", let count, _) = event { count } else { nil }
    }
  }
}

private final class Flag: Sendable {
  private let flag = Atomic<Bool>(false)
  var isSet: Bool { flag.load(ordering: .acquiring) }
  func set() { flag.store(true, ordering: .releasing) }
}

@Suite struct SchemaErasureTests {
  private let boats = (0..<5).map { TextBoat(id: $0, length: "\($0)") }

  private func options(_ log: EventLog) -> StoreOptions {
    var options = StoreOptions(onEvent: { log.append($0) })
    options.erasesOnSchemaChange = true
    return options
  }

  @Test(.timeLimit(.minutes(60)))
  func `With the option, a save, a preparation or a read erases objects that do not fit`() throws {
    let uses: [@Sendable (ObjectStore) throws -> Void] = [
      { try $0.save(NumberBoat(id: 9, length: 9)) },
      { store in
        let found = try store.objects(NumberBoat.self).fetch()
        #expect(found == [])
      },
      { store in
        let found = try store.object(NumberBoat.self, id: 1)
        #expect(found == nil)
      },
      { store in
        let count = try store.collection(NumberBoat.self).count()
        #expect(count == 0)
      },
      { try $0.prepare(NewerBoat.self) },
      { store in
        let found = try store.objects(NewerBoat.self).where(\.length == 1).fetch()
        #expect(found == [])
      },
      { try $0.save(NewerBoat(id: 9, length: 9, mast: 1)) },
    ]
    for use in uses {
      let directory = try TemporaryDirectory()
      let (path, log) = (directory.appending("boats"), EventLog())
      let store = try ObjectStore(at: path, options(log))
      // Another handle, as a program that ran before.
      let before = try ObjectStore(at: path, StoreOptions())
      try before.save(boats)
      try before.save(PlainBook(id: 1, title: "kept"))
      // A transaction that is rolled back erases nothing.
      struct Undo: Error {}
      #expect(throws: Undo.self) {
        try store.write { transaction in
          try transaction.save(NumberBoat(id: 1, length: 1))
          throw Undo()
        }
      }
      #expect(log.erased == [])
      #expect(try before.objects(TextBoat.self).fetch() == boats)
      try use(store)
      #expect(log.erased == [5])
      #expect(try store.objects(PlainBook.self).count() == 1)
      #expect(try store.storage.verify() == [])
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A failing transaction of another thread takes no event of an erasure with it`() throws {
    struct Undo: Error {}
    for round in 0..<20 {
      let directory = try TemporaryDirectory()
      let (path, log) = (directory.appending("boats"), EventLog())
      let store = try ObjectStore(at: path, options(log))
      // Another handle, as a program that ran before. The first handle has the events.
      let before = try ObjectStore(at: path, StoreOptions())
      try before.save(boats)
      let isOver = Flag()
      let failing = (0..<2).map { _ in
        JoinableThread {
          while !isOver.isSet { try? store.write { _ in throw Undo() } }
        }
      }
      try store.save(NumberBoat(id: 1, length: 1))
      isOver.set()
      for thread in failing { thread.join() }
      #expect(log.erased == [5], "round \(round)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Running programs do not erase each other's objects in turns`() throws {
    let directory = try TemporaryDirectory()
    let (path, log) = (directory.appending("boats"), EventLog())
    let older = try ObjectStore(at: path, options(log))
    let newer = try ObjectStore(at: path, options(log))
    try older.save(boats)
    try newer.save(NumberBoat(id: 1, length: 1))
    for _ in 0..<3 {
      for attempt in [
        { try older.save(TextBoat(id: 1, length: "1")) },
        { _ = try older.objects(TextBoat.self).fetch() },
      ] {
        let error = #expect(throws: ObjectError.self, performing: attempt)
        #expect(error?.code == .schemaMismatch)
      }
      try newer.save(NumberBoat(id: 2, length: 2))
    }
    #expect(log.erased == [5])
    // A program that has only read erases once.
    let reader = try ObjectStore(at: path, options(log))
    #expect(try reader.objects(TextBoat.self).fetch() == [])
    let last = try ObjectStore(at: path, options(log))
    try last.save(NumberBoat(id: 3, length: 3))
    #expect(throws: ObjectError.self) { try reader.objects(TextBoat.self).fetch() }
    #expect(log.erased == [5, 2])
    #expect(try last.objects(NumberBoat.self).fetch() == [NumberBoat(id: 3, length: 3)])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Objects of a newer version are never erased, and without the option none are`() throws {
    let directory = try TemporaryDirectory()
    let (path, log) = (directory.appending("boats"), EventLog())
    let store = try ObjectStore(at: path, options(log))
    try store.save(NewerBoat(id: 1, length: 1, mast: 2))
    let older = try ObjectStore(at: path, options(log))
    for attempt in [
      { try older.save(boats) }, { _ = try older.objects(TextBoat.self).fetch() },
      { try older.prepare(TextBoat.self) },
    ] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .newerSchema)
    }
    #expect(log.erased == [])
    #expect(try store.objects(NewerBoat.self).count() == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `The error of a mismatch shows the difference and the migration to write`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(boats)
    let same = #expect(throws: ObjectError.self) {
      try ground.store.save(NumberBoat(id: 1, length: 1))
    }
    let newer = #expect(throws: ObjectError.self) {
      try ground.store.objects(NewerBoat.self).fetch()
    }
    for (error, type) in [(same, "NumberBoat"), (newer, "NewerBoat")] {
      let message = try #require(error?.message)
      #expect(message.contains("stored length: text, declared length: integer"), "\(message)")
      for line in [
        "struct \(type)V1: Storable {", "    let id: Int", "    var length: String",
        "    static let storedName = \"Boat\"", "    static let schemaVersion = 1",
        "  let step = Migration<\(type)V1, \(type)>(\"Boat 2\") { old in",
      ] { #expect(message.contains(line), "\(message)") }
    }
    #expect(same?.message.contains("set schemaVersion to 2 and migrate:") == true)
    #expect(newer?.message.contains("To keep the objects, migrate:") == true)
    #expect(try ground.store.objects(TextBoat.self).fetch() == boats)
  }
}
