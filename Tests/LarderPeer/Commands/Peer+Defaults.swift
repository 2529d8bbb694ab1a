// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Commands about defaults, each after the word `defaults`:
//
//   open PATH             -> ok
//   shared                opens those of the program -> PATH
//   set K TEXT, float K NUMBER, remove K -> ok
//   get K                 -> value TEXT | none
//   number K              a Float -> value NUMBER | none
//   own PREFIX COUNT      sets COUNT separate keys, each to its number -> ok
//   acked PREFIX FROM TO  sets separate keys, and in the same commit PREFIX to the number
//                         -> ack NUMBER, for each
//   bump K COUNT          adds one COUNT times -> ok
//   initial K TEXT        get(or:) -> value TEXT
//   migrate NAME          migrates a suite of UserDefaults -> migrated KEYS | done
//   old NAME K TEXT       writes a suite of UserDefaults -> ok

import Foundation
import LarderDefaults
import LarderTesting

extension Peer {
  func defaults(_ words: [Substring]) throws -> String {
    let key = words.count > 1 ? String(words[1]) : ""
    let text = words.dropFirst(2).joined(separator: " ")
    switch words[0] {
    case "open":
      openedDefaults = try Defaults(at: key)
      return "ok"
    case "shared":
      openedDefaults = .shared
      return Defaults.shared.path
    case "old":
      UserDefaults.standard.setPersistentDomain([String(words[2]): String(words[3])], forName: key)
      return "ok"
    default: break
    }
    let defaults = try openedDefaults ?? refuse("open defaults first")
    switch words[0] {
    case "set": try defaults.setValue(text, forKey: key)
    case "float": try defaults.setValue(Float(text) ?? refuse("no number"), forKey: key)
    case "remove": defaults.set(nil as String?, key: key)
    case "get": return try defaults.value(String.self, forKey: key).map { "value \($0)" } ?? "none"
    case "number":
      return try defaults.value(Float.self, forKey: key).map { "value \($0)" } ?? "none"
    case "own":
      for index in 0..<(try number(words[2])) { defaults.set(index, key: "\(key)\(index)") }
    case "acked":
      for index in try number(words[2])..<number(words[3]) {
        try defaults.write { values in
          try values.setValue(index, forKey: "\(key)\(index)")
          try values.setValue(index, forKey: key)
        }
        ParentProcess.send("ack \(index)")
      }
    case "bump":
      for _ in 0..<(try number(words[2])) {
        try defaults.update(Int.self, forKey: key) { $0 = ($0 ?? 0) + 1 }
      }
    case "initial": return "value \(defaults.get(or: text, key: key))"
    case "migrate":
      guard let keys = try defaults.migrate(fromUserDefaults: key) else { return "done" }
      return "migrated \(keys.joined(separator: " "))"
    default: return try refuse("no command defaults \(words[0])")
    }
    return "ok"
  }
}
