// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderSystem
import LarderTesting

struct FuzzCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "fuzz", abstract: "Fuzz the decoders of everything that comes from a file.")

  @Argument(help: "The targets. The default is all of them, one after another.")
  var targets: [String] = []

  @OptionGroup var options: RunOptions

  @Option(help: "The directory of the inputs. The default is a directory in TMPDIR.")
  var corpus: String?

  @Option(help: "Run only this file, once, in this process.")
  var input: String?

  func validate() throws {
    for name in targets where FuzzTargets.named(name) == nil {
      let known = FuzzTargets.all.map(\.name).joined(separator: ", ")
      throw ValidationError("There is no target \(name). There are \(known).")
    }
    if input != nil, targets.count != 1 { throw ValidationError("--input needs one target.") }
  }

  func run() throws {
    if let input {
      let outcome = FuzzTargets.named(targets[0])!.run(try TestFiles.contents(of: input))
      return ParentProcess.send("outcome \(String(outcome, radix: 16))")
    }
    let names = targets.isEmpty ? FuzzTargets.all.map(\.name) : targets
    let place = corpus ?? (FileSystem.environment("TMPDIR") ?? "/tmp") + "/larder-fuzz-corpus"
    let outcome = try FuzzRun.run(
      targets: names, seconds: options.seconds, seed: options.seed, corpus: place,
      report: { StandardError.say($0) })
    for crash in outcome.crashes { StandardError.say("crash: \(crash)") }
    let runs = names.map { "\"\($0)\": \(outcome.runs[$0] ?? 0)" }.joined(separator: ", ")
    ParentProcess.send(
      "{\"seed\": \(options.seed), \"inputs\": {\(runs)}, \"violations\": \(outcome.crashes.count)}"
    )
    if !outcome.crashes.isEmpty { throw ExitCode(1) }
  }
}

struct FuzzWorkerCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "fuzz-worker", shouldDisplay: false)

  @Argument var target: String
  @Argument var seed: UInt64
  @Argument var seconds: Double
  @Argument var corpus: String
  @Argument var board: String

  func run() throws {
    guard let target = FuzzTargets.named(target) else { throw ValidationError("no \(target)") }
    try FuzzLoop(target: target, board: FuzzBoard(path: board), corpus: corpus)
      .run(seed: seed, seconds: seconds)
  }
}
#endif
