// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderSystem
import LarderTesting

/// `scripts/stress objects`: queries of the object store against plain Swift arrays.
struct DifferentialCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "objects", abstract: "Compare queries of random objects with plain arrays.")

  @OptionGroup var options: RunOptions

  @Option(help: "Rounds of changes and queries for each store.")
  var rounds = 200

  func validate() throws {
    guard rounds > 0 else { throw ValidationError("--rounds must be positive.") }
  }

  func run() throws {
    let seed = options.seed
    StandardError.say("seed \(seed)")
    let begin = Clocks.monotonicNanoseconds()
    var trials: UInt64 = 0
    var queries = 0
    var violations: [String] = []
    while violations.isEmpty {
      let trial = Seed(seed).derived(trials)
      trials += 1
      do {
        queries += try Self.trial(trial, rounds)
      } catch let violation as Violation {
        violations.append("\(violation)")
      }
      if elapsedSeconds(since: begin) >= options.seconds { break }
    }
    for violation in violations { StandardError.say(violation) }
    let line =
      "{\"seed\": \(seed), \"trials\": \(trials), \"queries\": \(queries), "
      + "\"violations\": \(violations.count)}"
    ParentProcess.send(line)
    if !violations.isEmpty { throw ExitCode(1) }
  }

  /// One store for each model.
  ///
  /// - Returns: The number of queries that were compared.
  static func trial(_ seed: Seed, _ rounds: Int) throws -> Int {
    func run<Object: DifferentialModel>(_ type: Object.Type) throws -> Int {
      let directory = try TemporaryDirectory()
      var run = try DifferentialRun<Object>(at: directory.appending("store"), seed: seed)
      try run.run(rounds: rounds)
      return run.queries
    }
    var queries = try run(Wide.self) + run(Lenient.self) + run(Account.self)
    queries += try run(Keyed<Data>.self) + run(Keyed<Date>.self) + run(Keyed<Double>.self)
    #if Macros
    queries += try run(Declared.self)
    #endif
    return queries
  }
}
#endif
