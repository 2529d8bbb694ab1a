// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// An object of any type of id.
struct Named<ID: CacheKey & Codable>: Storable, Equatable {
  let id: ID
  var name: String
  static var storedName: String { "Named \(ID.self)" }
}

/// An object that refers to those.
struct Naming<ID: CacheKey & Codable>: Storable {
  let id: Int
  @HasOne var one: Named<ID>?
  @HasMany var many: [Named<ID>]
  static var storedName: String { "Naming \(ID.self)" }
}

enum Plan: String, CacheKey, Codable { case free, paid }

@Suite struct ObjectIDTests {
  /// Saves an object for each id and expects each to be a separate object, however it is found.
  private func check<ID: CacheKey & Codable>(_ ids: [ID], as type: ID.Type = ID.self) throws {
    let ground = try StoreFixture(StoreOptions())
    let objects = ids.enumerated().map { Named(id: $1, name: "\($0)") }
    try ground.store.save(objects)
    #expect(try ground.store.objects(Named<ID>.self).fetch() == objects)
    // Another process has nothing in memory.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    for store in [ground.store, other] {
      for object in objects {
        #expect(try store.object(Named<ID>.self, id: object.id) == object)
        let found = try store.read { try $0.object(Named<ID>.self, id: object.id) }
        #expect(found == object)
        #expect(try store.objects(Named<ID>.self).where(\.id == object.id).fetch() == [object])
      }
    }
    for (number, object) in objects.enumerated() {
      try ground.store.save(Naming(id: number, one: object, many: objects))
    }
    for (number, object) in objects.enumerated() {
      let naming = try #require(try other.object(Naming<ID>.self, id: number))
      #expect(naming.one == object)
      #expect(naming.many == objects)
      let referrers = other.referrers(of: object, in: Naming<ID>.self, through: \.$one)
      #expect(try referrers.fetch().map(\.id) == [number])
    }
    for (number, object) in objects.enumerated() {
      #expect(try ground.store.delete(Named<ID>.self, id: object.id))
      #expect(try other.objects(Named<ID>.self).count() == objects.count - number - 1)
    }
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Unequal ids of every type are separate objects by id, query and reference`() throws {
    try check([Data([1, 2, 3]), Data([3, 2, 1]), Data(), Data([0])])
    try check([[1, 2], [2, 1], []] as [[UInt8]])
    let second = Date(timeIntervalSinceReferenceDate: 800_000_000)
    try check([
      second, second + 0.25, second + 0.5, second + 0.1,
      Date(timeIntervalSinceReferenceDate: 0.1),
      Date(timeIntervalSinceReferenceDate: (0.1).nextUp), .distantPast, .distantFuture,
    ])
    try check([0, 0.1, (0.1).nextUp, -1e300, .infinity])
    try check([true, false])
    try check(["", "a", "a/b", "é", "e\u{302}", "a\u{0}b", "(text:a)"])
    try check([5, -5, .max, .min])
    try check([UUID(), UUID()])
    try check(["https://example.com/a", "https://example.com/A"].map { URL(string: $0)! })
    try check([Plan.free, .paid])
    try check([KeyPair("ab", "c"), KeyPair("a", "bc"), KeyPair("a, text:b", "c")])
    try check([KeyPair("a", KeyPair(Date(), 1)), KeyPair("a", KeyPair(Date.distantPast, 1))])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Equal ids are one object, however they are written`() throws {
    func expectOne<ID: CacheKey & Codable>(_ first: ID, _ second: ID) throws {
      let ground = try StoreFixture(StoreOptions())
      let other = try ObjectStore(at: ground.path, StoreOptions())
      try ground.store.save(Named(id: first, name: "first"))
      #expect(try other.object(Named<ID>.self, id: second)?.name == "first")
      try other.save(Named(id: second, name: "second"))
      for store in [ground.store, other] {
        for id in [first, second] {
          #expect(try store.object(Named<ID>.self, id: id)?.name == "second")
        }
        #expect(try store.objects(Named<ID>.self).count() == 1)
      }
      #expect(try ground.store.delete(Named<ID>.self, id: first))
      #expect(try other.objects(Named<ID>.self).count() == 0)
    }
    try expectOne("é", "e\u{301}")
    try expectOne(0.0, -0.0)
    try expectOne(Date(timeIntervalSinceReferenceDate: 0), Date(timeIntervalSinceReferenceDate: -0))
    try expectOne(KeyPair("é", 1), KeyPair("e\u{301}", 1))
    try expectOne("\u{1112}\u{1161}\u{11ab}", "한")
  }

  @Test(.timeLimit(.minutes(60)))
  func `Ids of errors and of references are the texts that the tool shows`() throws {
    let ground = try StoreFixture(StoreOptions())
    let date = Date(timeIntervalSinceReferenceDate: 800_000_000.25)
    let naming = Naming(id: 1, one: Named(id: date, name: "a"), many: [])
    try ground.store.save(naming)
    #expect(naming.$one.id == "2026-05-09T06:13:20.25Z")
    #expect(throws: ObjectError.self) {
      _ = try ground.store.object(id: Data([255]), of: Named<Data>.self).execute()
    }
    do {
      _ = try ground.store.object(id: Data([255]), of: Named<Data>.self).execute()
    } catch let error as ObjectError {
      #expect(error.ids == ["ff"])
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `An observed object of an id in another form is the same`() async throws {
    let ground = try StoreFixture(StoreOptions())
    try await ground.store.save(Named(id: "e\u{301}", name: "a"))
    var values = ground.store.values(of: Named<String>.self, id: "é").makeAsyncIterator()
    #expect(try await values.next()??.name == "a")
    try await ground.store.save(Named(id: "e\u{301}", name: "b"))
    #expect(try await values.next()??.name == "b")
  }
}
