// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Types with a budget, after `people PATH`.
//
//   bounded COUNT SEED   saves, reads, deletes and queries leaves at random -> bounded SAVES MISTAKES
//   huge FROM            saves one object of 200 kB once and again and again, each time of another digit,
//                        until the next line comes -> wrote TIMES
//   archive KEY TEXT     -> ok
//   archived KEY         -> value TEXT | none
//   unarchive KEY        -> ok

import LarderArchive
import LarderEngine
import LarderObjects
import LarderTesting

struct Leaf: Storable, Equatable {
  let id: Int
  var tag: Int
  var text: String
  static let storedName = "Leaf"
  static let budget: ObjectBudget? = ObjectBudget(bytes: .bytes(60_000), count: 150)
  static let indexes = [Index<Leaf>("tag", \.tag)]
}

struct Large: Storable {
  let id: String
  var text: String
  static let storedName = "Large"
}

struct Scrap: CodableArchivable {
  var key: String
  var text: String
  var primaryKey: String { key }
  static let archiveName = "Scrap"
}

extension Peer {
  func bounded(_ command: String, _ words: [Substring]) throws -> String {
    let store = try objects
    switch command {
    case "bounded": return try grow(count: number(words[0]), seed: UInt64(number(words[1])))
    case "huge":
      let stop = NextLine()
      var times = try number(words[0])
      repeat {
        try store.save(Large(id: "one", text: String(repeating: "\(times % 10)", count: 200_000)))
        times += 1
      } while !stop.hasCome
      stop.join()
      return "wrote \(times)"
    default: break
    }
    let scraps = try CacheManager<Scrap>(store).throwing
    switch command {
    case "archive": try scraps.insert(Scrap(key: String(words[0]), text: String(words[1])))
    case "archived":
      return try scraps.get(objectWithKey: String(words[0])).map { "value \($0.text)" } ?? "none"
    default: try scraps.delete(objectWithKey: String(words[0]))
    }
    return "ok"
  }

  private func grow(count: Int, seed: UInt64) throws -> String {
    let store = try objects
    var random = SeededRandom(seed: seed)
    var saves = 0
    var mistakes = 0
    func leaf() -> Leaf {
      let id = Int.random(in: 0..<1000, using: &random)
      let length = random.chance(3) ? 40_000 : Int.random(in: 0...900, using: &random)
      return Leaf(
        id: id, tag: id % 7, text: "\(id) " + String(repeating: "x", count: length))
    }
    for _ in 0..<count {
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<4:
        try store.save(leaf())
        saves += 1
      case 4:
        try store.save((0..<Int.random(in: 1...30, using: &random)).map { _ in leaf() })
        saves += 1
      case 5:
        let id = Int.random(in: 0..<1000, using: &random)
        try store.delete(Leaf.self, id: id)
      case 6:
        let tag = Int.random(in: 0..<7, using: &random)
        let found = try store.objects(Leaf.self).where(\.tag == tag).fetch()
        if found.contains(where: { $0.tag != tag || $0.id % 7 != tag }) { mistakes += 1 }
      default:
        let id = Int.random(in: 0..<1000, using: &random)
        if let found = try store.object(Leaf.self, id: id), !found.text.hasPrefix("\(id) ") {
          mistakes += 1
        }
      }
      let usage = try store.usage(of: Leaf.self)
      if usage.bytes > .bytes(60_000) || usage.count > 150 { mistakes += 1 }
    }
    return "bounded \(saves) \(mistakes)"
  }
}
