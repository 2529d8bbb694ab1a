// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

// The types are those of `Peer+Objects.swift`, under the same stored names.

private struct Person: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [Index<Person>("name", \.name)]
}

private struct Team: Storable, Equatable {
  let id: Int
  @HasMany var members: [Person]
  static let storedName = "Team"
}

extension Processes {
  @Suite(.timeLimit(.minutes(60))) struct ObserverProcessTests {
    private let directory: TemporaryDirectory
    private let path: String
    private let store: ObjectStore

    init() throws {
      directory = try TemporaryDirectory()
      path = directory.appending("people")
      store = try ObjectStore(at: path)
    }

    private func peer() throws -> ChildProcess {
      let peer = try TestExecutable.peer.start()
      let answer = try peer.ask("people \(path)")
      try #require(answer == "opened", "\(answer)")
      return peer
    }

    @Test func `A query's changes name what another process did`() async throws {
      let peer = try peer()
      var changes = store.objects(Person.self).sorted(by: \.name).changes.makeAsyncIterator()
      #expect(try await changes.next()?.objects == [])
      try peer.order("older 2")
      #expect(try await changes.next()?.inserted.map(\.id) == [2])
      try peer.order("older 1")
      let second = try await changes.next()
      #expect(second?.inserted.map(\.id) == [1])
      #expect(second?.inserted.map(\.offset) == [0])
      // The peer saves an equal object: not delivered. A change by this process is.
      try peer.order("older 1")
      try await store.save(Person(id: 2, name: "a", age: "1"))
      let third = try await changes.next()
      #expect(third?.objects.map(\.id) == [2, 1])
      #expect(third?.updated.map(\.id) == [2])
      #expect(third?.moved.count == 1)
      try peer.dismiss()
    }

    @Test func `A query with children wakes when another process changes one of them`() async throws
    {
      let peer = try peer()
      try peer.order("team 1 3")
      let query = store.objects(Team.self).including(\.$members)
      var values = query.observe().makeAsyncIterator()
      #expect(try await values.next()?.first?.members.map(\.name) == ["t0", "t1", "t2"])
      #expect(try await query.fetch().first?.members.count == 3)
      try peer.order("older 1001")
      #expect(try await values.next()?.first?.members.map(\.name) == ["t0", "older 1001", "t2"])
      #expect(try await query.fetch().first?.members[1].name == "older 1001")
      try peer.dismiss()
    }

    @Test func `A cursor continues in another process, after inserts`() throws {
      let peer = try peer()
      try store.save((10..<40).map { Person(id: $0, name: "n\($0)", age: "1") })
      let query = store.objects(Person.self).sorted(by: \.name)
      let page = try query.page(size: 10)
      #expect(page.objects.map(\.id) == Array(10..<20))
      // Both are stored before the cursor.
      try store.save([Person(id: 1, name: "a", age: "1"), Person(id: 2, name: "n10", age: "1")])
      let answer = try peer.ask("page 5 \(try #require(page.next))")
      let words = answer.split(separator: " ")
      try #require(words.count == 7, "\(answer)")
      #expect(words[2...].map { Int($0) } == [20, 21, 22, 23, 24])
      let rest = try query.page(after: PageCursor(String(words[1])), size: 100)
      #expect(rest.objects.map(\.id) == Array(25..<40))
      #expect(rest.next == nil)
      try peer.dismiss()
    }

    @Test func `A snapshot never shows a part of what another process saves together`() throws {
      let peer = try peer()
      try peer.order("team 1 3")
      try peer.order("team 2 5")
      let (teams, people) = try store.read { snapshot in
        let people = try snapshot.count(Person.self)
        try peer.order("team 3 7")
        #expect(try store.objects(Person.self).count() == 15)
        let teams = try snapshot.fetch(store.objects(Team.self))
        return (teams.reduce(0) { $0 + $1.members.count }, people)
      }
      #expect(teams == 8 && people == 8)
      try peer.dismiss()
    }

    @Test
    func `A snapshot outlives its files, and the store inside of it fails instead of hanging`()
      throws
    {
      let peer = try peer()
      try store.save((0..<50).map { Person(id: $0, name: "n\($0)", age: "1") })
      let opened = try peer.ask("open \(path) durable")
      try #require(opened.hasPrefix("opened"), "\(opened)")
      try store.read { snapshot in
        try peer.order("compact")
        try peer.order("older 99")
        #expect(try snapshot.count(Person.self) == 50)
        #expect(try snapshot.object(Person.self, id: 49)?.name == "n49")
        #expect {
          try store.collection(Person.self).count()
        } throws: { error in
          (error as? StoreError)?.code == .generationReplacedDuringRead
        }
        #expect(try snapshot.fetch(store.objects(Person.self)).count == 50)
      }
      #expect(try store.collection(Person.self).count() == 51)
      try peer.dismiss()
    }

    @Test
    func `In a query's closure the store fails instead of hanging once its files are replaced`()
      throws
    {
      let peer = try peer()
      try store.save((0..<50).map { Person(id: $0, name: "n\($0)", age: "1") })
      let opened = try peer.ask("open \(path) durable")
      try #require(opened.hasPrefix("opened"), "\(opened)")
      let codes = Mutex<[StoreError.Code?]>([])
      let found = try store.objects(Person.self).filter { [store] person in
        if person.id == 7 {
          #expect(throws: Never.self) {
            try peer.order("compact")
            try peer.order("older 99")
          }
          for attempt in [
            { _ = try store.collection(Person.self).count() },
            { _ = try store.read { try $0.count(Person.self) } },
            { _ = try store.objects(Person.self).where(\.name == "n1").count() },
            { try store.save(Person(id: 100, name: "inside", age: "1")) },
          ] as [() throws -> Void] {
            do {
              try attempt()
              codes.withLock { $0.append(nil) }
            } catch {
              codes.withLock { $0.append((error as? StoreError)?.code) }
            }
          }
        }
        return person.id < 40
      }.fetch()
      #expect(found.count == 40)
      #expect(codes.withLock { $0 } == Array(repeating: .generationReplacedDuringRead, count: 4))
      #expect(try store.collection(Person.self).count() == 51)
      try peer.dismiss()
    }

    @Test func `A key's values follow another process, its removals and its expiry`() async throws {
      let clock = directory.appending("clock")
      let ground = try StoreFixture(
        StoreOptions(clock: ManualClock(sharedAt: clock).storeClock))
      let peer = try ground.peer("shared=\(clock)")
      var values = ground.numbers.values(forKey: 1).makeAsyncIterator()
      #expect(try await values.next() == .some(nil))
      try peer.order("set 1 one")
      #expect(try await values.next() == .some("one"))
      try peer.order("set 1 one")
      try peer.order("behind 1 two")
      #expect(try await values.next() == .some("two"))
      #expect(try peer.ask("remove 1") == "removed")
      #expect(try await values.next() == .some(nil))
      try peer.order("expiring 1 1700000005000 three")
      #expect(try await values.next() == .some("three"))
      try ManualClock(sharedAt: clock).advance(by: .seconds(5))
      #expect(try await values.next() == .some(nil))
      try peer.dismiss()
    }
  }
}
