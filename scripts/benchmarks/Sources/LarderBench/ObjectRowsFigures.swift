// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import LarderSchema

/// A row such as a package registry's list has.
@Storable struct PackageRow: Equatable {
  let id: Int
  var name: String
  var version: String
  var downloads: Int
  var text: String

  static let storedName = "Package"

  /// 80 bytes of text on average, as in the list.
  static func sample(_ number: Int) -> PackageRow {
    var numbers = Numbers(seed: UInt64(number))
    let words = (0..<Int.random(in: 4...14, using: &numbers)).map { _ in
      Self.words[Int(numbers.next() % UInt64(Self.words.count))]
    }
    return PackageRow(
      id: number, name: "package-\(number &* 7919 % 1_000_003)",
      version: "\(number % 9).\(number % 31).\(number % 7)",
      downloads: Int(numbers.next() % 100_000), text: words.joined(separator: " "))
  }

  private static let words = [
    "fast", "simple", "library", "parser", "for", "the", "web", "server", "client", "of", "JSON",
    "tools", "command", "line", "interface", "cache", "storage", "testing", "utilities", "async",
  ]
}

/// The next version: one property has another name, and one is new.
@Storable struct RenamedPackageRow {
  let id: Int
  var name: String
  var version: String
  @Attribute(name: "downloads") var fetches: Int
  var text: String
  var rating = 3

  static let storedName = PackageRow.storedName
}

/// 200,000 small rows without an index, beside the same table in SQLite.
final class ObjectRowsFigures {
  private let count: Int
  private let directory: String
  private let store: ObjectStore
  private let queue: DatabaseQueue
  private let rounds: Int

  init(directory: String, isQuick: Bool) throws {
    try Files.make(directory)
    self.directory = directory
    count = 200_000
    rounds = isQuick ? 5 : 21
    store = try ObjectStore(at: directory + "/rows")
    queue = try DatabaseQueue(path: directory + "/rows.sqlite")
    try queue.write { db in
      try db.execute(
        sql: """
          CREATE TABLE package (
            id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL,
            downloads INTEGER NOT NULL, text TEXT NOT NULL)
          """)
    }
    for start in stride(from: 0, to: count, by: 10_000) {
      let rows = (start..<start + 10_000).map(PackageRow.sample)
      try store.save(rows)
      try queue.write { db in
        for row in rows {
          try db.execute(
            sql: "INSERT INTO package VALUES (?, ?, ?, ?, ?)",
            arguments: [row.id, row.name, row.version, row.downloads, row.text])
        }
      }
    }
  }

  deinit { store.close() }

  func substring() throws -> Figure {
    try ObjectScanFigures.compare(
      "objects.rows_substring", .atLeast(1),
      "SQLite: SELECT count(*) … WHERE instr(text, ?), 200,000 rows", rounds: rounds
    ) { round in
      let part = "e \(PackageRow.sample(round).text.prefix(4))"
      return try store.objects(PackageRow.self).where { $0.text.contains(part) }.count()
    } theirs: { round in
      let part = "e \(PackageRow.sample(round).text.prefix(4))"
      return try queue.read { db in
        try Int.fetchOne(
          db, sql: "SELECT count(*) FROM package WHERE instr(text, ?)", arguments: [part])!
      }
    }
  }

  func group() throws -> Figure {
    try ObjectScanFigures.compare(
      "objects.rows_group", .atLeast(1),
      "SQLite: SELECT version, sum(downloads) … GROUP BY version, 200,000 rows", rounds: rounds
    ) { _ in
      try store.objects(PackageRow.self).grouped(by: \.version).sum(\.downloads)
    } theirs: { _ in
      try queue.read { db in
        var sums: [String: Int] = [:]
        let rows = try Row.fetchCursor(
          db, sql: "SELECT version, sum(downloads) FROM package GROUP BY version")
        while let row = try rows.next() { sums[row[0]] = row[1] }
        return sums
      }
    }
  }

  /// What both take on the disk.
  func file() throws -> Figure {
    let own = try Files.size(directory + "/rows")
    let theirs = try Files.size(directory + "/rows.sqlite")
    return Figure(
      id: "objects.rows_file", value: own / theirs, unit: "x", bar: .atMost(1.4), own: own,
      rival: "SQLite's file of the same rows; \(Int(own * 1_048_576) / count) against "
        + "\(Int(theirs * 1_048_576) / count) bytes a row", rivalValue: theirs, rivalUnit: "MiB")
  }

  /// The first query and the first save of a program with the next version of the type. No object
  /// is rewritten.
  func rename() throws -> Figure {
    let before = try store.read { try $0.count(PackageRow.self) }
    let again = ObjectStore(store.storage)
    var row: RenamedPackageRow?
    let time = try Rounds.nanoseconds {
      row = try again.object(RenamedPackageRow.self, id: 77)
      row?.rating = 5
      try again.save(row!)
    }
    let old = PackageRow.sample(77)
    guard row?.fetches == old.downloads,
      try again.objects(RenamedPackageRow.self).where(\.rating == 3).count() == before - 1,
      try store.object(PackageRow.self, id: 77) == old
    else { throw BenchFailure("The renamed property has another value.") }
    return Figure(
      id: "objects.rows_rename", value: time / 1e6, unit: "ms", bar: .atMost(50), own: time / 1e6,
      rival: "none; the old program reads on", rivalValue: 0, rivalUnit: "ms")
  }
}
