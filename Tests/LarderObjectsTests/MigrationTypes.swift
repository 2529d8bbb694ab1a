// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderObjects

// The versions of one stored type, as programs of several years would have them.

struct PersonV1: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [Index<PersonV1>("name", \.name)]
}

struct PersonV2: Storable, Equatable {
  let id: Int
  var name: String
  var age: Int
  static let storedName = "Person"
  static let schemaVersion = 2
  static let indexes = [
    Index<PersonV2>("name", \.name, unique: true), Index<PersonV2>("age", \.age),
  ]
}

/// The error for ages that are not numbers.
struct NoNumber: Error, CustomStringConvertible {
  let text: String
  var description: String { "\"\(text)\" is no number" }
}

enum Years {
  static let name = "ages are numbers"

  static func convert(_ old: PersonV1) throws -> PersonV2 {
    guard let age = Int(old.age) else { throw NoNumber(text: old.age) }
    return PersonV2(id: old.id, name: old.name, age: age)
  }

  static let step = ObjectMigration.objects(name, convert)

  static func people(_ range: Range<Int>) -> [PersonV1] {
    range.map { PersonV1(id: $0, name: "n\($0)", age: "\($0 % 90)") }
  }
}

/// The same as version 1 under another name.
struct Human: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Human"
}

/// Version 1 with one field more, in the same version.
struct PersonWithMail: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  var mail: String?
  static let storedName = "Person"
  static let indexes = [Index<PersonWithMail>("name", \.name)]
}

/// Version 1 with another kind of field, in the same version.
struct PersonWithNumber: Storable, Equatable {
  let id: Int
  var name: String
  var age: Int
  static let storedName = "Person"
  static let indexes = [Index<PersonWithNumber>("name", \.name)]
}

/// A version 2 that what is stored decodes as, and that old programs may read.
struct PersonWithNote: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  var note: String?
  static let storedName = "Person"
  static let schemaVersion = 2
  static let minimumReaderVersion = 1
  static let indexes = [Index<PersonWithNote>("name", \.name)]
}

/// The result of the field changes of version 1.
struct PersonOfFields: Storable, Equatable {
  let id: Int
  var title: String
  var wheels: Int
  static let storedName = "Person"
  static let schemaVersion = 3
  static let indexes = [Index<PersonOfFields>("name", \.title)]
}

enum Colour: String, Codable, Sendable { case red, green }

/// A declaration that is complete only with an object at hand.
struct Painted: Storable, Equatable {
  let id: Int
  var colour: Colour
  var size: Double
  static let storedName = "Painted"
}

struct PaintedTwice: Storable, Equatable {
  let id: Int
  var colour: Colour
  var size: Double
  var coats: Int?
  static let storedName = "Painted"
}
