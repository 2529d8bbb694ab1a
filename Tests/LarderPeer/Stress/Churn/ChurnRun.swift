// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The words that the processes of a soak share.
enum ChurnWord: Int {
  case bytes, writes, removals, largestSum, largestFile
}

/// The result of a soak.
struct ChurnOutcome: Sendable {
  var bytes: UInt64 = 0
  var writes: UInt64 = 0
  var removals: UInt64 = 0
  var largestSum: UInt64 = 0
  var largestFile = 0
  var largestBlocks = 0
  var evictions = 0
  var violations: [String] = []

  /// Returns the line of JSON that a run prints.
  func line(of plan: ChurnPlan, seconds: Double) -> String {
    let file = max(largestFile, largestBlocks)
    let hundredths = (file * 100 + plan.budget / 2) / plan.budget
    let ratio = "\(hundredths / 100).\(hundredths % 100 / 10)\(hundredths % 10)"
    let fields = [
      "\"seed\": \(plan.seed)", "\"seconds\": \(Int(seconds.rounded()))",
      "\"budget\": \(plan.budget)", "\"bytes_written\": \(bytes)", "\"writes\": \(writes)",
      "\"removals\": \(removals)", "\"evictions\": \(evictions)",
      "\"largest_sum\": \(largestSum)", "\"file_bytes\": \(largestFile)",
      "\"disk_bytes\": \(largestBlocks)", "\"file_per_budget\": \(ratio)",
      "\"violations\": \(violations.count)",
    ]
    return "{" + fields.joined(separator: ", ") + "}"
  }
}

/// The parent's side of a soak: starts the processes, measures the file and checks the store.
struct ChurnRun {
  let plan: ChurnPlan
  let deadline: Duration

  func run() throws -> ChurnOutcome {
    let directory = try TemporaryDirectory()
    let path = directory.path
    let words = try SharedWords(path: path + "/words")
    let store = try SharedStore(at: path + "/store", plan.options)
    defer { store.close() }
    var outcome = ChurnOutcome()
    let children = try (0..<plan.processes).map { slot in
      try ChildProcess(
        PeerExecutable.path,
        [
          "stress", "churn-worker", "\(slot)", path, "\(plan.budget)", "\(plan.times)",
          "\(plan.processes)",
          "\(plan.overPage)", "\(plan.seed)",
        ])
    }
    let end = Clocks.monotonicNanoseconds() + deadline.nanoseconds
    let pause = Event()
    while children.contains(where: { $0.exitStatus == nil }) {
      guard Clocks.monotonicNanoseconds() < end else {
        outcome.violations.append("the processes did not end within \(deadline)")
        for child in children { child.kill() }
        break
      }
      pause.wait(nanoseconds: 20_000_000)
      measureFile(of: store, &outcome)
    }
    for child in children {
      let lines = try child.remainingLines()
      let status = try child.wait()
      if status != .exited(0) { outcome.violations.append("a process ended: \(status) \(lines)") }
      outcome.violations += lines
    }
    measureFile(of: store, &outcome)
    try check(store, words, &outcome)
    return outcome
  }

  /// Raises the largest size of the data file, and the largest number of its bytes on disk.
  private func measureFile(of store: SharedStore, _ outcome: inout ChurnOutcome) {
    guard let generation = try? store.core.generation() else { return }
    var information = stat()
    guard unsafe stat(generation.path + "/data.mdb", &information) == 0 else { return }
    outcome.largestFile = max(outcome.largestFile, Int(information.st_size))
    outcome.largestBlocks = max(outcome.largestBlocks, Int(information.st_blocks) * 512)
  }

  private func check(
    _ store: SharedStore, _ words: SharedWords, _ outcome: inout ChurnOutcome
  ) throws {
    func word(_ word: ChurnWord) -> UInt64 { words[word.rawValue] }
    outcome.bytes = word(.bytes)
    outcome.writes = word(.writes)
    outcome.removals = word(.removals)
    outcome.largestSum = word(.largestSum)
    outcome.largestFile = max(outcome.largestFile, Int(clamping: word(.largestFile)))
    let statistics = try store.statistics()
    outcome.evictions = statistics.evictions
    for (name, size) in [
      ("size", outcome.largestFile), ("disk space", outcome.largestBlocks),
    ] where size > plan.fileLimit {
      outcome.violations.append(
        "the \(name) of data.mdb reached \(size) bytes; the limit is \(plan.fileLimit), "
          + "twice the budget")
    }
    if outcome.largestSum > plan.budget {
      outcome.violations.append(
        "\(outcome.largestSum) bytes were stored; the budget is \(plan.budget)")
    }
    // A run that replaced nothing has tested nothing.
    if plan.times > 1, outcome.evictions == 0 || outcome.removals == 0 {
      outcome.violations.append("nothing was evicted, or nothing was removed")
    }
    if outcome.bytes < UInt64(plan.share * plan.processes) {
      outcome.violations.append("only \(outcome.bytes) bytes were written")
    }
    for finding in try store.verify() { outcome.violations.append("verify: \(finding)") }
  }
}

/// One process of a soak.
struct ChurnWorker {
  let plan: ChurnPlan
  let slot: Int
  let directory: String

  func run() throws {
    let words = try SharedWords(path: directory + "/words")
    let store = try SharedStore(at: directory + "/store", plan.options)
    defer { store.close() }
    let namespace = try store.namespace("churn")
    var random = Seed(plan.seed).generator(stream: UInt64(slot) + 1)
    var written = 0
    while written < plan.share {
      let key = Int.random(in: 0..<plan.keys, using: &random)
      if random.chance(15) {
        if try namespace.remove(forKey: key) { words.add(ChurnWord.removals.rawValue) }
      } else {
        let size = plan.size(using: &random)
        let byte = UInt8(truncatingIfNeeded: key)
        try namespace.setBytes([UInt8](repeating: byte, count: size), forKey: key)
        written += size
        words.add(ChurnWord.bytes.rawValue, UInt64(size))
        words.add(ChurnWord.writes.rawValue)
      }
      let statistics = try store.statistics()
      words.raise(ChurnWord.largestSum.rawValue, to: UInt64(statistics.bytes))
      words.raise(ChurnWord.largestFile.rawValue, to: UInt64(statistics.fileBytes))
      let other = Int.random(in: 0..<plan.keys, using: &random)
      if let found = try namespace.bytes(forKey: other),
        found.first != UInt8(truncatingIfNeeded: other) || found.last != found.first
      {
        ParentProcess.send("key \(other) has the bytes of another key")
      }
    }
  }
}
#endif
