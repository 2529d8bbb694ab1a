// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting

/// `larder-stress damage [--seconds N] [--files N] [--workers N] [--seed S] [--case N [--keep DIR]]`
enum DamageCommand {
  /// What `main` gives all commands of the damage mode to.
  static func dispatch(_ arguments: [String]) async throws -> Int32 {
    let rest = Array(arguments.dropFirst())
    switch arguments.first {
    case "damage": return try await run(rest)
    case "damage-worker": try DamageWorker.run(rest)
    default: throw DamageFailure("unknown: \(arguments)")
    }
    return 0
  }

  /// The exit code: 0 only without violations.
  static func run(_ arguments: [String]) async throws -> Int32 {
    var options: [String: String] = [:]
    var rest = arguments[...]
    let known = ["--seconds", "--files", "--workers", "--seed", "--case", "--keep"]
    while let name = rest.popFirst() {
      guard known.contains(name), let value = rest.popFirst() else {
        throw DamageFailure("damage: \(name) is unknown, or lacks its value. Known: \(known)")
      }
      options[name] = value
    }
    let seed = options["--seed"].flatMap(UInt64.init) ?? UInt64.random(in: 1..<1 << 32)
    let report: (String) -> Void = { ParentProcess.send($0) }
    let outcome: DamageOutcome
    if let number = options["--case"].flatMap({ Int($0) }) {
      outcome = try DamageRun.repeatCase(
        number, seed: seed, keep: options["--keep"], report: report)
    } else {
      outcome = try await DamageRun.run(
        seconds: options["--seconds"].flatMap(Double.init) ?? 60,
        minimumFiles: options["--files"].flatMap { Int($0) } ?? 0, seed: seed,
        workers: options["--workers"].flatMap { Int($0) } ?? 2, report: report)
    }
    for violation in outcome.violations { report("violation: \(violation)") }
    report(
      "{\"seed\": \(seed), \"files_damaged\": \(outcome.filesDamaged), "
        + "\"opened\": \(outcome.opened), \"signal_deaths\": \(outcome.signalDeaths), "
        + "\"violations\": \(outcome.violations.count)}")
    return outcome.violations.isEmpty ? 0 : 3
  }
}
