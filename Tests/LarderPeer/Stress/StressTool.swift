// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderEngine
import LarderSystem
import LarderTesting

// THE STRESS TOOL
//
// Processes over a sequence of stores, killed, stopped and restarted at random, and an oracle that
// decides what each may read. Every facade has workers here.
//
// A run has three parts: the directed scenarios of the protocol's rules, a storm, and damaged
// files. The last line of the standard output is one JSON object; everything else goes to the
// standard error. The exit code is 0 only without violations.

struct StressTool: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stress",
    abstract: "Kills and stops processes, damages files, and checks every read.",
    subcommands: [
      Run.self, WorkerCommand.self, AuditCommand.self, ScenarioCommand.self, HelperCommand.self,
      DamageCommand.self, DamageWorkerCommand.self, FuzzCommand.self, FuzzWorkerCommand.self,
      DifferentialCommand.self, ChurnCommand.self, ChurnWorkerCommand.self,
    ] + toolFuzz,
    defaultSubcommand: Run.self)

  private static var toolFuzz: [any ParsableCommand.Type] {
    #if Macros
    [ToolFuzzCommand.self]
    #else
    []
    #endif
  }
}

/// The options that every mode of the tool has.
struct RunOptions: ParsableArguments {
  @Option(help: "The total running time in seconds.")
  var seconds = 60.0

  @Option(help: "The seed of all random decisions. The default is a new seed, which is printed.")
  var seed: UInt64 = UInt64.random(in: 1...UInt64(UInt32.max))

  func validate() throws {
    guard seconds > 0, seconds < 1e7 else {
      throw ValidationError("--seconds must be a positive number.")
    }
  }
}

/// The seconds since a time of the monotonic clock.
func elapsedSeconds(since begin: UInt64) -> Double {
  Double(Clocks.monotonicNanoseconds() - begin) / 1e9
}

struct Run: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Run scenarios, a storm and damaged files; print one line of JSON.")

  @OptionGroup var options: RunOptions

  @Option(help: "The number of processes that share a store.")
  var processes = 6

  @Option(help: "Repeat only this round of the storm.")
  var round: Int?

  @Option(help: "Only rounds of one theme: cache, objects, collections, facades; no scenarios.")
  var theme: RoundWorkload?

  @Flag(help: "Damaged files only.")
  var damage = false

  @Flag(help: "No damaged files.")
  var noDamage = false

  func validate() throws {
    guard (2...OracleRegion.workers.keys.count).contains(processes) else {
      throw ValidationError("--processes must be from 2 to \(OracleRegion.workers.keys.count).")
    }
  }

  func run() async throws {
    var totals = StressTotals()
    let begin = Clocks.monotonicNanoseconds()
    var failure: (any Error)?
    do { try await stress(&totals) } catch { failure = error }
    for violation in totals.violations.prefix(100) { say(violation) }
    print(line(totals, elapsedSeconds(since: begin)))
    if let failure {
      // The run itself failed, which is not a finding.
      say("the run failed: \(failure)")
      throw ExitCode(70)
    }
    if !totals.violations.isEmpty { throw ExitCode(1) }
  }

  private func stress(_ totals: inout StressTotals) async throws {
    let begin = Clocks.monotonicNanoseconds()
    let (seed, seconds) = (options.seed, options.seconds)
    func elapsed() -> Double { elapsedSeconds(since: begin) }
    #if !FAULTS
    say("built without fault points: processes are killed from outside only")
    #endif
    if !damage {
      if round == nil, theme == nil { try Scenarios.runAll(&totals, say) }
      let isStormOnly = noDamage || round != nil || theme != nil
      let share = isStormOnly ? 1.0 : 0.65
      if totals.violations.isEmpty {
        let left = max(seconds * share - elapsed(), min(seconds, 2))
        try Storm(
          seed: seed, seconds: left, processes: processes, only: round, theme: theme, say: say
        ).run(&totals)
        if totals.rounds == 0 { totals.violations.append("there was no time for a storm") }
      }
    }
    if round == nil, theme == nil, !noDamage, totals.violations.isEmpty {
      let outcome = try await DamageRun.run(
        seconds: max(seconds - elapsed(), 1), minimumFiles: 0, seed: seed, workers: 2,
        report: say)
      totals.filesDamaged += outcome.filesDamaged
      totals.violations += outcome.violations
    }
  }

  private func say(_ text: String) { StandardError.say(text) }

  private func line(_ totals: StressTotals, _ elapsed: Double) -> String {
    let fields = [
      "\"seed\": \(options.seed)", "\"seconds\": \(Int(elapsed.rounded()))",
      "\"kills\": \(totals.kills)", "\"stops\": \(totals.stops)",
      "\"operations\": \(totals.operations)",
      "\"memory_hits_checked\": \(totals.memoryHits)",
      "\"files_damaged\": \(totals.filesDamaged)",
      "\"violations\": \(totals.violations.count)",
    ]
    return "{" + fields.joined(separator: ", ") + "}"
  }
}

// MARK: The processes of a run

struct RoundArguments: ParsableArguments {
  @Argument var storm: UInt64
  @Argument var round: Int
  @Argument var processes: Int
  @Argument var directory: String

  var plan: RoundPlan { RoundPlan(seed: storm, round: round, processes: processes) }
}

struct WorkerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "worker", shouldDisplay: false)

  @Argument var role: String
  @Argument var slot: Int
  @OptionGroup var round: RoundArguments

  func run() async throws {
    guard let role = Role(rawValue: role) else { throw ValidationError("no role \(role)") }
    do {
      try await Worker(role: role, slot: slot, plan: round.plan, directory: round.directory).run()
    } catch {
      Worker.judge(error, try StormOracle(path: round.directory + "/board"))
    }
  }
}

struct AuditCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "audit", shouldDisplay: false)

  @OptionGroup var round: RoundArguments

  func run() async throws {
    do {
      try await Audit.run(round.plan, directory: round.directory)
    } catch {
      ParentProcess.send("the audit failed: \(error)")
      throw ExitCode(1)
    }
  }
}

struct ScenarioCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "scenario", abstract: "Check one rule of the protocol; exit 3 if it is broken.",
    shouldDisplay: false)

  @Argument var name: String
  @Argument var store: String

  func run() async throws {
    guard let scenario = Scenarios.all[name] else { throw ValidationError("no \(name)") }
    do {
      try await scenario(store)
      ParentProcess.send("held")
    } catch let violation as Violation {
      ParentProcess.send("violation: \(violation)")
      throw ExitCode(3)
    } catch {
      ParentProcess.send("error: \(error)")
      throw ExitCode(4)
    }
  }
}

struct HelperCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "helper", shouldDisplay: false)

  @Argument var command: String
  @Argument var store: String

  func run() async throws { try await ScenarioHelpers.run(command, store) }
}
#endif
