// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderTesting

/// The result of the demo: three runs of one job, and the checks on them.
struct DemoReport: Encodable {
  /// A check and its result.
  struct Check: Encodable {
    let passed: Bool
    let text: String
  }

  private enum CodingKeys: String, CodingKey {
    case place, documents, compressed, bytes, notText, words, stems, entries, without, cold, warm
    case checks, success
  }

  let selection: DocumentSelection
  let without: DemoPass
  let cold: DemoPass
  let warm: DemoPass
  /// The index that the entries of the store add up to.
  let stored: FullTextIndex
  let entries: Int
  /// The size of the entries in bytes.
  let bytes: Int
  let findings: [StoreFinding]

  var success: Bool { checks.allSatisfy(\.passed) }

  /// The share of the time without the cache that a run saves.
  func saving(of pass: DemoPass) -> Double { 1 - pass.seconds / max(without.seconds, 1e-9) }

  /// The conditions that must hold.
  var checks: [Check] {
    let again = cold.again
    let inFlight = cold.victim?.inFlight
    let isOnce = cold.begun.indices.allSatisfy {
      cold.begun[$0] == 1 || (cold.begun[$0] == 2 && $0 == inFlight)
    }
    let digests = [without, cold, warm].flatMap { $0.workers.compactMap(\.digest) }
    let expected = 3 * without.workers.count - 1
    return [
      Check(
        passed: cold.victim?.failure == "\(ChildProcess.ExitStatus.killed)",
        text: "one worker was killed with SIGKILL, half-way"),
      Check(
        passed: [without, cold, warm].allSatisfy(\.isComplete),
        text: "all other workers finished"),
      Check(
        passed: isOnce,
        text: "with the cache each document was indexed once"
          + (again == 0 ? "" : ", \(again) again after the kill")),
      Check(
        passed: entries == selection.documents.count, text: "each result is stored once"),
      Check(
        passed: warm.begunInAll == 0
          && warm.shared == warm.workers.count * selection.documents.count,
        text: "after the kill every result came from the cache"),
      Check(
        passed: digests.count == expected && digests.allSatisfy { $0 == stored.digest },
        text: "\(digests.count) workers and the store hold the same index"),
      Check(
        passed: findings.isEmpty,
        text: "the store is valid" + (findings.first.map { ": \($0)" } ?? "")),
    ]
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(selection.place, forKey: .place)
    try container.encode(selection.documents.count, forKey: .documents)
    try container.encode(selection.compressed, forKey: .compressed)
    try container.encode(selection.bytes, forKey: .bytes)
    try container.encode(stored.notTexts, forKey: .notText)
    try container.encode(stored.words, forKey: .words)
    try container.encode(stored.stems.count, forKey: .stems)
    try container.encode(entries, forKey: .entries)
    try container.encode(PassFields(self, without), forKey: .without)
    try container.encode(PassFields(self, cold), forKey: .cold)
    try container.encode(PassFields(self, warm), forKey: .warm)
    try container.encode(checks, forKey: .checks)
    try container.encode(success, forKey: .success)
  }

  private struct PassFields: Encodable {
    let seconds: Double
    let saving: Double
    let begun: Int
    let again: Int
    let shared: Int
    let workers: [WorkerResult]

    init(_ report: DemoReport, _ pass: DemoPass) {
      seconds = pass.seconds
      saving = report.saving(of: pass)
      (begun, again, shared, workers) = (pass.begunInAll, pass.again, pass.shared, pass.workers)
    }
  }
}
