// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Macros
import Foundation
import Larder
import LarderCoding
import LarderDefaults
import LarderDynamic
import LarderEngine
import LarderTesting

// What one command prints the others take, and programs and commands read each other's values.

/// A key of several parts.
private struct PlaceKey: CacheKey {
  let city: String
  let number: Int
  let isOpen: Bool
  static var keyTag: KeyTag { .composite }
  func encodeKey(into encoder: inout KeyEncoder) {
    encoder.appendComponent(city)
    encoder.appendComponent(number)
    encoder.appendComponent(isOpen)
  }
}

extension ToolFuzzTrial {
  // MARK: Entries

  mutating func passEntries(_ totals: inout ToolFuzzTotals) throws {
    let cached = try ToolProcess(store: directory.appending("cache"))
    let cache = try SharedStore(at: cached.store)
    defer { cache.close() }
    let namespaces = ["", "n", "a/b", "e\u{301}", "-x"]
    func keep<Key: CacheKey>(_ keys: [Key]) throws {
      for key in keys {
        let name = namespaces.randomElement(using: &random)!
        let text = ToolValues.text(&random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0:
          try PersistentCache<Key, String>(storage: cache, namespace: name).setValue(
            text, forKey: key)
        case 1:
          try PersistentCache<Key, Int>(storage: cache, namespace: name)
            .setValue(ToolValues.integer(&random), forKey: key)
        case 2:
          try PersistentCache<Key, Data>(storage: cache, namespace: name)
            .setValue(ToolValues.data(&random), forKey: key)
        case 3:
          try PersistentCache<Key, [String: Double]>(storage: cache, namespace: name)
            .setValue([text: ToolValues.real(&random)], forKey: key)
        default:
          try PersistentCache<Key, CratePart>(storage: cache, namespace: name)
            .setValue(ToolValues.part(&random), forKey: key)
        }
      }
    }
    let texts =
      ToolValues.list(&random, ToolValues.text) + ToolValues.list(&random, ToolValues.text)
    try keep(texts.filter { !$0.isEmpty })
    try keep(ToolValues.list(&random) { ToolValues.integer(&$0) as Int })
    try keep(ToolValues.list(&random) { ToolValues.integer(&$0) as UInt64 })
    try keep(ToolValues.list(&random, ToolValues.uuid))
    try keep(ToolValues.list(&random, ToolValues.data).filter { !$0.isEmpty && $0.count < 400 })
    try keep(ToolValues.list(&random, ToolValues.real))
    try keep(ToolValues.list(&random, ToolValues.date))
    try keep(ToolValues.list(&random, ToolValues.url))
    try keep([true, false])
    try keep(
      ToolValues.list(&random) {
        PlaceKey(city: ToolValues.text(&$0), number: ToolValues.integer(&$0), isOpen: $0.chance(50))
      }.filter { $0.city.utf8.count < 300 })
    let list = try cached.on("list", ["--json"])
    totals.processes += 1
    for line in list.lines where random.chance(50) {
      try readKey(line, in: cached, &totals)
    }
    try exportEntries(of: cached, list.lines.count, &totals)
    // Each line names exactly one entry.
    let removed = try cached.on("remove", ["--stdin"], input: list.lines)
    totals.processes += 2
    let left = try cached.on("list", ["--json"])
    if removed.status != .exited(0) || !left.lines.isEmpty {
      totals.violate(
        "remove", "\(place): \(removed.status) \(removed.standardError)\nleft \(left.lines)")
    }
    totals.keys += list.lines.count
  }

  /// Reads and explains the key of a line.
  private func readKey(
    _ line: String, in cached: ToolProcess, _ totals: inout ToolFuzzTotals
  ) throws {
    let value = try JSONReader.value(Array(line.utf8))
    func text(_ name: String) -> String {
      if case .text(let text)? = FieldPath([name]).value(in: value) { text } else { "?" }
    }
    let key = text("key")
    // A process has no argument with this character; `remove --stdin` takes the line.
    if key.contains("\0") { return }
    let options = ["--namespace=\(text("namespace"))", "--key-type", text("keyType"), "--json"]
    for command in ["get", "explain"] {
      let outcome = try cached.on(command, options + ["--", key])
      totals.processes += 1
      guard outcome.status == .exited(0),
        let answer = try? JSONReader.value(Array(outcome.output.utf8)),
        FieldPath(["key"]).value(in: answer) == .text(key),
        FieldPath(["valueBytes"]).value(in: answer) == FieldPath(["valueBytes"]).value(in: value)
      else {
        totals.violate(command, "\(place)\n\(line)\n\(outcome)")
        continue
      }
    }
  }

