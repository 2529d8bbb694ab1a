// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct Note: Storable, Equatable {
  let id: Int
  var tag: String
  var text = ""
  static let storedName = "Note"
  static let budget: ObjectBudget? = ObjectBudget(count: 10)
  static let indexes = [Index<Note>("tag", \.tag)]
}

private struct Page: Storable, Equatable {
  let id: String
  var text: String
  static let storedName = "Page"
  static let indexes = [Index<Page>("text", \.text)]
}

private struct Book: Storable {
  let id: Int
  @HasMany var notes: [Note]
  static let storedName = "Book"
  static let relationships = [Relationship<Book>(\.$notes, onTargetDelete: .deny)]
}

@Suite struct ObjectBudgetTests {
  @Test(.timeLimit(.minutes(60)))
  func `Of few objects exactly the least recently used is evicted, with its index entries`() throws
  {
    let ground = try StoreFixture()
    for id in 0..<10 { try ground.store.save(Note(id: id, tag: "t\(id % 2)")) }
    #expect(try ground.store.object(Note.self, id: 0) != nil)
    #expect(try ground.store.objects(Note.self).where(\.id == 1).first() != nil)
    // Uses between two writes are one moment to the clock; the next write comes after them.
    try ground.store.save(Page(id: "tick", text: ""))
    try ground.store.save(Note(id: 10, tag: "t0"))
    try ground.store.save(Note(id: 11, tag: "t1"))
    let kept = Set(0...11).subtracting([2, 3])
    #expect(Set(try ground.store.objects(Note.self).fetch().map(\.id)) == kept)
    for tag in ["t0", "t1"] {
      let query = ground.store.objects(Note.self).where(\.tag == tag)
      #expect(try query.explain().hasPrefix("scan index"))
      #expect(Set(try query.fetch().map(\.id)) == kept.filter { "t\($0 % 2)" == tag })
    }
    #expect(try ground.store.usage(of: Note.self).count == 10)
    #expect(try ground.store.storage.statistics().evictions == 2)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A budget of nothing is a typed error, and not no limit`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Page(id: "a", text: "1"))
    try ground.store.setBudget(ObjectBudget(count: 2), for: Page.self)
    for budget in [
      ObjectBudget(count: 0), ObjectBudget(count: -1), ObjectBudget(bytes: .bytes(0)),
      ObjectBudget(bytes: .bytes(-5), count: 3),
    ] {
      let error = #expect(throws: ObjectError.self) {
        try ground.store.setBudget(budget, for: Page.self)
      }
      #expect(error?.code == .invalidSchema)
    }
    #expect(try ground.store.usage(of: Page.self).budget == ObjectBudget(count: 2))
  }

  @Test(.timeLimit(.minutes(60)))
  func `A budget in bytes holds after every commit, batches and replacements included`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let ground = try StoreFixture(StoreOptions())
    let budget = ObjectBudget(bytes: .bytes(50_000))
    try ground.store.setBudget(budget, for: Page.self)
    for round in 0..<200 {
      let pages = (0..<Int.random(in: 1...60, using: &random)).map { _ in
        Page(
          id: "\(Int.random(in: 0..<300, using: &random))",
          text: String(repeating: "x", count: Int.random(in: 0...2000, using: &random)))
      }
      try ground.store.save(pages)
      let usage = try ground.store.usage(of: Page.self)
      #expect(usage.bytes <= .bytes(50_000) && usage.budget == budget, "\(round), \(seed)")
      // Not more goes than must.
      if round > 20 { #expect(usage.bytes > .bytes(50_000 - 4500), "\(round), \(seed)") }
      // The object saved last is evicted last.
      #expect(try ground.store.object(Page.self, id: pages.last!.id) == pages.last!, "\(seed)")
    }
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `M23: an object larger than the budget is refused and evicts nothing`() throws {
    let ground = try StoreFixture()
    try ground.store.setBudget(ObjectBudget(bytes: .bytes(3072)), for: Page.self)
    try ground.store.save([Page(id: "a", text: "1"), Page(id: "b", text: "2")])
    let before = try ground.store.usage(of: Page.self)
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save([
        Page(id: "c", text: "3"), Page(id: "a", text: String(repeating: "x", count: 10_000)),
      ])
    }
    #expect(error?.code == .tooLarge && error?.ids == ["a"])
    #expect(try ground.store.usage(of: Page.self) == before)
    #expect(try ground.store.object(Page.self, id: "a")?.text == "1")
    // Replaced by another size and deleted, it is removed from the counters.
    try ground.store.save(Page(id: "a", text: String(repeating: "y", count: 300)))
    try ground.store.save(Page(id: "a", text: ""))
    try ground.store.delete(Page.self, ids: ["a", "b"])
    #expect(try ground.store.usage(of: Page.self).bytes == .bytes(0))
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A later or lower budget is reached in steps, and lifted again`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<5000).map { Page(id: "\($0)", text: "p\($0)") })
    try ground.store.setBudget(ObjectBudget(count: 700), for: Page.self)
    #expect(try ground.store.objects(Page.self).count() == 700)
    #expect(try ground.store.storage.verify() == [])
    try ground.store.setBudget(.unlimited, for: Page.self)
    try ground.store.save((0..<2000).map { Page(id: "new \($0)", text: "n\($0)") })
    #expect(try ground.store.objects(Page.self).count() == 2700)
    #expect(try ground.store.storage.verify() == [])
    // Everything deleted, the budget stays.
    try ground.store.setBudget(ObjectBudget(count: 5), for: Page.self)
    try ground.store.deleteAll(Page.self)
    try ground.store.save((0..<50).map { Page(id: "\($0)", text: "q") })
    #expect(try ground.store.objects(Page.self).fetch().map(\.id) == (45..<50).map { "\($0)" })
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `What was used outlives what was not, whatever shares the store`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<3000).map { Car(id: "\($0)", model: "m", year: $0) })
    try ground.store.setBudget(ObjectBudget(count: 500), for: Page.self)
    let hot = (0..<20).map { "hot \($0)" }
    for id in hot { try ground.store.save(Page(id: id, text: id)) }
    for round in 0..<3000 {
      try ground.store.save(Page(id: "\(round)", text: "cold"))
      if round % 50 == 0 {
        for id in hot { #expect(try ground.store.object(Page.self, id: id) != nil, "\(round)") }
      }
    }
    #expect(try ground.store.objects(Page.self).count() == 500)
    // Within noise of exact: the newest tenth is nearly whole.
    let newest = (2950..<3000).filter {
      (try? ground.store.contains(Page.self, id: "\($0)")) ?? false
    }
    #expect(newest.count >= 45)
    #expect(try ground.store.objects(Car.self).count() == 3000)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An evicted object is missing in its references, and no rule is applied`() throws {
    let ground = try StoreFixture()
    try ground.store.save(Book(id: 1, notes: (0..<3).map { Note(id: $0, tag: "t") }))
    #expect(throws: ObjectError.self) { try ground.store.delete(Note.self, id: 0) }
    for id in 10..<20 { try ground.store.save(Note(id: id, tag: "new")) }
    let book = try #require(try ground.store.object(Book.self, id: 1))
    #expect(book.$notes.ids == ["0", "1", "2"])
    #expect(try book.$notes.missingIDs == ["0", "1", "2"])
    #expect(book.notes == [])
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Recency outlives a restart, and objects unused for a time are deleted`() throws {
    let clock = ManualClock()
    clock.set(to: 1_700_000_000_000)
    let ground = try StoreFixture(StoreOptions(clock: StoreClock { clock.now }))
    let start = clock.now
    for id in 0..<10 {
      clock.advance(by: .seconds(60))
      try ground.store.save(Page(id: "\(id)", text: "t"))
    }
    #expect(try ground.store.lastUse(of: Page.self, id: "3") == start + 240_000)
    #expect(try ground.store.lastUse(of: Page.self, id: "none") == nil)
    #expect(try ground.store.object(Page.self, id: "3") != nil)
    #expect(try ground.store.lastUse(of: Page.self, id: "3") == start + 600_000)
    #expect(try ground.store.deleteUnused(Page.self, since: start + 360_000) == 4)
    #expect(
      try ground.store.objects(Page.self).fetch().map(\.id) == ["3", "5", "6", "7", "8", "9"])
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Reads of a bounded type write nothing to the database`() throws {
    let ground = try StoreFixture()
    for id in 0..<10 { try ground.store.save(Note(id: id, tag: "t")) }
    let before = try ground.store.storage.statistics()
    for round in 0..<100 {
      _ = try ground.store.object(Note.self, id: round % 10)
      _ = try ground.store.objects(Note.self).where(\.tag == "t").fetch()
    }
    let after = try ground.store.storage.statistics()
    #expect(after.commits == before.commits && after.bytes == before.bytes)
  }
}
