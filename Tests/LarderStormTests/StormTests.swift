// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderTestSupport
import LarderTesting
import Testing

// The stress tool, as its users run it, and a proof that it can fail: every rule of the protocol is
// broken on purpose and has to be noticed. Everything that kills at a named point, and every broken
// rule, needs the trait; without it processes are killed from outside only.

@Suite(.serialized) struct StormTests {
  /// Runs the stress tool without damaged files.
  func stress(
    seconds: Int, mutant: String? = nil, theme: String? = nil, seed: Seed
  ) throws -> (status: ChildProcess.ExitStatus, line: String, log: String) {
    let outcome = try ChildProcess.run(
      TestExecutable.peer.path,
      ["stress", "--seconds", "\(seconds)", "--no-damage", "--seed", "\(seed.value % 1_000_000)"]
        + (theme.map { ["--theme", $0] } ?? []),
      environment: mutant.map { ["LARDER_MUTANT": $0] } ?? [:], deadline: .seconds(seconds + 1800))
    print("storm of \(mutant ?? "no mutant"): \(outcome.lines.last ?? "")")
    return (outcome.status, outcome.lines.last ?? "", outcome.standardError)
  }

  func number(_ field: String, in line: String) -> Int? {
    line.split(separator: "\"\(field)\": ").last?.prefix { $0.isNumber }.description.nonEmpty
      .flatMap(Int.init)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Storm: nothing acknowledged is lost and nothing stale is served under kills`() throws {
    let (status, line, log) = try stress(seconds: hasFaults ? 30 : 10, seed: Seed.announce())
    #expect(status == .exited(0), "\(log.suffix(4000))")
    #expect(number("violations", in: line) == 0)
    // The counts depend on the machine: the test only requires kills, operations and checked hits.
    let kills = number("kills", in: line) ?? 0
    #expect(kills > 0)
    #expect((number("operations", in: line) ?? 0) > 0)
    #expect((number("memory_hits_checked", in: line) ?? 0) > 0)
  }

  @Test(.enabled(if: hasFaults, "takes minutes without optimisation"), .timeLimit(.minutes(60)))
  func `Four processes that replace everything keep the file below twice the budget`() throws {
    let seed = "\(Seed.announce().value % 1_000_000)"
    let outcome = try ChildProcess.run(
      TestExecutable.peer.path, ["stress", "churn", "--short", "--seed", seed],
      deadline: .seconds(1800))
    let line = outcome.lines.last ?? ""
    print("churn: \(line)")
    #expect(outcome.status == .exited(0), "\(outcome.standardError.suffix(4000))")
    #expect(number("violations", in: line) == 0 && (number("evictions", in: line) ?? 0) > 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Queries of random objects give what plain arrays give`() throws {
    let seed = "\(Seed.announce().value % 1_000_000)"
    let outcome = try ChildProcess.run(
      TestExecutable.peer.path,
      ["stress", "objects", "--seconds", "5", "--rounds", "60", "--seed", seed],
      deadline: .seconds(1800))
    #expect(outcome.status == .exited(0), "\(outcome.standardError.suffix(4000))")
    #expect((number("queries", in: outcome.lines.last ?? "") ?? 0) > 300)
  }

  /// A broken rule, and the theme of the rounds that detect it, or `nil` for the scenarios or many
  /// themes.
  struct Broken: Sendable, CustomTestStringConvertible {
    let mutant: String
    let theme: String?
    var testDescription: String { mutant }
  }

  private static func broken(_ theme: String?, _ mutants: String...) -> [Broken] {
    mutants.map { Broken(mutant: $0, theme: theme) }
  }

  static let mutants =
    broken(
      nil, "stampsAfterCommit", "stampsOneLow", "filedOneHigh", "noRenewCheck",
      "combinerFilesFirst", "labelsWithoutBase", "condemnWithoutFloor", "noBump",
      "fillIgnoresCancel", "budgetOffByOne", "leaseOutlivesHolder", "placesIgnoreStamps")
    + broken("cache", "tagUnstamped", "fillIgnoresTags")
    + broken(
      "objects", "indexKeyLeft", "memoIgnoresStamp", "uniqueUnchecked", "cascadeForgotten",
      "changesUnnoticed")
    + broken(
      "collections", "objectBudgetOffByOne", "evictedKeysLeft", "evictionIgnoresUse",
      "snapshotMoves", "cursorSkipsEquals")
    + broken(
      "facades", "defaultsUpdateUnlocked", "defaultsSetBehind", "defaultsWatchDeaf",
      "folderUnlocked", "folderWritesInPlace")

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)),
    arguments: Share.current.arguments(of: mutants))
  func `Storm: a rule that is broken is noticed`(broken: Broken) throws {
    // What a storm meets in a minute depends on the machine.
    let seed = Seed.announce()
    var result = (status: ChildProcess.ExitStatus.exited(0), line: "", log: "")
    for attempt in 0..<5 as Range<UInt64> where result.status == .exited(0) {
      result = try stress(
        seconds: 60, mutant: broken.mutant, theme: broken.theme, seed: seed.derived(attempt))
    }
    #expect(result.status == .exited(1), "\(result.log.suffix(4000))")
    #expect((number("violations", in: result.line) ?? 0) > 0)
  }
}

extension String {
  fileprivate var nonEmpty: String? { isEmpty ? nil : self }
}
#endif
