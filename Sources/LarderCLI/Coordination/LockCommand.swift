// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderEngine
import LarderMemo

/// `larder lock`: runs a command while no other process of the machine holds a lock.
struct LockCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "lock",
    abstract: "Run a command while holding a lock of the machine.",
    discussion: """
      The lock is the one of `store.lock(NAME)` in programs. Callers get it in the order in which \
      they began to wait, and the kernel releases it when its process ends, by kill -9 too.

      The command has this process's input, output and working directory, and its exit status is \
      that of the command. LARDER_STORE is the path of the store in its environment. Signals (INT, \
      TERM, HUP, QUIT) go to the command. The lock is held by this process: if it alone is killed, \
      the lock is free although the command still runs.

      EXIT STATUS
        that of the command, and
        1    another process held the lock until the end of --wait, or with --no-wait at once
        126  the command's file is not executable
        127  no such command
        64   usage error
        70   other failure

      EXAMPLES
        larder lock reindex -- scripts/reindex
        larder lock backup --no-wait -- scripts/backup || echo "another one runs"
      """)

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The longest time to wait for the lock: 90s, 10m. (default: 1h)", valueName: "time"),
    transform: Timestamp.duration)
  var wait: Duration?

  @Flag(name: .long, help: "Fail at once if another process holds the lock.")
  var noWait = false

  @Argument(help: "The name of the lock, 1 to 250 bytes.")
  var name: String

  @Argument(
    parsing: .postTerminator,
    help: "The command and its arguments, after --. It is searched in PATH.",
    completion: .file())
  var command: [String] = []

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard command.first?.isEmpty == false else {
      throw ValidationError("Missing command: larder lock NAME -- COMMAND [argument ...]")
    }
    if noWait, wait != nil { throw ValidationError("Pass either --wait or --no-wait.") }
  }

  func run() throws {
    let call: CommandInvocation
    do {
      call = try CommandInvocation(
        command[0], lastArguments: command.count, environment: [], isOfDirectory: false,
        readsInput: true)
    } catch { throw MemoOptions.refuse(error) }
    var finish: () -> Void = {}
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openOrCreate()
      defer { store.close() }
      arguments.export(store)
      do {
        let end = try store.lock(name).withLock(timeout: noWait ? .zero : wait ?? .seconds(3600)) {
          _ in
          try CommandProxy.run(call)
        }
        finish = { CommandProxy.end(as: end) }
      } catch let error as StoreError where error.code == .lockTimeout {
        throw ToolError(error.code.rawValue, error.message, exit: Exit.negative)
      }
    }
    finish()
  }
}
#endif
