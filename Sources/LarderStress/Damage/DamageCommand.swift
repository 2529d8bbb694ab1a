// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderTesting

struct DamageCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "damage",
    abstract: "Damage the files of stores, closed ones and ones in use, and judge what is read.")

  @Option(help: "How long to run, all in all.")
  var seconds = 60.0

  @Option(help: "At least so many damaged files, however long it takes.")
  var files = 0

  @Option(help: "How many processes open damaged stores.")
  var workers = 2

  @Option(help: "The seed of everything random; by default a new one, which is printed.")
  var seed: UInt64 = UInt64.random(in: 1...UInt64(UInt32.max))

  @Option(name: .customLong("case"), help: "Only this case, once.")
  var number: Int?

  @Flag(help: "Only stores in use.")
  var inUse = false

  @Option(help: "With --case: a directory to leave the damaged store in, as it was before opening.")
  var keep: String?

  func validate() throws {
    guard seconds > 0, seconds < 1e7, files >= 0, (1...64).contains(workers), number ?? 0 >= 0
    else { throw ValidationError("A number is out of its range.") }
  }

  func run() async throws {
    let say: (String) -> Void = { StandardError.say($0) }
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
      // A child's last words: its parent reads lines.
      ParentProcess.send("error: \(error)")
      throw ExitCode(4)
    }
  }
}
