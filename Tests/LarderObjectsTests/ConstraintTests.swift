// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct Seat: Storable, Equatable {
  let id: Int
  var row: Int
  var guest: String?
  static let storedName = "constraint.Seat"
  static let indexes = [
    Index<Seat>("row", \.row, unique: true), Index<Seat>("guest", \.guest, unique: true),
  ]
}

private struct Author: Storable, Equatable {
  let id: Int
  static let storedName = "constraint.Author"
}

private struct Poem: Storable, Equatable {
  let id: Int
  @HasOne var author: Author? = nil
  static let storedName = "constraint.Poem"
  static let relationships = [Relationship<Poem>(\.$author, onTargetDelete: .deny)]
}

/// Unique indexes and the delete rule `deny` are checked at the end of a transaction.
@Suite struct ConstraintTests {
  private let seats = [
    Seat(id: 1, row: 1, guest: "a"), Seat(id: 2, row: 2, guest: "b"), Seat(id: 3, row: 3),
  ]

  private func seated() throws -> (ground: StoreFixture, store: ObjectStore) {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(seats)
    return (ground, ground.store)
  }

  /// Calls the synchronous forms in an asynchronous test.
  private func synchronously(_ body: () throws -> Void) rethrows { try body() }

  private func check(_ store: ObjectStore, _ guests: [String?]) throws {
    #expect(try store.objects(Seat.self).sorted(by: \.id).fetch().map(\.guest) == guests)
    for (position, guest) in guests.enumerated() where guest != nil {
      let found = store.objects(Seat.self).where(\.guest == guest)
      #expect(try found.explain().hasPrefix("scan index \"guest\""))
      #expect(try found.fetch().map(\.id) == [position + 1])
    }
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Objects exchange their unique keys in one transaction, in any form of save`() async throws {
    let (ground, store) = try seated()
    defer { withExtendedLifetime(ground) {} }
    @Sendable func change(_ id: Int, _ guest: String?) -> Seat {
      Seat(id: id, row: id, guest: guest)
    }
    try synchronously {
      try store.write { transaction in
        try transaction.save(change(1, "b"))
        #expect(try transaction.fetch(store.objects(Seat.self).where(\.guest == "b")).count == 2)
        try transaction.save(change(2, "a"))
      }
      try check(store, ["b", "a", nil])
      try store.save([change(1, "a"), change(2, "b")])
      try check(store, ["a", "b", nil])
    }
    try await store.save([change(1, "b"), change(2, nil), change(3, "a")])
    try check(store, ["b", nil, "a"])
    try await store.write { transaction in
      try transaction.save(change(2, "a"))
      try transaction.save([change(3, "b"), change(1, nil)])
    }
    try check(store, [nil, "a", "b"])
    let count = try await store.objects(Seat.self).update { $0.row += 1 }
    #expect(count == 3)
    #expect(try await store.objects(Seat.self).fetch().map(\.row) == [2, 3, 4])
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A key that two objects have at the end fails the transaction and names both`() async throws
  {
    let (ground, store) = try seated()
    func expect(_ error: ObjectError?, _ ids: [String], _ index: String) throws {
      #expect(error?.code == .uniqueViolation && error?.type == Seat.storedName)
      #expect(error?.ids == ids && error?.index == index, "\(error as Any)")
      try check(store, ["a", "b", nil])
    }
    try expect(
      #expect(throws: ObjectError.self) {
        try store.write { transaction in
          // No error is thrown here, so there is none to catch.
          try transaction.save(Seat(id: 9, row: 9, guest: "b"))
          try transaction.save(Seat(id: 8, row: 8, guest: "c"))
        }
      }, ["9", "2"], "guest")
    try expect(
      await #expect(throws: ObjectError.self) {
        try await store.save([Seat(id: 4, row: 4), Seat(id: 5, row: 1)])
      }, ["5", "1"], "row")
    // The object that was saved with the key has given it up; another took it.
    try expect(
      #expect(throws: ObjectError.self) {
        try store.write { transaction in
          try transaction.save(Seat(id: 3, row: 3, guest: "a"))
          try transaction.save(Seat(id: 4, row: 4, guest: "a"))
          try transaction.save(Seat(id: 3, row: 3))
        }
      }, ["4", "1"], "guest")
    try expect(
      #expect(throws: ObjectError.self) {
        try store.objects(Seat.self).where(\.row < 3).update { $0.row += 1 }
      }, ["2", "3"], "row")
    struct Own: Error {}
    #expect(throws: Own.self) {
      try store.write { transaction in
        try transaction.save(Seat(id: 9, row: 9, guest: "b"))
        throw Own()
      }
    }
    // What a failed transaction noted does not concern the next one.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try synchronously { try other.save(Seat(id: 3, row: 3)) }
    try check(other, ["a", "b", nil])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A conflict is resolved by a later change or deletion of the transaction`() throws {
    let (ground, store) = try seated()
    defer { withExtendedLifetime(ground) {} }
    try store.write { transaction in
      try transaction.save(Seat(id: 4, row: 1, guest: "a"))
      try transaction.delete(Seat.self, id: 1)
      try transaction.save(Seat(id: 5, row: 5, guest: "b"))
      try transaction.save(Seat(id: 5, row: 5, guest: "d"))
    }
    #expect(try store.objects(Seat.self).sorted(by: \.id).fetch().map(\.id) == [2, 3, 4, 5])
    try store.write { transaction in
      try transaction.save(Seat(id: 6, row: 2))
      try transaction.deleteAll(Seat.self)
      try transaction.save([Seat(id: 7, row: 2), Seat(id: 8, row: 3)])
    }
    #expect(try store.objects(Seat.self).fetch().map(\.id) == [7, 8])
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An object is deleted before its referrers, or stored again, in one transaction`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let (one, two) = (Author(id: 1), Author(id: 2))
    try store.save([Poem(id: 1, author: one), Poem(id: 2, author: one), Poem(id: 3, author: two)])
    // Stored again.
    try store.write { transaction in
      try transaction.delete(Author.self, id: 1)
      try transaction.save(one)
    }
    // The referrers change.
    try store.write { transaction in
      try transaction.delete(Author.self, id: 1)
      try transaction.save(Poem(id: 1, author: two))
      try transaction.delete(Poem.self, id: 2)
    }
    #expect(try store.objects(Author.self).fetch() == [two])
    // One is left.
    for isLeft in [true, false] {
      let attempt = {
        try store.write { transaction in
          try transaction.deleteAll(Author.self)
          try transaction.delete(Poem.self, id: 1)
          if !isLeft { try transaction.deleteAll(Poem.self) }
        }
      }
      guard isLeft else {
        try attempt()
        break
      }
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .deletionDenied && error?.ids == ["3"])
      #expect(error?.type == Author.storedName && error?.message.contains("\"2\"") == true)
      #expect(try store.objects(Poem.self).count() == 2)
      #expect(try store.objects(Author.self).fetch() == [two])
    }
    #expect(try store.objects(Poem.self).count() == 0)
    #expect(try store.objects(Author.self).count() == 0)
    #expect(try store.storage.verify() == [])
  }
}
