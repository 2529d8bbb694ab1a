// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderArchive
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

@Suite struct CacheManagerTests {
  private let people = [
    User(name: "Ada", age: 36, city: "London", tags: ["a", "b"]),
    User(name: "Bob", age: 20, tags: ["b"]),
    User(name: "Cyd", age: 50, city: "Paris"),
    User(name: "Dan", age: 20, city: "London", tags: ["a", "b", "c"]),
  ]

  private func users(_ ground: borrowing StoreFixture) throws -> CacheManager<User> {
    let users = try CacheManager<User>(ground.store, maxSize: 100.kilobytes)
    users.insert(all: people)
    return users
  }

  @Test(.timeLimit(.minutes(60)))
  func `What NamadaNativefier does with a manager is done`() throws {
    let ground = try StoreFixture()
    let users = try users(ground)
    #expect(users.getAll() == people)
    #expect(users.getAll(limitedBy: 2) == Array(people.prefix(2)))
    #expect(users.get(objectWithKey: "Ada") == people[0])
    #expect(users.get(objectWithKey: "Eve") == nil)
    users.update(User(name: "Bob", age: 21))
    #expect(users.get(objectWithKey: "Bob")?.age == 21)
    users.delete(objectWithKey: "Bob")
    users.delete(people[2])
    #expect(users.getAll() == [people[0], people[3]])
    #expect(users.maxSize == 102_400 && users.currentSize > 0 && users.currentSize < 1000)
    let time = try #require(users.latestAccessedTime(for: "Ada"))
    #expect(abs(time.timeIntervalSinceNow) < 600)
    users.clear()
    #expect(users.getAll() == [] && users.currentSize == 0)
    #expect(try ground.shared.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Each validator of NamadaNativefier and of Vellum gives its original result`() throws {
    let ground = try StoreFixture()
    let users = try users(ground)
    func names(_ finder: QueryFinder<User>) -> String {
      finder.getResults().map { String($0.name.prefix(1)) }.joined()
    }
    let find = users.findWhere
    #expect(names(find.city(isNil())) == "B")
    #expect(names(find.city(isNotNil())) == "ACD")
    // A property that is not optional is never nil.
    #expect(names(find.name(isNotNil())) == "ABCD")
    #expect(names(find.age(isNil())) == "")
    #expect(names(find { $0.age(.isNotNil()).tags(.isNotNil()) }) == "ABCD")
    #expect(names(find { $0.name(.isNil()) }) == "")
    #expect(names(find.name(contains(with: "d"))) == "AC")
    #expect(names(find.name(contains("an"))) == "D")
    #expect(names(find.tags(contains("a"))) == "AD")
    #expect(names(find.tags(contains(atLeastOne: ["c", "x"]))) == "D")
    #expect(names(find.tags(contains(all: ["a", "b"]))) == "AD")
    #expect(names(find.name(matches(withRegex: "^[AB]"))) == "AB")
    #expect(names(find.tags(countEqual(with: 1))) == "B")
    #expect(names(find.tags(countGreater(than: 1))) == "AD")
    #expect(names(find.tags(countLess(than: 1))) == "C")
    #expect(names(find.tags(countGreaterThanOrEqual(with: 2))) == "AD")
    #expect(names(find.tags(countLessThanOrEqual(with: 1))) == "BC")
    #expect(names(find.age(equal(with: 20))) == "BD")
    #expect(names(find.age(notEqual(with: 20))) == "AC")
    #expect(names(find.age(greater(than: 36))) == "C")
    #expect(names(find.age(less(than: 36))) == "BD")
    #expect(names(find.age(greaterThanOrEqual(with: 36))) == "AC")
    #expect(names(find.age(lessThanOrEqual(with: 36))) == "ABD")
    #expect(names(find.age(valid { $0 % 10 == 0 })) == "BCD")
    #expect(names(find { $0.name(.contains(string: "A", caseSensitive: false)) }) == "AD")
    #expect(names(find { $0.age(.isEqual(with: 20)).tags(.contains(all: ["c"])) }) == "D")
    #expect(names(find { $0.tags(.isEmpty()) }) == "C")
    #expect(names(find { $0.city(.isNotEqual(with: nil)) }) == "ACD")
    #expect(throws: (any Error).self) { try find.name(.matches(regex: "(")).results() }
    let text = try users.throwing.objects.where(\.archive.age == 20).explain()
    #expect(text.hasPrefix("scan index \"age\""), "\(text)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `Each spelling of Vellum does what Vellum documents`() throws {
    let directory = try TemporaryDirectory()
    let factory = ArchivesFactory(path: directory.appending("cache"))
    let archives = try factory.archives(
      for: User.self, trySetMaxMemorySize: 10.kiloByte, trySetMaxDiskSize: 20.kiloByte)
    let same: ArchiveManager<User> = try factory.archives(trySetMaxDiskSize: 1.megaByte)
    #expect(archives === same && archives.maxSize == 20 << 10)
    archives.record(people[0])
    archives.insert(people[1], people[2], people[3])
    #expect(archives.access(archiveWithKey: "Ada") == people[0])
    #expect(archives.access(archiveWithKey: "Eve") == nil)
    #expect(archives.accessAll() == people)
    #expect(archives.accessAll(limitedBy: 3) == Array(people.prefix(3)))
    func names(_ query: some ManagedQuery<User>) -> String {
      query.getResults().map { String($0.name.prefix(1)) }.joined()
    }
    #expect(names(archives.sorted { by in by.age(.ascending).name(.descending) }) == "DBAC")
    #expect(
      names(
        archives.findWhere { $0.name(.contains("a")).city(.isNotEqual(nil)) }
          .sorted { by in by.age(.ascending) }.limitResults(by: 10)) == "DA")
    let find = archives.findWhere
    #expect(names(find { $0.age(.isEqual(20)) }) == "BD")
    #expect(names(find { $0.tags(.contains(with: "a")) }) == "AD")
    #expect(names(find { $0.tags(.contains("a", "b")) }) == "AD")
    #expect(names(find { $0.tags(.contains("a", "b", "c")) }) == "D")
    #expect(names(find { $0.tags(.countGreaterOrEqual(with: 2)) }) == "AD")
    #expect(names(find { $0.tags(.countLessOrEqual(with: 1)) }) == "BC")
    #expect(names(find { $0.city(.isNilOrEmpty()) }) == "B")
    archives.update(User(name: "Bob", age: 20, city: ""))
    #expect(names(find { $0.city(.isNilOrEmpty()) }) == "B")
    archives.delete(archiveWithKey: "Ada")
    archives.delete(people[1], people[2])
    #expect(archives.accessAll() == [people[3]])
    archives.insert(all: people)
    archives.delete(keys: "Ada", "none")
    archives.delete(allKeys: ["Bob"])
    archives.delete(all: [people[2]])
    #expect(archives.accessAll() == [people[3]])
    archives.deleteAllInvalidateArchives(invalidateTimeInterval: 3600)
    #expect(archives.accessAll() == [people[3]])
    archives.deleteAll()
    #expect(archives.accessAll() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Finders, sorters and limiters work one after the other, in the order given`() throws {
    let ground = try StoreFixture()
    let users = try users(ground)
    func names(_ query: some ManagedQuery<User>) -> String {
      query.getResults().map { String($0.name.prefix(1)) }.joined()
    }
    #expect(names(users.allSortedBy.age(.ascending).name(.descending)) == "DBAC")
    #expect(names(users.allSortedBy.city(.ascending).name(.ascending)) == "BADC")
    #expect(names(users.allSortedBy { $0.age(.descending) }.limit(by: 2)) == "CA")
    // Operations after a limit apply to the limited objects.
    let young = users.findWhere.age(less(than: 40)).limit(by: 2)
    #expect(names(young.findWhere.age(equal(with: 20))) == "B")
    let youngest = users.allSortedBy.age(.ascending).limit(by: 3)
    #expect(names(youngest.sortedBy.name(.descending)) == "DBA")
    #expect(names(users.allSortedBy.age(.ascending).sortedBy.name(.descending)) == "DCBA")
    #expect(users.allSortedBy.age(.ascending).firstResult()?.name == "Bob")
    #expect(users.allSortedBy.age(.ascending).lastResult()?.name == "Cyd")
    let queries: [any QueryCompatible<User>] = [
      users.findWhere.age(less(than: 40)), users.allSortedBy.name(.descending),
      QueryLimiter(users).limit(by: 2),
    ]
    #expect(users.process(queries: queries).map(\.name) == ["Dan", "Bob"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A failure is reported, and the throwing variant throws it`() throws {
    let errors = Mutex(0)
    let ground = try StoreFixture(StoreOptions(onError: { _ in errors.withLock { $0 += 1 } }))
    let raw = try CacheManager<Raw>(ground.store, maxSize: 1000)
    raw.insert(Raw(key: "k", bytes: [1, 0, 2]))
    #expect(raw.get(objectWithKey: "k") == Raw(key: "k", bytes: [1, 0, 2]))
    raw.insert(Raw(key: "k", bytes: []))
    raw.insert(Raw(key: "big", bytes: Array(repeating: 1, count: 2000)))
    #expect(errors.withLock { $0 } == 2)
    #expect(throws: (any Error).self) { try raw.throwing.insert(Raw(key: "k", bytes: [])) }
    #expect(raw.getAll() == [Raw(key: "k", bytes: [1, 0, 2])])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A factory gives one manager a type, with the sizes of the first call`() throws {
    let directory = try TemporaryDirectory()
    let factory = NativefierFactory(path: directory.appending("cache"))
    let users = try factory.cache(for: User.self, initialMaxDiskSize: 10.megaByte)
    let again: CacheManager<User> = try factory.cache(initialMaxDiskSize: 1.kiloByte)
    #expect(users === again && users.maxSize == 10 << 20)
    let events: CacheManager<Event> = try factory.cache()
    #expect(events.maxSize == 2.megaBytes)
    users.insert(people[0])
    #expect(events.getAll() == [])
  }
}
