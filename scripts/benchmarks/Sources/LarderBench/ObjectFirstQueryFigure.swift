// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import LarderSchema

/// An object of sixteen fields.
@Storable struct Record {
  let id: Int
  var name: String
  var city: String
  var street: String
  var note: String?
  var phone: String?
  @Indexed var year: Int
  var month: Int
  var day: Int
  var count: Int
  var weight: Double
  var height: Double
  var width: Double
  var created: Date
  var isActive: Bool
  var isPaid: Bool

  static func sample(_ number: Int) -> Record {
    Record(
      id: number, name: "name \(number)", city: "city \(number % 7)",
      street: "street \(number % 50)",
      note: number % 3 == 0 ? nil : "note", phone: nil, year: 1950 + number % 70,
      month: number % 12, day: number % 28, count: number, weight: Double(number) / 4, height: 1,
      width: 2, created: Date(timeIntervalSince1970: Double(number)), isActive: number % 2 == 0,
      isPaid: number % 5 == 0)
  }
}

/// The first query of a process: what the type's declaration, its catalog and the planner take
/// before anything is in memory.
struct ObjectFirstQueryFigure {
  let directory: String
  let isQuick: Bool

  func firstQuery() throws -> Figure {
    try Files.make(directory)
    let store = try ObjectStore(at: directory + "/store")
    try store.save((0..<1000).map(Record.sample))
    store.close()
    let queue = try DatabaseQueue(path: directory + "/rows.sqlite")
    try queue.write { db in
      try db.execute(sql: "CREATE TABLE row (id INTEGER PRIMARY KEY, year INTEGER, city TEXT)")
      try db.execute(sql: "CREATE INDEX year ON row(year)")
      for number in 0..<1000 {
        try db.execute(
          sql: "INSERT INTO row VALUES (?, ?, ?)",
          arguments: [number, 1950 + number % 70, "city \(number % 7)"])
      }
    }
    try queue.close()
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { _ in
      try time("larder")
    } rival: { _ in
      try time("sqlite")
    }
    return Figure(
      id: "objects.first_query", value: result.own / 1e6, unit: "ms", bar: .atMost(2),
      own: result.own / 1e6, rival: "GRDB: the same rows of three columns, in a process of its own",
      rivalValue: result.rival / 1e6, rivalUnit: "ms", spread: result.ownSpread.divided(by: 1e6))
  }

  private func time(_ side: String) throws -> Double {
    let child = try Child(["--child-first", side, directory])
    let nanoseconds = try child.number()
    try child.finish()
    return nanoseconds
  }

  /// Opens the store, and prints the time of the first query after that.
  static func child(_ side: String, _ directory: String) throws {
    if side == "larder" {
      let store = try ObjectStore(at: directory + "/store")
      let time = try Rounds.nanoseconds {
        keep(
          try store.objects(Record.self).where { $0.year == 1999 && $0.city == "city 0" }
            .sorted(by: \.name).limit(10).fetch())
      }
      Child.say("\(time)")
    } else {
      let queue = try DatabaseQueue(path: directory + "/rows.sqlite")
      let time = try Rounds.nanoseconds {
        keep(
          try queue.read { db in
            try Row.fetchAll(
              db, sql: "SELECT * FROM row WHERE year = ? AND city = ? ORDER BY id LIMIT 10",
              arguments: [1999, "city 0"])
          })
      }
      Child.say("\(time)")
    }
  }
}
