// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import GRDB
import LarderSchema

/// The object of eight fields that the figures speak of.
@Storable struct Part: Equatable {
  let id: String
  var name: String
  var maker: String
  /// One in ten thousand: ten of 100,000 parts are of one lot.
  @Indexed var lot: Int
  @Indexed var price: Int
  var weight: Double
  var isActive: Bool
  var note: String?

  static let storedName = "Part"

  /// The same as GRDB stores it.
  var row: PartRow {
    PartRow(
      id: id, name: name, maker: maker, lot: lot, price: price, weight: weight, isActive: isActive,
      note: note)
  }

  static func sample(_ number: Int) -> Part {
    Part(
      id: id(number), name: "Part number \(number)", maker: "Maker \(number &* 31 % 97)",
      lot: number % 10_000, price: number &* 7919 % 1_000_003, weight: Double(number) * 0.25,
      isActive: number % 2 == 0, note: number % 4 == 0 ? nil : "shelf \(number % 500)")
  }

  static func id(_ number: Int) -> String {
    let digits = String(number)
    return "part-" + String(repeating: "0", count: 7 - digits.count) + digits
  }
}

/// A part as a user of GRDB writes it: `Codable` does the work.
struct PartRow: Codable, Equatable, FetchableRecord, PersistableRecord {
  let id: String
  var name: String
  var maker: String
  var lot: Int
  var price: Int
  var weight: Double
  var isActive: Bool
  var note: String?

  static let databaseTableName = "part"

  enum Columns {
    static let lot = Column("lot")
    static let price = Column("price")
    static let weight = Column("weight")
    static let isActive = Column("isActive")
    static let maker = Column("maker")
  }

  static func createTable(_ db: Database) throws {
    try db.create(table: databaseTableName) { table in
      table.primaryKey("id", .text)
      table.column("name", .text).notNull()
      table.column("maker", .text).notNull()
      table.column("lot", .integer).notNull().indexed()
      table.column("price", .integer).notNull().indexed()
      table.column("weight", .double).notNull()
      table.column("isActive", .boolean).notNull()
      table.column("note", .text)
    }
  }
}

/// The next version of a part, for the migration.
@Storable struct NewPart: Equatable {
  let id: String
  var name: String
  var maker: String
  @Indexed var lot: Int
  @Indexed var price: Int
  var grams: Int
  var isActive: Bool
  var note: String?

  static let storedName = "Part"
  static let schemaVersion = 2

  init(_ old: Part) {
    (id, name, maker, lot) = (old.id, old.name, old.maker, old.lot)
    (price, grams, isActive, note) = (old.price, Int(old.weight * 1000), old.isActive, old.note)
  }
}
