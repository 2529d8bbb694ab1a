// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderDynamic
import LarderMemo

/// The tool's root: what `larder` says of itself, and its subcommands.
@main
struct LarderTool: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "larder",
    abstract: "Look into a Larder store, change it, check it.",
    discussion: """
      A store is a directory that any number of processes on this machine share. This tool is one \
      more of them: it may be used while others work, and what it changes they see at once.

      Without --store it uses the default store (see `larder stat`).

      EXAMPLES
        larder stat                                  what the default store holds
        larder list --store /var/tmp/app --prefix user/
        larder get user/17 --namespace profiles      a CBOR value is printed as JSON
        larder get 42 --key-type integer > image.png
        larder set greeting "Hello" --expires 10m
        larder verify /var/tmp/app && echo sound
        larder repair /var/lib/app                   salvage what is readable
        larder query Car 'year >= 2020' --sort model --limit 10
        larder defaults read com.example.app theme
        larder remove --prefix user/
        larder memo --ttl 10m -- curl -fsS https://example.com/rates.json

      EXIT CODES
        0   success
        1   no such entry or type; `verify` found an error; `repair` lost data
        2   no store at this path (a command that only reads creates none), or `repair` failed
        64  usage error
        70  other failure, described on standard error
      """,
    version: "larder 0.1.0",
    subcommands: [
      GetCommand.self, SetCommand.self, RemoveCommand.self, ListCommand.self, StatCommand.self,
      VerifyCommand.self, RepairCommand.self, ClearCommand.self, ObjectsCommand.self,
      QueryCommand.self, MigrateCommand.self, ExportCommand.self, ImportCommand.self,
      CopyCommand.self,
      DefaultsCommand.self, MemoCommand.self, WarmCommand.self, CompletionsCommand.self,
      ManualCommand.self,
    ])

  // On the main thread: to go to another one opens descriptors already.
  @MainActor static func main() async {
    CommandProxy.openMissingDescriptors()
    if !CommandProxy.hasDescriptorsForRuntime {
      Console.printError(
        "larder: Too many open files. Close some, or raise the limit on open files (`ulimit -n`): a "
          + "store takes about a dozen.")
      LarderTool.exit(withError: Exit.failure)
    }
    // Where descriptors are scarce, the runtime takes its own before the store can: a timer that has
    // fired shows that it has them all.
    if !CommandProxy.hasDescriptorsToSpare { try? await Task.sleep(nanoseconds: 1) }
    refuseUnknownCommand()
    await main(nil)
  }

  /// A mistyped command is named, with the commands that it may have been meant to be.
  private static func refuseUnknownCommand() {
    guard CommandLine.argc > 1 else { return }
    let word = CommandLine.arguments[1]
    let names = configuration.subcommands.compactMap { $0.configuration.commandName } + ["help"]
    guard !word.hasPrefix("-"), !names.contains(word) else { return }
    let shown = configuration.subcommands.filter { $0.configuration.shouldDisplay }
    let near = NearNames.of(
      word, among: shown.compactMap { $0.configuration.commandName })
    Console.printError(
      "larder: There is no command \"\(word)\"."
        + (near.isEmpty ? "" : " Did you mean \(NearNames.list(near))?")
        + " `larder --help` lists the commands.")
    LarderTool.exit(withError: Exit.usage)
  }
}
