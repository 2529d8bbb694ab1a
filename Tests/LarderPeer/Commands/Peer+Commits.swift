// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Numbered commits of several processes, whose order the store itself contains.
//
//   commit NAME INDEX SIZE     -> ack NAME INDEX   the next number, with a value of SIZE bytes
//   history                    -> history NAME.INDEX ...   of each number, in order; `?` for a value that is
//                                 missing or torn, and at the end one that has no number

import Larder
import LarderTesting

extension Peer {
  func commit(_ words: [Substring]) throws -> String {
    let (name, index, size) = (words[0], words[1], try number(words[2]))
    try store.write { transaction in
      let count = try Self.count(transaction.bytes(forKey: "count")) + 1
      try transaction.setBytes(Array("\(count)".utf8), forKey: "count")
      try transaction.setBytes(
        Self.value(String(name), String(index), size: size), forKey: "commit \(count)")
    }
    if words.last == "sync" { try store.sync() }
    return "ack \(name) \(index)"
  }

  func history() throws -> String {
    let count = try Self.count(store.bytes(forKey: "count"))
    var words = ["history"]
    for number in 0..<count {
      words.append(try Self.text(store.bytes(forKey: "commit \(number + 1)")) ?? "?")
    }
    if try store.bytes(forKey: "commit \(count + 1)") != nil { words.append("?") }
    return words.joined(separator: " ")
  }

  private static func count(_ bytes: [UInt8]?) -> Int {
    bytes.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
  }

  private static func value(_ name: String, _ index: String, size: Int) -> [UInt8] {
    let start = Array("\(name).\(index) \(size) ".utf8)
    return start + (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ size) }
  }

  private static func text(_ bytes: [UInt8]?) -> String? {
    guard let bytes else { return nil }
    let words = bytes.split(separator: UInt8(ascii: " "), maxSplits: 2)
      .prefix(2).map { String(decoding: $0, as: UTF8.self) }
    let name = words.first?.split(separator: ".") ?? []
    guard words.count == 2, name.count == 2, let size = Int(words[1]),
      bytes == value(String(name[0]), String(name[1]), size: size)
    else { return nil }
    return words[0]
  }
}
