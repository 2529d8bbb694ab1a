// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderTesting

struct DamageCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "damage",
    abstract: "Damage files of stores and check what is read.")

  @OptionGroup var options: RunOptions

  @Option(help: "The smallest number of damaged files, which may extend --seconds.")
  var files = 0

  @Option(help: "The number of processes that open damaged stores.")
  var workers = 2

  @Option(name: .customLong("case"), help: "Run only this case, once.")
  var number: Int?

  @Flag(help: "Damage only stores in use.")
  var inUse = false

  @Option(help: "With --case: the directory for a copy of the damaged store before it is opened.")
  var keep: String?

  func validate() throws {
    guard files >= 0, (1...64).contains(workers), number ?? 0 >= 0
    else { throw ValidationError("A number is out of its range.") }
  }

  func run() async throws {
    let say: (String) -> Void = { StandardError.say($0) }
    let (seed, seconds) = (options.seed, options.seconds)
    let outcome: DamageOutcome
    if let number {
      outcome = try DamageRun.repeatCase(number, seed: seed, keep: keep, report: say)
    } else if inUse {
      outcome = try DamageRun.damageInUse(seconds: seconds, seed: seed, report: say)
    } else {
      outcome = try await DamageRun.run(
        seconds: seconds, minimumFiles: files, seed: seed, workers: workers, report: say)
    }
    for violation in outcome.violations { say("violation: \(violation)") }
    ParentProcess.send(
      "{\"seed\": \(seed), \"files_damaged\": \(outcome.filesDamaged), "
        + "\"opened\": \(outcome.opened), \"signal_deaths\": \(outcome.signalDeaths), "
        + "\"violations\": \(outcome.violations.count)}")
    if !outcome.violations.isEmpty { throw ExitCode(1) }
  }
}

struct DamageWorkerCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "damage-worker", shouldDisplay: false)

  @Argument var arguments: [String] = []

  func run() throws {
    do {
      try DamageWorker.run(arguments)
    } catch {
      // The parent reads the error as a line of output.
      ParentProcess.send("error: \(error)")
      throw ExitCode(4)
    }
  }
}
#endif
