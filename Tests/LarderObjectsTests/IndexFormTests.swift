// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderObjects
import LarderTesting
import Testing

private struct Track: Storable, Equatable {
  let id: Int
  var title: String
  var artist: String?
  var year: Int?
  var rating: Double
  static let storedName = "Track"

  static let indexes = [
    Index("newest", .ascending(\Track.artist), .descending(\Track.year)),
    Index("best", .descending(\Track.rating), .ascending(\Track.title)),
    Index("title", .ignoringCase(\Track.title)),
    Index("named", .ascending(\Track.year), .descending(\Track.title), .ascending(\Track.artist)),
    Index("artist", .ignoringCase(\Track.artist), .ignoringCase(\Track.title, .descending)),
  ]
}

private struct Seat: Storable {
  let id: Int
  var row: Int?
  var number: Int?
  static let storedName = "Seat"
  static let indexes = [
    Index("seat", .ascending(\Seat.row), .descending(\Seat.number), unique: true)
  ]
}

private struct Bare: Storable {
  let id: Int
  static let storedName = "Bare"
  static let indexes = [Index<Bare>("bare", unique: true)]
}

@Suite(.timeLimit(.minutes(60))) struct IndexFormTests {
  let temporary: TemporaryStore
  let objects: ObjectStore

  init() throws {
    temporary = try TemporaryStore()
    objects = ObjectStore(temporary.store)
  }

  private func tracks(_ count: Int, seed: UInt64) -> [Track] {
    var numbers = SeededRandom(seed: seed)
    return (0..<count).map { id in
      Track(
        id: id,
        title: ["Ode", "ode", "ÖDE", "Aria", "", "a", "a\u{0}", "ARIA"].randomElement(
          using: &numbers)!,
        artist: [nil, "Ann", "ann", "Bob", "a"].randomElement(using: &numbers)!,
        year: [nil, -3, 0, 7, 300, .max].randomElement(using: &numbers)!,
        rating: [.nan, -1.5, 0, 2.5, .infinity].randomElement(using: &numbers)!)
    }
  }

  private func pages(_ query: Query<Track>) throws -> [Int] {
    var page = try query.page(size: 7)
    var ids = page.objects.map(\.id)
    while let next = page.next {
      page = try query.page(after: next, size: 7)
      ids += page.objects.map(\.id)
    }
    return ids
  }

  @Test func `An index with several directions has the order of a sort in memory, page by page`()
    throws
  {
    let seed = Seed.announce()
    try objects.save(tracks(200, seed: seed.value))
    let all = objects.objects(Track.self)
    let sorts: [(String, Query<Track>)] = [
      ("newest", all.sorted(by: \.artist).then(by: \.year, .descending)),
      ("newest", all.sorted(by: \.artist, .descending).then(by: \.year)),
      ("best", all.sorted(by: \.rating).then(by: \.title, .descending)),
      ("best", all.sorted(by: \.rating, .descending).then(by: \.title)),
      (
        "named", all.sorted(by: \.year).then(by: \.title, .descending).then(by: \.artist)
      ),
      ("title", all.sorted(ignoringCase: \.title)),
      ("title", all.sorted(ignoringCase: \.title, .descending)),
      ("artist", all.sorted(ignoringCase: \.artist).then(ignoringCase: \.title, .descending)),
    ]
    for (index, query) in sorts {
      // A filter without a limit is a table scan, sorted in memory.
      let expected = try query.fetch().map(\.id)
      let plan = try query.limit(10).explain()
      #expect(plan.contains("scan index \"\(index)\"") && plan.contains("index order"), "\(plan)")
      #expect(try !query.explain().contains("index order"))
      #expect(try query.limit(150).fetch().map(\.id) == Array(expected.prefix(150)), "\(seed)")
      #expect(try pages(query) == expected, "\(plan), \(seed)")
    }
    // Sorts in other directions do not use the indexes.
    let other = try all.sorted(by: \.artist).then(by: \.year).limit(10).explain()
    #expect(other.contains("in memory"), "\(other)")
    #expect(try temporary.store.verify().isEmpty)
  }

  @Test func `An index without regard to case serves conditions that ignore case`() throws {
    let tracks = tracks(300, seed: 5)
    try objects.save(tracks)
    let query = objects.objects(Track.self).where { $0.title.equalsIgnoringCase("öde") }
    #expect(try query.explain().contains("scan index \"title\""))
    #expect(
      try query.fetch().map(\.id) == tracks.filter { $0.title.lowercased() == "öde" }.map(\.id))
    let artist = objects.objects(Track.self).where { $0.artist.equalsIgnoringCase("ANN") }
    #expect(try artist.explain().contains("scan index \"artist\""))
    #expect(
      try artist.fetch().map(\.id) == tracks.filter { $0.artist?.lowercased() == "ann" }.map(\.id))
    #expect(try objects.objects(Track.self).where(\.title == "Ode").explain().contains("scan all"))
  }

  @Test func `An index without properties is rejected`() {
    #expect(throws: ObjectError.self) { try objects.save(Bare(id: 1)) }
  }

  @Test func `A unique index with a descending property rejects equal values and allows nil`()
    throws
  {
    try objects.save([
      Seat(id: 1), Seat(id: 2), Seat(id: 3, row: 1, number: 1), Seat(id: 4, row: 1),
    ])
    #expect(throws: ObjectError.self) { try objects.save(Seat(id: 5, row: 1, number: 1)) }
    #expect(throws: ObjectError.self) { try objects.save(Seat(id: 6, row: 1)) }
    try objects.save(Seat(id: 5, row: 2, number: 1))
  }
}
