// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import LarderEngine
import LarderRecovery

/// One pass of the demo, when it is over.
struct DemoPass {
  let title: String
  let tally: PassStatistics
  let seconds: Double
  /// The store's own books before and after.
  let before: StoreStatistics
  let after: StoreStatistics
  /// How each worker failed; `nil`: it ended well.
  let failures: [String?]

  /// Look-ups of the store that found something, and all of them.
  var hits: Int { after.storeHits + after.memoryHits - before.storeHits - before.memoryHits }
  var lookups: Int { hits + after.misses - before.misses }
  var hitRatio: Double? { lookups == 0 ? nil : Double(hits) / Double(lookups) }
  var evictions: Int { after.evictions - before.evictions }
}

/// The result of the demo: what the workers and the store said, and the checks over it.
struct DemoReport {
  let survey: DemoFileSelection
  let workers: Int
  let cold: DemoPass
  let warm: DemoPass
  /// The index without any cache, and the one merged from the store.
  let plain: WordIndex
  let stored: WordIndex
  /// Files whose stored result is not that of the plain pass.
  let differing: Int
  let plainSeconds: Double
  let statistics: StoreStatistics
  /// Entries in the demo's namespace.
  let entries: Int
  let findings: [StoreFinding]

  var isSuccess: Bool { checks.allSatisfy(\.passed) }

  /// Files that could be read: every worker fails on the others.
  private var readable: Int { plain.texts + plain.notTexts }

  /// What must hold, each in a sentence.
  var checks: [(passed: Bool, text: String)] {
    let killed = cold.tally.workers.firstIndex { $0.isVictim }
    let victim = killed.map { cold.tally.workers[$0] }
    let again = cold.tally.again
    let inFlight = victim?.inFlight
    let onlyInFlight = cold.tally.begun.indices.allSatisfy {
      cold.tally.begun[$0] < 2 || (cold.tally.begun[$0] == 2 && $0 == inFlight)
    }
    var checks: [(passed: Bool, text: String)] = []
    checks.append(
      (
        killed.map { cold.failures[$0] == "ended by signal 9" } ?? false,
        "one worker was killed with SIGKILL, half-way"
      ))
    let others = cold.failures.indices.filter { $0 != killed }.allSatisfy {
      cold.failures[$0] == nil
    }
    checks.append(
      (
        others && warm.failures.allSatisfy { $0 == nil },
        "all other workers finished: \(workers - 1) cold, \(workers) warm"
      ))
    let isEvicting = statistics.evictions > cold.before.evictions
    if isEvicting {
      checks.append((true, "the store's budget made it evict: computing again is in order"))
    } else {
      checks.append(
        (
          onlyInFlight && cold.tally.begun.count { $0 > 0 } == readable,
          "each file was computed once"
            + (again == 0
              ? "; the killed one had nothing in flight"
              : "; again \(again), in flight in the killed worker")
        ))
      checks.append(
        (entries == readable, "each result is stored once: \(TextLayout.grouped(entries)) entries"))
      checks.append(
        (
          warm.tally.begunInAll == 0 && warm.tally.found == workers * readable,
          "the second pass, by fresh processes, was all hits"
        ))
    }
    let digests = (cold.tally.workers + warm.tally.workers).compactMap(\.digest)
    checks.append(
      (
        digests.count == 2 * workers - 1 && digests.allSatisfy { $0 == plain.digest },
        "\(digests.count) workers hold the index that one process makes without a cache"
      ))
    if !isEvicting {
      checks.append(
        (
          stored == plain && differing == 0,
          "the index in the store is the same: \(TextLayout.grouped(plain.words.count)) words, "
            + "\(TextLayout.grouped(plain.occurrences)) times"
        ))
    }
    checks.append(
      (
        findings.allSatisfy { $0.severity != .error },
        "the store is sound" + (findings.first.map { ": \($0)" } ?? "")
      ))
    return checks
  }

  var json: CBORValue {
    func object(_ pass: DemoPass) -> CBORValue {
      let tally = pass.tally
      let list = tally.workers.map { worker in
        CBORValue.object([
          ("pid", CBORValue(Int(worker.pid))), ("computed", CBORValue(worker.computed)),
          ("shared", CBORValue(worker.found)), ("killed", .boolean(worker.isVictim)),
        ])
      }
      return .object([
        ("seconds", .float(pass.seconds)), ("computed", CBORValue(tally.computed)),
        ("begun", CBORValue(tally.begunInAll)), ("again", CBORValue(tally.again)),
        ("shared", CBORValue(tally.found)), ("hits", CBORValue(pass.hits)),
        ("lookups", CBORValue(pass.lookups)),
        ("hitRatio", pass.hitRatio.map(CBORValue.float) ?? .null),
        ("evictions", CBORValue(pass.evictions)), ("workers", .array(list)),
      ])
    }
    return .object([
      ("directory", .text(survey.directory)), ("files", CBORValue(survey.files.count)),
      ("bytes", CBORValue(survey.bytes)), ("compressed", CBORValue(survey.compressed)),
      ("tooLarge", CBORValue(survey.tooLarge)), ("unreadable", CBORValue(survey.unreadable)),
      ("cut", .boolean(survey.isCut)), ("notText", CBORValue(plain.notTexts)),
      ("lines", CBORValue(plain.lines)), ("words", CBORValue(plain.words.count)),
      ("occurrences", CBORValue(plain.occurrences)), ("cold", object(cold)),
      ("warm", object(warm)), ("plainSeconds", .float(plainSeconds)),
      ("entries", CBORValue(entries)), ("storedBytes", CBORValue(statistics.bytes)),
      ("fileBytes", CBORValue(statistics.fileBytes)),
      (
        "checks",
        .array(
          checks.map { .object([("passed", .boolean($0.passed)), ("text", .text($0.text))]) })
      ),
      ("success", .boolean(isSuccess)),
    ])
  }
}
