// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Commands that show or change the store as a whole, for tests that compare whole states.
//
//   dump FROM TO               -> dump K=V ...   keys that are there, and `left` and `right`; a value
//                                 of `large` as `#COUNT`, a torn one as `TORN`
//   large K COUNT              -> ok             a text of "K." repeated
//   pair TEXT                  -> ok             `left` and `right`, in one transaction
//   removeall, compact         -> ok
//   checkpoint                 -> ok             the periodic checkpoint, whose time has come
//   keys                       -> keys COUNT     a scan of all entries

import Larder
import LarderEngine
import LarderTesting

extension Peer {
  func whole(_ command: String, _ words: [Substring]) throws -> String {
    switch command {
    case "dump": return try dump(number(words[0]), number(words[1]))
    case "large":
      let key = try number(words[0])
      try numbers.setValue(LargeText.make(key, count: number(words[1])), forKey: key)
      return "ok"
    case "pair":
      let bytes = Array(words[0].utf8)
      try store.write { transaction in
        try transaction.setBytes(bytes, forKey: "left")
        try transaction.setBytes(bytes, forKey: "right")
      }
      return "ok"
    case "commit": return try commit(words)
    case "history": return try history()
    case "keys": return "keys \(try numbers.keys().count)"
    case "compact":
      try store.core.compact()
      return "ok"
    case "checkpoint":
      try store.core.syncIfDue(now: .max / 2)
      return "ok"
    case "removeall":
      try store.removeAll()
      return "ok"
    case "folder": return try folder(words)
    case "bounded", "huge", "archive", "archived", "unarchive":
      return try bounded(command, words)
    default: return try people(command, words)
    }
  }

  private func dump(_ from: Int, _ to: Int) throws -> String {
    var words = ["dump"]
    for key in from..<to {
      guard let text = try numbers.value(forKey: key) else { continue }
      words.append("\(key)=\(LargeText.short(text, key))")
    }
    for key in ["left", "right"] {
      guard let bytes = try store.bytes(forKey: key) else { continue }
      words.append("\(key)=\(String(decoding: bytes, as: UTF8.self))")
    }
    return words.joined(separator: " ")
  }
}

/// A text of several chunks, abbreviated to one word if it is complete.
enum LargeText {
  static func make(_ key: Int, count: Int) -> String { String(repeating: "\(key).", count: count) }

  static func short(_ text: String, _ key: Int) -> String {
    let unit = "\(key)."
    guard text.utf8.count > 100 else { return text }
    let count = text.utf8.count / unit.utf8.count
    return text == make(key, count: count) ? "#\(count)" : "TORN"
  }
}
