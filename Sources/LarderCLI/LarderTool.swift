// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderDynamic
import LarderMemo

/// The root command `larder`, its help and its subcommands.
@main
struct LarderTool: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "larder",
    abstract: "Inspect, change and check a Larder store.",
    discussion: """
      A store is a directory that the processes of this machine share. This tool is one more \
      process: it can run at any time, and other processes see its changes at once.

      Without --store it uses the default store (see `larder stat`).

      A command that only reads changes no value. While no process has the store open, it opens none \
      of its files for writing, so that it works on a read-only file system as well. While processes \
      have the store open, the command writes to gate, presence, lock.mdb and shared.table, as any \
      reader does, and needs the permission to. The commands watch, advise and defaults watch wait \
      for other processes, and always need it; top never does.

      EXAMPLES
        larder stat                                  what the default store holds
        larder list --store /var/tmp/app --prefix user/
        larder get user/17 --namespace profiles      a CBOR value is printed as JSON
        larder get 42 --key-type integer > image.png
        larder set greeting "Hello" --expires 10m
        larder stat --why-big                        why its files have their size
        larder top                                   what its processes do now
        larder budget --bytes 512M                   for every process, at once
        larder advise --seconds 60                   hit ratio by budget, while the store is used
        larder verify /var/tmp/app && echo valid
        larder repair /var/lib/app                   salvage what is readable
        larder query Car 'year >= 2020' --sort model --limit 10
        larder defaults read com.example.app theme
        larder remove --prefix user/
        larder memo --ttl 10m -- curl -fsS https://example.com/rates.json
        larder lock reindex -- scripts/reindex       one process of the machine at a time
        larder increment visits --by 1               counts exactly, from any process
        larder queue run images -- scripts/convert   one element after the other, each once
        larder watch --namespace sessions            changes, as processes commit them
        larder explain user/17                       stored by which process, or why it is gone
        larder replay access.trace --compare         hit ratio by eviction policy

      EXIT STATUS
        0   success
        1   no such entry or type; `verify` found an error; `repair` lost data
        2   no store at this path (a command that only reads creates none), or `repair` failed
        64  usage error
        70  other failure, described on standard error
      """,
    version: "larder 0.1.0",
    subcommands: [
      GetCommand.self, SetCommand.self, RemoveCommand.self, ListCommand.self, StatCommand.self,
      TopCommand.self, BudgetCommand.self, AdviseCommand.self, VerifyCommand.self,
      RepairCommand.self,
      ClearCommand.self,
      ObjectsCommand.self, QueryCommand.self, MigrateCommand.self, MigrationsCommand.self,
      ExportCommand.self,
      ImportCommand.self, CopyCommand.self, CompactCommand.self, ReplayCommand.self,
      ReplayWorkerCommand.self,
      IncrementCommand.self, LockCommand.self, LocksCommand.self, QueueCommand.self,
      RemoteCommand.self,
      WatchCommand.self, ExplainCommand.self,
      DefaultsCommand.self, MemoCommand.self, WarmCommand.self, CompletionsCommand.self,
      ManualCommand.self,
    ])

  static var _errorLabel: String { "larder" }

  // On the main thread: a switch to another thread opens descriptors.
  @MainActor static func main() async {
    CommandProxy.openMissingDescriptors()
    if !CommandProxy.hasDescriptorsForRuntime {
      Console.printError(
        "larder: Too many open files. Close some, or raise the limit (`ulimit -n`): a store needs "
          + "about a dozen.")
      LarderTool.exit(withError: Exit.failure)
    }
    // If descriptors are scarce, the runtime must open its own before the store does. After a timer
    // has fired, the runtime has opened all of them.
    if !CommandProxy.hasDescriptorsToSpare { try? await Task.sleep(nanoseconds: 1) }
    refuseUnknownCommand()
    refuseOtherBytes()
    let arguments = CommandLineArguments.checked(Array(CommandLine.arguments.dropFirst()))
    CommandLineArguments.printHelp(arguments)
    await main(arguments)
  }

  /// Rejects arguments that are not UTF-8: Swift would replace their bytes, and two keys could become one.
  /// The command line after `--` is passed on as it is.
  private static func refuseOtherBytes() {
    guard CommandProxy.firstArgumentWithoutText.map({ $0 > 1 }) == true,
      CommandLine.arguments[1] != "memo"
    else { return }
    CommandLineArguments.refuse(
      "An argument is not UTF-8 text. Keys, names and values on the command line are text; "
        + "`larder set KEY --as bytes` stores other bytes from standard input.")
  }

  /// Rejects an unknown command and suggests commands with a similar name.
  private static func refuseUnknownCommand() {
    guard CommandLine.argc > 1 else { return }
    let word = CommandLine.arguments[1]
    let names = configuration.subcommands.compactMap { $0.configuration.commandName } + ["help"]
    guard !word.hasPrefix("-"), !names.contains(word) else { return }
    let shown = configuration.subcommands.filter { $0.configuration.shouldDisplay }
    let near = NearNames.of(
      word, among: shown.compactMap { $0.configuration.commandName })
    CommandLineArguments.refuse(
      "There is no command \"\(word)\"."
        + (near.isEmpty ? "" : " Did you mean \(NearNames.list(near))?")
        + " `larder --help` lists the commands.")
  }
}
#endif
