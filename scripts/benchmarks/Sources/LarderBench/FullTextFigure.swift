// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import LarderSchema

/// A document with a title and about sixty words of text, as frequent as words are in a language: the
/// frequency of a word is inversely proportional to its rank.
@Storable struct TextDocument: Equatable {
  let id: Int
  var title: String
  var body: String

  static let indexes = [Index<TextDocument>("text", fullText: \.title, \.body)]

  static func sample(_ number: Int) -> TextDocument {
    var numbers = Numbers(seed: UInt64(number) &+ 77)
    let words = (0..<Int.random(in: 30...90, using: &numbers)).map { _ in word(&numbers) }
    return TextDocument(
      id: number, title: words.prefix(5).joined(separator: " "),
      body: words.joined(separator: " "))
  }

  private static func word(_ numbers: inout Numbers) -> String {
    word(rank: Int(exp(Double.random(in: 0..<log(20_000), using: &numbers))))
  }

  /// A pronounceable word.
  static func word(rank: Int) -> String {
    var rest = rank &* 7919 % 20_011 + 500
    var word = ""
    while rest > 0 {
      word += Self.syllables[rest % Self.syllables.count]
      rest /= Self.syllables.count
    }
    return word
  }

  private static let syllables = [
    "ba", "con", "di", "fer", "go", "hal", "in", "jo", "kel", "lu", "men", "nor", "os", "pra",
    "qui",
    "ras", "sto", "tu", "ver", "zen",
  ]
}

/// Full-text search in 100,000 documents, beside SQLite's FTS5.
final class FullTextFigure {
  private let directory: String
  private let store: ObjectStore
  private let queue: DatabaseQueue
  private let rounds: Int
  private let times: (own: Double, theirs: Double)

  init(directory: String, isQuick: Bool) throws {
    try Files.make(directory)
    self.directory = directory
    rounds = isQuick ? 11 : 51
    let store = try ObjectStore(at: directory + "/documents")
    let queue = try DatabaseQueue(path: directory + "/documents.sqlite")
    try queue.write { db in
      try db.execute(sql: "CREATE VIRTUAL TABLE document USING fts5(title, body)")
    }
    var times = (own: 0.0, theirs: 0.0)
    for start in stride(from: 0, to: 100_000, by: 5_000) {
      let documents = (start..<start + 5_000).map(TextDocument.sample)
      times.own += try Rounds.nanoseconds { try store.save(documents) }
      times.theirs += try Rounds.nanoseconds {
        try queue.write { db in
          for document in documents {
            try db.execute(
              sql: "INSERT INTO document (rowid, title, body) VALUES (?, ?, ?)",
              arguments: [document.id, document.title, document.body])
          }
        }
      }
    }
    (self.store, self.queue, self.times) = (store, queue, times)
  }

  deinit { store.close() }

  func search() throws -> Figure {
    func words(_ round: Int) -> String {
      TextDocument.word(rank: 3 + round % 17) + " " + TextDocument.word(rank: 20 + round * 7)
    }
    for round in 0..<20 {
      let own = try store.objects(TextDocument.self).matching(words(round)).count()
      let theirs = try queue.read { db in
        try Int.fetchOne(
          db, sql: "SELECT count(*) FROM document WHERE document MATCH ?",
          arguments: [words(round)])!
      }
      guard own == theirs else { throw BenchFailure("\(own) documents match; FTS5: \(theirs)") }
    }
    let sizes = try (
      Files.size(directory + "/documents"), Files.size(directory + "/documents.sqlite")
    )
    let rival =
      "SQLite FTS5: MATCH 'two words' ORDER BY rank LIMIT 20, 100,000 documents; import "
      + String(
        format: "%.1f s against %.1f s, file %.0f MiB against %.0f MiB", times.own / 1e9,
        times.theirs / 1e9, sizes.0, sizes.1)
    return try ObjectScanFigures.compare("objects.fulltext", .atLeast(1), rival, rounds: rounds) {
      round in
      try store.objects(TextDocument.self).matching(words(round)).limit(20).fetch().count
    } theirs: { round in
      try queue.read { db in
        try Row.fetchAll(
          db,
          sql:
            "SELECT rowid, title, body FROM document WHERE document MATCH ? ORDER BY rank LIMIT 20",
          arguments: [words(round)]
        ).map { TextDocument(id: $0[0], title: $0[1], body: $0[2]) }.count
      }
    }
  }
}
