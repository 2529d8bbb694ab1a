// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine
import LarderObjects
import LarderTesting

/// A type with a field of every kind that queries support, and indexes over most.
struct Person: Storable, Equatable {
  struct Address: Codable, Equatable, Sendable {
    var city: String
    var zip: String?
  }

  let id: Int
  var name: String
  var age: Int
  var nick: String?
  var tags: [String] = []
  var weight: Double = 0
  var born = Date(timeIntervalSince1970: 0)
  var token = UUID(uuidString: "00000000-0000-0000-0000-000000000000")!
  var isAdult = false
  var address = Address(city: "")
  var picture = Data()

  static let indexes = [
    Index<Person>("name", \.name), Index("age", \.age), Index("nick and age", \.nick, \.age),
    Index("tag", each: \.tags), Index("weight", \.weight), Index("born", \.born),
    Index("token", \.token, unique: true), Index("city", \.address.city),
    Index("zip", \.address.zip),
    Index("age and name", .ascending(\Person.age), .descending(\Person.name)),
    Index("nick", .ignoringCase(\Person.nick), .descending(\Person.weight)),
  ]

  static let words = [
    "", "a", "ab", "b", "Anna", "anna", "Ärger", "e\u{301}clair", "éclair", "zebra", "a\u{0}b",
    String(repeating: "long ", count: 120) + "a", String(repeating: "long ", count: 120) + "b",
  ]

  static func random(_ id: Int, _ random: inout SeededRandom) -> Person {
    Person(
      id: id, name: words.randomElement(using: &random)!,
      age: Int.random(in: -3...12, using: &random),
      nick: random.chance(30) ? nil : words.randomElement(using: &random)!,
      tags: (0..<Int.random(in: 0...3, using: &random)).map { _ in
        words.randomElement(using: &random)!
      },
      weight: [0, -0.0, 1, 2.5, 3, 0.1, .infinity, 1e300].randomElement(using: &random)!,
      born: Date(timeIntervalSinceReferenceDate: Double.random(in: -4e8...4e8, using: &random)),
      token: UUID(), isAdult: random.chance(50),
      address: Address(
        city: words.randomElement(using: &random)!,
        zip: random.chance(50) ? nil : words.randomElement(using: &random)!),
      picture: Data((0..<Int.random(in: 0...5, using: &random)).map { UInt8($0) }))
  }
}

/// A fresh store of objects, seen with and without their types.
struct StoreFixture {
  let directory: TemporaryDirectory
  let store: ObjectStore
  let untyped: DynamicObjects

  init() throws {
    directory = try TemporaryDirectory()
    store = try ObjectStore(at: directory.path + "/store", StoreOptions())
    untyped = DynamicObjects(store.storage)
  }

  func type(_ name: String) throws -> ObjectTypeRecord { try untyped.type(named: name) }

  func ids(_ query: DynamicQuery, _ type: ObjectTypeRecord) throws -> [String] {
    var ids: [String] = []
    try untyped.query(query, of: type) {
      ids.append($0.id)
      return true
    }
    return ids
  }

  func ids(_ text: String, sort: String? = nil, _ name: String = "Person") throws -> [String] {
    let query = DynamicQuery(
      condition: try QueryParser.condition(text),
      sort: try sort.map { try QueryParser.sort($0) } ?? [])
    return try ids(query, type(name))
  }
}
