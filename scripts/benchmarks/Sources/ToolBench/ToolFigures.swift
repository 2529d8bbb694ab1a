// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// What the tool costs, each figure over whole processes.
struct ToolFigures {
  let tool: String
  let directory: String
  let isQuick: Bool

  var all: [(ids: [String], body: () throws -> [Figure])] {
    [
      (["tool.memo_hit_ms"], memoHit), (["tool.stat_1gb_ms"], statistics),
      (
        [
          "tool.import_per_s", "tool.import_memory_mb", "tool.export_per_s",
          "tool.export_memory_mb",
        ], transfer
      ),
    ]
  }

  private func larder(_ arguments: [String], output: String = "/dev/null") throws -> LaunchedProcess
  {
    let result = try LaunchedProcess(tool, arguments, output: output)
    guard result.status == 0 else {
      throw BenchFailure("larder \(arguments.joined(separator: " ")) ended with \(result.status).")
    }
    return result
  }

  /// A result that is there: the whole process, from its start to its end, and `/bin/true` so.
  func memoHit() throws -> [Figure] {
    let store = directory + "/memo"
    let arguments = ["memo", "--store", store, "--ttl", "1h", "--", "echo", "hello"]
    _ = try larder(arguments)
    let result = try Rounds.compare(count: 20) { _ in
      try larder(arguments).milliseconds
    } rival: { _ in
      try LaunchedProcess("/bin/true", [], output: "/dev/null").milliseconds
    }
    return [
      Figure(
        id: "tool.memo_hit_ms", value: result.own, unit: "ms", bar: .atMost(8), own: result.own,
        rival: "/bin/true, started in the same way", rivalValue: result.rival, rivalUnit: "ms",
        spread: result.ownSpread)
    ]
  }

  /// `larder stat` of a store with 1 GB in it.
  func statistics() throws -> [Figure] {
    let store = directory + "/big"
    defer { Files.remove(store) }
    let file = directory + "/big.jsonl"
    let count = 1 << 16
    let value = String(repeating: "v", count: 16 << 10)
    try write(file, count: count) { "{\"key\":\"key-\($0)\",\"text\":\"\(value)\"}\n" }
    defer { Files.remove(file) }
    // A durable store has no budget unless a program gives it one.
    _ = try larder(["import", file, "--store", store, "--durability", "durable"])
    let size = try FileManager.default.attributesOfItem(atPath: store + "/g-1/data.mdb")[.size]
    guard size as? Int ?? 0 >= 1 << 30 else { throw BenchFailure("The store is too small.") }
    let result = try Rounds.compare(count: 20) { _ in
      try larder(["stat", "--store", store]).milliseconds
    } rival: { _ in
      try LaunchedProcess("/bin/true", [], output: "/dev/null").milliseconds
    }
    return [
      Figure(
        id: "tool.stat_1gb_ms", value: result.own, unit: "ms", bar: .atMost(20), own: result.own,
        rival: "/bin/true, started in the same way", rivalValue: result.rival, rivalUnit: "ms",
        spread: result.ownSpread)
    ]
  }

  /// 1,000,000 entries of a text of 100 characters, from lines of JSON into a new store and back.
  func transfer() throws -> [Figure] {
    let count = isQuick ? 100_000 : 1_000_000
    let file = directory + "/entries.jsonl"
    let store = directory + "/transfer"
    let value = String(repeating: "0123456789", count: 10)
    try write(file, count: count) {
      "{\"key\":\"key-\($0)\",\"expires\":\(4_000_000_000_000 + $0),\"text\":\"\(value)\"}\n"
    }
    let back = directory + "/back.jsonl"
    let importing = try larder(["import", file, "--store", store])
    let exporting = try larder(["export", back, "--store", store])
    let lines = try LaunchedProcess(
      "/bin/sh", ["-c", "test $(wc -l < \(back)) = \(count)"], output: "/dev/null")
    guard lines.status == 0 else { throw BenchFailure("Not every entry came back.") }
    for path in [file, back, store] { Files.remove(path) }
    func figures(_ name: String, _ run: LaunchedProcess) -> [Figure] {
      let rate = Double(count) / run.milliseconds * 1000
      return [
        Figure(
          id: "tool.\(name)_per_s", value: rate, unit: "/s", bar: .atLeast(200_000), own: rate,
          rival: "none; \(count) entries, whole process", rivalValue: 0, rivalUnit: "/s"),
        Figure(
          id: "tool.\(name)_memory_mb", value: run.peakMegabytes, unit: "MB", bar: .atMost(64),
          own: run.peakMegabytes,
          rival: "with the mapped pages of the files", rivalValue: run.residentMegabytes,
          rivalUnit: "MB"),
      ]
    }
    return figures("import", importing) + figures("export", exporting)
  }

  private func write(_ path: String, count: Int, _ line: (Int) -> String) throws {
    guard FileManager.default.createFile(atPath: path, contents: nil),
      let file = FileHandle(forWritingAtPath: path)
    else { throw BenchFailure("\(path) cannot be written.") }
    var buffer = Data()
    for number in 0..<count {
      buffer.append(contentsOf: line(number).utf8)
      if buffer.count > 1 << 20 {
        try file.write(contentsOf: buffer)
        buffer.removeAll(keepingCapacity: true)
      }
    }
    try file.write(contentsOf: buffer)
    try file.close()
  }
}
