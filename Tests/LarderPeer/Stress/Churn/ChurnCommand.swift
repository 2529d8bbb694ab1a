// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Larder
import LarderEngine
import LarderSystem
import LarderTesting

// THE CHURN SOAK
//
// Processes share a store with a budget and write a multiple of it: new keys, overwrites and removals
// in random order, with values from 100 bytes to 200 kB. The run requires that
//
//   the data file has at most twice the bytes of the budget, in its size and in its blocks on disk,
//   no process reads a sum of the stored entries above the budget after one of its commits,
//   each value that is read is the one that was stored under its key,
//   the integrity check of the store has no finding.
//
// Measured with four processes on two processors, the file reaches 1.4 to 1.5 times a budget of 16 or
// 64 MiB, and 1.9 to 2.0 times one of 64 MiB if all values are a few bytes too long for a page
// (`--over-page 100`). Values of a few hundred bytes only, which this command does not write, have
// 2.5 times (`FileSizeTests`).
//
// The last line of the standard output is one JSON object. The exit status is 0 without violations.

/// `scripts/stress churn`: the size of the file under permanent replacement.
struct ChurnCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "churn", abstract: "Replace the contents of a bounded store; check its file size.")

  @Option(help: "The budget of the store in MiB.")
  var budget = 256

  @Option(help: "The bytes to write, as a multiple of the budget.")
  var times = 20

  @Option(help: "The number of processes that share the store.")
  var processes = 4

  @Option(help: "The percentage of the values that are a few bytes too long for a page.")
  var overPage = 25

  @Option(help: "The seed of all random decisions. The default is a new seed, which is printed.")
  var seed: UInt64 = UInt64.random(in: 1...UInt64(UInt32.max))

  @Flag(help: "A budget of 64 MiB: a few seconds.")
  var short = false

  /// The time in seconds that a run may take.
  private static let longest = 3600

  func validate() throws {
    guard (4...(1 << 20)).contains(budget) else {
      throw ValidationError("--budget must be from 4 to 1048576.")
    }
    guard (1...1000).contains(times) else { throw ValidationError("--times must be 1 to 1000.") }
    guard (0...100).contains(overPage) else {
      throw ValidationError("--over-page must be from 0 to 100.")
    }
    guard (1...64).contains(processes) else {
      throw ValidationError("--processes must be from 1 to 64.")
    }
  }

  func run() throws {
    StandardError.say("seed \(seed)")
    let begin = Clocks.monotonicNanoseconds()
    let plan = ChurnPlan(
      budget: (short ? 64 : budget) << 20, times: times, processes: processes, overPage: overPage,
      seed: seed)
    let outcome = try ChurnRun(plan: plan, deadline: .seconds(Self.longest)).run()
    for violation in outcome.violations.prefix(100) { StandardError.say(violation) }
    ParentProcess.send(outcome.line(of: plan, seconds: elapsedSeconds(since: begin)))
    if !outcome.violations.isEmpty { throw ExitCode(1) }
  }
}

struct ChurnWorkerCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "churn-worker", shouldDisplay: false)

  @Argument var slot: Int
  @Argument var directory: String
  @Argument var budget: Int
  @Argument var times: Int
  @Argument var processes: Int
  @Argument var overPage: Int
  @Argument var seed: UInt64

  func run() throws {
    let plan = ChurnPlan(
      budget: budget, times: times, processes: processes, overPage: overPage, seed: seed)
    do {
      try ChurnWorker(plan: plan, slot: slot, directory: directory).run()
    } catch {
      ParentProcess.send("the churn failed: \(error)")
      throw ExitCode(1)
    }
  }
}

/// The parameters of a soak.
struct ChurnPlan: Sendable {
  /// Bytes.
  let budget: Int
  let times: Int
  let processes: Int
  /// The percentage of the values that need a second page for a few bytes.
  let overPage: Int
  let seed: UInt64

  static let smallest = 100
  static let largest = 200_000

  /// The bytes of values that each process writes.
  var share: Int { budget * times / processes }

  /// The number of different keys: their values have several times the bytes of the budget.
  var keys: Int { max(budget / 1500, 64) }

  /// The most bytes that the data file may have.
  var fileLimit: Int { 2 * budget }

  var options: StoreOptions { StoreOptions(budget: .bytes(budget)) }

  /// Returns a size whose logarithm is uniformly distributed, or one that needs a second page with a
  /// few bytes in it.
  func size(using random: inout SeededRandom) -> Int {
    if random.chance(overPage) { return Int.random(in: 4000..<4100, using: &random) }
    // Doublings of the smallest size, and a uniform size between two of them.
    var (low, high) = (Self.smallest, 2 * Self.smallest)
    for _ in 0..<Int.random(in: 0..<11, using: &random) { (low, high) = (high, 2 * high) }
    return min(Int.random(in: low..<high, using: &random), Self.largest)
  }
}
#endif
