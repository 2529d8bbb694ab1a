// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

/// An object whose `==` compares its id alone.
struct Lenient: Storable, Equatable {
  let id: Int
  var name: String
  static func == (left: Lenient, right: Lenient) -> Bool { left.id == right.id }
}

/// A class as a model.
final class Model: Storable, @unchecked Sendable {
  let id: Int
  var name: String
  init(id: Int, name: String) {
    self.id = id
    self.name = name
  }
  static let indexes = [Index("name", \Model.name)]
}

/// A class that is never changed.
final class Frozen: Storable {
  let id: Int
  init(id: Int) { self.id = id }
  static let sharesInstances = true
}

struct Word: Storable, Equatable {
  let id: Int
  var text: String
  var other: String?
  static let indexes = [Index("text", \Word.text)]
}

@Suite struct RememberedResultTests {
  @Test(.timeLimit(.minutes(60)))
  func `A kept query that filters by a closure is run each time`() throws {
    let ground = try StoreFixture(StoreOptions())
    for id in 0..<10 { try ground.store.save(Lenient(id: id, name: "a")) }
    let clock = Mutex(0)
    let box = Box(clock)
    let query = ground.store.objects(Lenient.self).filter { $0.id < box.value.withLock { $0 } }
    let narrowed = query.where(
      \.id != 0 || ObjectPredicate { _ in box.value.withLock { $0 } > 100 })
    for time in [3, 5, 1, 101] {
      box.value.withLock { $0 = time }
      #expect(try query.fetch().count == min(time, 10))
      #expect(try query.count() == min(time, 10))
      #expect(try narrowed.fetch().count == (time > 100 ? 10 : time - 1))
    }
  }

  private final class Box: Sendable {
    let value: Mutex<Int>
    init(_ value: consuming Mutex<Int>) { self.value = value }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A change that the type's own comparison does not see is observed`() async throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try await store.save(Lenient(id: 1, name: "a"))
    var one = store.values(of: Lenient.self, id: 1).makeAsyncIterator()
    var all = store.objects(Lenient.self).observe().makeAsyncIterator()
    var changes = store.objects(Lenient.self).changes.makeAsyncIterator()
    #expect(try await one.next()??.name == "a")
    #expect(try await all.next()?.map(\.name) == ["a"])
    #expect(try await changes.next()?.isInitial == true)
    try await store.save(Lenient(id: 1, name: "b"))
    #expect(try await one.next()??.name == "b")
    #expect(try await all.next()?.map(\.name) == ["b"])
    #expect(try await changes.next()?.updated.map(\.object.name) == ["b"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Each caller fetches a separate instance of a class unless its type shares instances`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save([Model(id: 1, name: "a"), Model(id: 2, name: "b")])
    let query = store.objects(Model.self).where(\.name == "a")
    let collection = store.collection(Model.self)
    for _ in 0..<3 {
      let found = [
        try store.object(Model.self, id: 1), try collection.object(id: 1), try query.fetch().first,
        try query.fetch().first, try store.objects(Model.self).fetch().first,
        try store.read { try $0.object(Model.self, id: 1) },
      ]
      #expect(found.allSatisfy { $0?.name == "a" })
      #expect(Set(found.compactMap { $0.map { ObjectIdentifier($0) } }).count == found.count)
      for model in found { model?.name = "unsaved" }
    }
    try store.save(Frozen(id: 1))
    let first = try store.object(Frozen.self, id: 1)
    #expect(try store.object(Frozen.self, id: 1) === first)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Texts are in one order in scans, indexes, pages and comparisons, however composed`() throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let parts = [
      "한", "\u{1112}\u{1161}\u{11ab}", "e", "é", "e\u{301}", "f", "z", "\u{212b}", "A\u{30a}",
    ]
    var seed = SeededRandom(seed: 7)
    var words: [Word] = []
    for id in 0..<300 {
      let text = (0..<Int.random(in: 0...3, using: &seed)).map { _ in
        parts.randomElement(using: &seed)!
      }.joined()
      words.append(Word(id: id, text: text, other: text))
    }
    try store.save(words)
    func bytes(_ word: Word) -> [UInt8] {
      Array(word.text.precomposedStringWithCanonicalMapping.utf8)
    }
    let ascending = words.sorted { left, right in
      bytes(left) == bytes(right)
        ? left.id < right.id : bytes(left).lexicographicallyPrecedes(bytes(right))
    }
    let ids = ascending.map(\.id)
    let query = store.objects(Word.self)
    #expect(try query.sorted(by: \.text).fetch().map(\.id) == ids)
    #expect(try query.sorted(by: \.text).limit(300).explain().contains("scan index"))
    #expect(try query.sorted(by: \.text).limit(300).fetch().map(\.id) == ids)
    #expect(try query.sorted(by: \.other).fetch().map(\.id) == ids)
    // Ties are turned round with the first key, by an index, in memory and in pages.
    #expect(try query.sorted(by: \.text, .descending).fetch().map(\.id) == ids.reversed())
    #expect(
      try query.sorted(by: \.text, .descending).limit(300).fetch().map(\.id) == ids.reversed())
    #expect(try query.sorted(by: \.other, .descending).fetch().map(\.id) == ids.reversed())
    for sorted in [query.sorted(by: \.text, .descending), query.sorted(by: \.other, .descending)] {
      var paged: [Int] = []
      var page = try sorted.page(size: 7)
      paged += page.objects.map(\.id)
      while let next = page.next {
        page = try sorted.page(after: next, size: 7)
        paged += page.objects.map(\.id)
      }
      #expect(paged == ids.reversed())
    }
    for bound in words.prefix(40) {
      let below = words.filter { bytes($0).lexicographicallyPrecedes(bytes(bound)) }.map(\.id)
      #expect(try query.where(\.text < bound.text).fetch().map(\.id).sorted() == below)
      #expect(try query.where(\.other < bound.text).fetch().map(\.id).sorted() == below)
      let rest = Set(words.map(\.id)).subtracting(below)
      #expect(try Set(query.where(\.text >= bound.text).fetch().map(\.id)) == rest)
      #expect(try Set(query.where(\.other >= bound.text).fetch().map(\.id)) == rest)
    }
    #expect(try query.min(\.text).map { Word(id: 0, text: $0) }.map(bytes) == bytes(ascending[0]))
  }

  @Test(.timeLimit(.minutes(60)))
  func `contains of a text finds whole characters however they are composed`() throws {
    let ground = try StoreFixture(StoreOptions())
    let texts = ["cafe\u{301}", "café", "cafe", ""]
    for (id, text) in texts.enumerated() { try ground.store.save(Word(id: id, text: text)) }
    func ids(_ part: String) throws -> [Int] {
      try ground.store.objects(Word.self).where { $0.text.contains(part) }.fetch().map(\.id)
    }
    #expect(try ids("é") == [0, 1])
    #expect(try ids("e\u{301}") == [0, 1])
    #expect(try ids("e") == [2])
    #expect(try ids("") == [0, 1, 2, 3])
    let closure = ground.store.objects(Word.self).filter {
      Array($0.text).contains(Character("e"))
    }
    #expect(try closure.fetch().map(\.id) == [2])
  }
}
