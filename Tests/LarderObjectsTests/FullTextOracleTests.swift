// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// Searches against a plain array.
@Suite struct FullTextOracleTests {
  private indirect enum Form {
    case word(String)
    case prefix(String)
    case phrase([String])
    case all(Form, Form)
    case any(Form, Form)
    case excluding(Form, Form)

    var text: String {
      switch self {
      case .word(let word): word
      case .prefix(let word): word + "*"
      case .phrase(let words): "\"" + words.joined(separator: " ") + "\""
      case .all(let left, let right): "(\(left.text) AND \(right.text))"
      case .any(let left, let right): "(\(left.text) OR \(right.text))"
      case .excluding(let left, let right): "(\(left.text) NOT \(right.text))"
      }
    }

    func holds(_ texts: [[String]]) -> Bool {
      switch self {
      case .word(let word): texts.contains { $0.contains(word) }
      case .prefix(let start): texts.contains { $0.contains { $0.hasPrefix(start) } }
      case .phrase(let words):
        texts.contains { text in
          text.indices.contains { text[$0...].starts(with: words) }
        }
      case .all(let left, let right): left.holds(texts) && right.holds(texts)
      case .any(let left, let right): left.holds(texts) || right.holds(texts)
      case .excluding(let left, let right): left.holds(texts) && !right.holds(texts)
      }
    }

    static func random(_ depth: Int, _ random: inout SeededRandom) -> Form {
      let word = FullTextOracleTests.word(&random)
      guard depth > 0, random.chance(60) else {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: return .prefix(String(word.prefix(2)))
        case 1: return .phrase([word, FullTextOracleTests.word(&random)])
        default: return .word(word)
        }
      }
      let (left, right) = (Form.random(depth - 1, &random), Form.random(depth - 1, &random))
      switch Int.random(in: 0..<3, using: &random) {
      case 0: return .all(left, right)
      case 1: return .any(left, right)
      default: return .excluding(left, right)
      }
    }
  }

  /// Few words are frequent, so that their postings need several blocks.
  private static func word(_ random: inout SeededRandom) -> String {
    let rank = min(
      Int.random(in: 0..<12, using: &random), Int.random(in: 0..<300, using: &random))
    return "w\(rank)"
  }

  private static func line(_ words: [String]) -> String { words.joined(separator: " ") }

  private static func texts(_ random: inout SeededRandom) -> [[String]] {
    (0..<2).map { _ in
      (0..<Int.random(in: 0...12, using: &random)).map { _ in word(&random) }
    }
  }

  private static func score(_ word: String, of texts: [[String]], in all: [[[String]]]) -> Double {
    let found = Double(all.count { $0.joined().contains(word) })
    let objects = Double(all.count { !$0.joined().isEmpty })
    let average = Double(all.reduce(0) { $0 + $1.joined().count }) / objects
    let occurrences = Double(texts.joined().count { $0 == word })
    let length = Double(texts.joined().count)
    return log(1 + (objects - found + 0.5) / (found + 0.5)) * occurrences * 2.2
      / (occurrences + 1.2 * (0.25 + 0.75 * length / average))
  }

  @Test(.timeLimit(.minutes(60)), arguments: [40, 3_000])
  func `Searches find what a scan finds after random changes`(count: Int) throws {
    let seed = Seed.announce()
    var random = SeededRandom(seed: seed.value)
    let ground = try StoreFixture(StoreOptions(durability: .relaxed))
    var model: [Int: [[String]]] = [:]
    for round in 0..<8 {
      // Large transactions merge many postings of a word, small ones a few.
      let size = round % 2 == 0 ? count : max(count / 50, 3)
      let changes = (0..<size).map { _ in
        let id = Int.random(in: 0..<count, using: &random)
        return (id: id, texts: random.chance(25) ? nil : Self.texts(&random))
      }
      for change in changes { model[change.id] = change.texts }
      try ground.store.write { transaction in
        for (id, texts) in changes {
          if let texts {
            try transaction.save(
              Article(id: id, title: Self.line(texts[0]), body: Self.line(texts[1])))
          } else {
            try transaction.delete(Article.self, id: id)
          }
        }
        // The postings so far are merged, and the transaction continues.
        if round % 3 == 0 {
          _ = try transaction.fetch(ground.store.objects(Article.self).matching("w1").limit(1))
          try transaction.save(Article(id: count, title: "w1", body: "w2"))
        }
      }
      if round % 3 == 0 { model[count] = [["w1"], ["w2"]] }
      for _ in 0..<12 {
        let form = Form.random(3, &random)
        let found = try ground.store.ids(form.text)
        let expected = model.filter { form.holds($0.value) }.keys.sorted()
        #expect(found == expected, "\(form.text), round \(round), \(seed)")
      }
    }
    let all = Array(model.values)
    for match in try ground.store.objects(Article.self).matching("w3").limit(20).matches() {
      let texts = try #require(model[match.object.id])
      let expected = Self.score("w3", of: texts, in: all)
      #expect(abs(match.score - expected) < 1e-9, "\(seed)")
    }
    #expect(try ground.store.storage.verify() == [], "\(seed)")
    // An empty index has no postings left.
    try ground.store.objects(Article.self).delete()
    #expect(try ground.store.storage.verify() == [], "\(seed)")
    #expect(try ground.store.ids("w1 OR w2 OR w*") == [], "\(seed)")
  }
}

extension ObjectStore {
  fileprivate func ids(_ text: String) throws -> [Int] {
    try objects(Article.self).matching(text).fetch().map(\.id).sorted()
  }
}