  /// Imports an export in each format, and exports the copy.
  private func exportEntries(
    of cached: ToolProcess, _ count: Int, _ totals: inout ToolFuzzTotals
  ) throws {
    let other = try ToolProcess(store: directory.appending("cache copy"))
    /// The lines of an export, without the time of the write: a store has no order.
    func lines(_ tool: ToolProcess) throws -> [String] {
      let outcome = try tool.on("export", ["-"])
      if outcome.status != .exited(0) { totals.violate("export", "\(place): \(outcome)") }
      return outcome.lines.map { $0.replacing(/"created":\d+,/, with: "") }.sorted()
    }
    let before = try lines(cached)
    if before.count != count { totals.violate("export", "\(place): \(before.count) of \(count)") }
    for format in ["jsonl", "cbor"] {
      let file = directory.appending("entries.\(format)")
      for (tool, command, arguments) in [
        (cached, "export", [file]), (other, "import", [file]),
      ] {
        let outcome = try tool.on(command, arguments)
        if outcome.status != .exited(0) { totals.violate(command, "\(place): \(outcome)") }
      }
      let after = try lines(other)
      if after != before {
        totals.violate("entries", "\(place), \(format):\n\(before)\n\(after)")
      }
      let cleared = try other.on("clear", ["--yes"])
      if cleared.status != .exited(0) { totals.violate("clear", "\(place): \(cleared)") }
    }
    totals.processes += 9
    totals.roundTrips += 2
  }

  // MARK: Defaults

  mutating func passDefaults(_ totals: inout ToolFuzzTotals) throws {
    let path = directory.appending("suite")
    let defaults = try Defaults(at: path)
    defer { defaults.close() }
    func check(_ key: String, _ outcome: ChildProcess.Outcome, _ wanted: String) {
      totals.processes += 1
      totals.keys += 1
      if outcome.status != .exited(0) || outcome.output != wanted {
        totals.violate("defaults", "\(place), \(key.debugDescription): \(wanted), not \(outcome)")
      }
    }
    for _ in 0..<3 {
      let key = ToolValues.text(&random) + "k"
      if key.contains("\0") { continue }
      let text = ToolValues.text(&random).replacingOccurrences(of: "\0", with: "0")
      let real = ToolValues.real(&random)
      let number: Int = ToolValues.integer(&random)
      func read() throws -> ChildProcess.Outcome {
        try tool.run(["defaults", "read", path, "--", key])
      }
      func write(_ type: String, _ value: String) throws {
        let outcome = try tool.run(["defaults", "write", path, "--type", type, "--", key, value])
        if outcome.status != .exited(0) { totals.violate("defaults", "\(place): \(outcome)") }
      }
      switch Int.random(in: 0..<4, using: &random) {
      case 0:
        try defaults.setValue(text, forKey: key)
        check(key, try read(), text + "\n")
        try write("text", text + "!")
        if try defaults.value(String.self, forKey: key) != text + "!" {
          totals.violate("defaults", "\(place): \(text.debugDescription) is another text")
        }
      case 1:
        try defaults.setValue(real, forKey: key)
        check(key, try read(), "\(real)\n")
        try write("double", "\(-real)")
        let found = try defaults.value(Double.self, forKey: key)
        if found != -real && !real.isNaN {
          totals.violate("defaults", "\(place): \(real), \(found ?? 0)")
        }
      case 2:
        try defaults.setValue(number, forKey: key)
        check(key, try read(), "\(number)\n")
        try write("integer", "\(number ^ 1)")
        if try defaults.value(Int.self, forKey: key) != number ^ 1 {
          totals.violate("defaults", "\(place): \(number)")
        }
      default:
        try defaults.setValue([text: [number]], forKey: key)
        let item = number < 0 ? CBORValue.negative(UInt64(-1 - number)) : .unsigned(UInt64(number))
        let json = CBORValue.map([.init(.text(text), .array([item]))])
        check(key, try read(), json.jsonText(pretty: false) + "\n")
        try write("json", json.jsonText(pretty: false))
        if try defaults.value([String: [Int]].self, forKey: key) != [text: [number]] {
          totals.violate("defaults", "\(place): \(json.jsonText())")
        }
      }
      let deleted = try tool.run(["defaults", "delete", path, "--", key])
      if try deleted.status != .exited(0) || defaults.has(key) {
        totals.violate("defaults", "\(place): \(deleted)")
      }
      totals.processes += 2
    }
  }

  // MARK: Queues

  mutating func passQueue(_ totals: inout ToolFuzzTotals) throws {
    let queued = try ToolProcess(store: directory.appending("queue"))
    let texts = (0..<4).map { _ in
      ToolValues.text(&random).replacingOccurrences(of: "\0", with: "0") + "q"
    }
    let pushed = try queued.on("queue push", ["--", "jobs \u{e9}"] + texts.map { "x" + $0 })
    let queue = try SharedStore(at: queued.store, StoreOptions(durability: .durable))
    defer { queue.close() }
    let deque = SharedDeque<String>(storage: queue, name: "jobs \u{e9}")
    try deque.push("last")
    var found: [String] = []
    for _ in 0..<2 { found.append(try queued.on("queue pop", ["--", "jobs \u{e9}"]).output) }
    while let next = try deque.popFirst() { found.append(next + "\n") }
    totals.processes += 3
    totals.keys += 5
    let wanted = texts.map { "x" + $0 + "\n" } + ["last\n"]
    if found != wanted { totals.violate("queue", "\(place): \(found), not \(wanted): \(pushed)") }
  }
}
#endif
