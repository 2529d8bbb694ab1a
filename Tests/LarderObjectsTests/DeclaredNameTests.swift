// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// The same stored type as three programs declare it.
enum Versions {
  struct ByFirst: Storable, Equatable {
    let id: Int
    var first: String
    var last: String
    var short: String { String(first.prefix(1)) }
    var long: String { first + last }
    static let storedName = "computed"
    static let computedProperties = [
      ComputedProperty("short", \ByFirst.short), ComputedProperty("long", \ByFirst.long),
    ]
    static let indexes = [Index("key", \ByFirst.short)]
  }

  struct ByLong: Storable, Equatable {
    let id: Int
    var first: String
    var last: String
    var long: String { first + last }
    static let storedName = "computed"
    static let computedProperties = [ComputedProperty("long", \ByLong.long)]
    static let indexes = [Index("key", \ByLong.long)]
  }

  struct Unnamed: Storable, Equatable {
    let id: Int
    var first: String
    var last: String
    var long: String { first + last }
    var short: String { first }
    static let storedName = "computed"
    static let indexes = [Index("key", \Unnamed.long)]
  }

  struct Plain: Storable, Equatable {
    let id: Int
    var first: String
    var long: String { first + first }
    static let storedName = "plain"
  }
}

/// A value that two different ones describe in the same way.
struct Vague: Codable, Hashable, Sendable, CustomStringConvertible {
  var number: Int
  var description: String { "vague" }
}

/// A value that cannot be encoded.
struct Secret: Hashable, Sendable {
  var number: Int
}

struct Parcel: Storable {
  let id: Int
  var vague: Vague
  var data: Data
  static let storedName = "parcel"
  static let indexes = [Index("part", \Parcel.id, where: \Parcel.vague == Vague(number: 1))]
}

struct OtherParcel: Storable {
  let id: Int
  var vague: Vague
  var data: Data
  static let storedName = "parcel"
  static let indexes = [
    Index("part", \OtherParcel.id, where: \OtherParcel.vague == Vague(number: 2))
  ]
}

struct DataParcel: Storable {
  let id: Int
  var data: Data
  static let indexes = [Index("part", \DataParcel.id, where: \DataParcel.data == Data([1, 2]))]
}

struct SecretParcel: Storable {
  let id: Int
  var secret: Secret { Secret(number: id) }
  static let computedProperties = [ComputedProperty("secret", \SecretParcel.secret)]
  static let indexes = [
    Index("part", \SecretParcel.id, where: \SecretParcel.secret == Secret(number: 1))
  ]
}

@Suite struct DeclaredNameTests {
  @Test(.timeLimit(.minutes(60)))
  func `An index over another computed property of the type is not the stored one`() throws {
    let ground = try StoreFixture(StoreOptions())
    for id in 0..<9 { try ground.store.save(Versions.ByFirst(id: id, first: "ab", last: "\(id)")) }
    let other = try ObjectStore(at: ground.path, StoreOptions())
    let query = other.objects(Versions.ByLong.self).where(\.long == "ab3")
    #expect(try query.fetch().map(\.id) == [3])
    try other.prepare(Versions.ByLong.self)
    #expect(try query.explain().contains("scan index"))
    #expect(try query.fetch().map(\.id) == [3])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An index over a computed property without a name is refused`() throws {
    let ground = try StoreFixture(StoreOptions())
    do {
      try ground.store.save(Versions.Unnamed(id: 1, first: "a", last: "b"))
      Issue.record("saved")
    } catch let error as ObjectError {
      #expect(error.code == .invalidSchema)
      #expect(error.index == "key")
      #expect(error.message.contains("computedProperties"))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A cursor of one computed sort is refused by another, and unnamed ones have none`() throws {
    let ground = try StoreFixture(StoreOptions())
    for id in 0..<9 { try ground.store.save(Versions.ByFirst(id: id, first: "\(id)", last: "b")) }
    let query = ground.store.objects(Versions.ByFirst.self)
    let page = try query.sorted(by: \.short).page(size: 2)
    let next = try #require(page.next)
    #expect(try query.sorted(by: \.short).page(after: next, size: 2).objects.map(\.id) == [2, 3])
    #expect {
      try query.sorted(by: \.long).page(after: next, size: 2)
    } throws: {
      ($0 as? ObjectError)?.code == .invalidCursor
    }
    for id in 0..<9 { try ground.store.save(Versions.Plain(id: id, first: "\(id)")) }
    let plain = ground.store.objects(Versions.Plain.self)
    #expect {
      try plain.sorted(by: \.long).page(size: 2)
    } throws: {
      ($0 as? ObjectError)?.code == .invalidCursor
    }
    #expect {
      try plain.where(\.long > "").page(size: 2)
    } throws: {
      ($0 as? ObjectError)?.code == .invalidCursor
    }
    // The last page needs no cursor, and `after` no name.
    #expect(try plain.sorted(by: \.long).page(size: 9).objects.count == 9)
    let last = try plain.sorted(by: \.long).fetch()[4]
    #expect(try plain.sorted(by: \.long).after(last).fetch().map(\.id) == [5, 6, 7, 8])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Constants with one description and other values are other conditions`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    for id in 0..<20 {
      try store.save(Parcel(id: id, vague: Vague(number: id % 3), data: Data([UInt8(id)])))
    }
    func ids(_ number: Int) throws -> [Int] {
      try store.objects(Parcel.self).where(\.vague == Vague(number: number) && \.id < 7).fetch()
        .map(\.id)
    }
    #expect(try ids(1) == [1, 4])
    #expect(try ids(2) == [2, 5])
    #expect(try ids(0) == [0, 3, 6])
    let query = store.objects(Parcel.self).where(\.vague == Vague(number: 1))
    #expect(try query.explain().contains("part"))
    #expect(
      try !store.objects(Parcel.self).where(\.vague == Vague(number: 2)).explain()
        .contains("\"part\""))
    // Another program's index of the same text is not this one.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    let twos = other.objects(OtherParcel.self).where(\.vague == Vague(number: 2))
    #expect(try twos.fetch().map(\.id) == [2, 5, 8, 11, 14, 17])
    // A page of one constant is not one of another.
    let page = try query.page(size: 2)
    let next = try #require(page.next)
    #expect {
      try store.objects(Parcel.self).where(\.vague == Vague(number: 2)).page(after: next, size: 2)
    } throws: {
      ($0 as? ObjectError)?.code == .invalidCursor
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Data of one length are different conditions, and what cannot be encoded is refused`() throws
  {
    let ground = try StoreFixture(StoreOptions())
    for id in 0..<10 {
      try ground.store.save(DataParcel(id: id, data: Data([1, UInt8(id % 4)])))
    }
    func ids(_ byte: UInt8) throws -> [Int] {
      try ground.store.objects(DataParcel.self).where(\.data == Data([1, byte])).fetch().map(\.id)
    }
    #expect(try ids(2) == [2, 6])
    #expect(try ids(3) == [3, 7])
    #expect {
      try ground.store.save(SecretParcel(id: 1))
    } throws: {
      ($0 as? ObjectError)?.code == .invalidSchema
    }
  }
}
