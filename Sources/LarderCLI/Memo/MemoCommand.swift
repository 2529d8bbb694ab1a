// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderEngine
import LarderMemo

/// `larder memo`: runs a command once per machine and replays its result.
struct MemoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "memo",
    abstract: "Run a command once per machine and replay its result.",
    discussion: """
      Standard output, standard error and the exit status are those of the command, byte for byte. \
      The first run relays its output at once; other processes with the same key wait for that \
      run. If the process that runs the command is killed, one of the waiting processes runs it at \
      once.

      THE KEY is the command's file (found in PATH, or the path from the working directory), every \
      argument, the variables of --env (an unset variable differs from an empty one) and, with \
      --cwd, the working directory. Other inputs of the command are not a part of the key: their \
      changes have an effect when the result expires.

      FAILURES (an exit status other than 0, a signal) are relayed and not stored, unless \
      --keep-failures is given; the waiting processes then run the command one after the other. \
      The same applies to output of more than --max-size.

      --stale serves an expired result at once, for this additional time, while one process runs \
      the command in the background, in a separate session and without the caller's descriptors.

      STANDARD INPUT of the command is empty (/dev/null), because it is not a part of the key. \
      --stdin connects it. The output of the command is a pipe, not a terminal: force colours \
      where they are needed (git -c color.ui=always). Both outputs are replayed in their order of \
      arrival.

      SIGNALS (INT, TERM, HUP, QUIT) go to the command; this process ends as the command ended, by \
      the same signal or with the same exit status (a shell shows a signal as 128 + number). If \
      the reader closes the output, the command gets the broken pipe, and the result is not \
      stored. The run ends when all processes have closed the output, background children \
      included. A process waits at most --wait for the run of another, perhaps stopped, process; \
      then it runs the command without the store, and standard error contains the other process's \
      pid.

      If the store cannot be opened, the command runs without it, and standard error contains the \
      reason. With --require-store the exit status is 70 instead.

      EXIT STATUS
        those of the command, and
        126  the command's file is not executable
        127  no such command
        1    the command succeeded, but its output could not be written
        64   usage error
        70   with --require-store: the store cannot be used

      EXAMPLES
        larder memo --ttl 5s --cwd -- git status --porcelain
        larder memo --ttl 10m --stale 1h -- curl -fsS https://example.com/rates.json
        larder memo --ttl 7d --cwd --env CC -- ./configure
        larder memo --forget --cwd -- git status --porcelain
      """)

  @OptionGroup var options: MemoOptions

  @Flag(
    name: [.long, .customShort("f")], help: "Run the command even if a fresh result is stored.")
  var force = false

  @Flag(name: .shortAndLong, help: "Suppress messages about the store.")
  var quiet = false

  @Flag(
    name: .long,
    help: "Remove the stored result without a run. The exit status is 1 if there is none.")
  var forget = false

  @Flag(name: .long, help: "Fail with exit status 70 if the store cannot be used.")
  var requireStore = false

  // The background process has this flag.
  @Flag(name: .long, help: .private)
  var refreshInBackground = false

  func run() async throws {
    let call: CommandInvocation
    do { call = try options.call() } catch { throw MemoOptions.refuse(error) }
    if forget { return try forget(call) }
    let answer: Memo.Answer
    do {
      let store = try options.openStore()
      defer { store.close() }
      let memo = try Memo(call, options.policy, in: store)
      if refreshInBackground {
        _ = try await memo.answer(force: false, waits: false, relays: false)
        return
      }
      answer = try await self.answer(memo)
    } catch let error as Memo.NotStarted {
      Console.printError("larder: \(error.message)")
      throw ExitCode(126)
    } catch {
      // The background process has no standard error and no waiting parent.
      if refreshInBackground { return }
      throw withoutStore(call, error)
    }
    switch answer {
    case .fresh(let result), .stale(let result):
      CommandProxy.replay(result)
      CommandProxy.end(as: result.end)
    case .ran(_, let end, let storing):
      if case .notPassedOn(let reason) = storing {
        Console.printError("larder: Cannot write the output of the command: \(reason)")
        // The output is incomplete, although the command succeeded.
        if CommandProxy.isSuccess(end) { throw ExitCode(1) }
      } else if let sentence = sentence(storing) {
        warn(sentence)
      }
      CommandProxy.end(as: end)
    }
  }

  /// Removes the one result that the command line names.
  private func forget(_ call: CommandInvocation) throws {
    try Console.reporting(json: false) {
      let path = StoreLocation.path(options.store)
      var isThere = false
      if try SharedStore.durability(ofStoreAt: path) != nil {
        let store = try options.openStore()
        defer { store.close() }
        isThere = try Memo(call, options.policy, in: store).forget()
      }
      if !isThere {
        throw ToolError(
          "notFound",
          "No result of this command is stored in \(path). Pass the --env, --cwd and --stdin of "
            + "its run.", exit: Exit.negative)
      }
    }
  }

  private func answer(_ memo: Memo) async throws -> Memo.Answer {
    if !force, let found = try memo.find() {
      if case .stale = found, !memo.isRunningElsewhere() {
        // The same command line.
        _ = CommandProxy.detach(
          ["larder", "memo", "--refresh-in-background"],
          lastArguments: CommandLine.arguments.count - 2)
      }
      return found
    }
    return try await memo.answer(force: force, relays: true)!
  }

  /// Replaces this process with the command.
  private func withoutStore(_ call: CommandInvocation, _ error: any Error) -> ExitCode {
    let reason = (error as? StoreError).map(\.message) ?? "\(error)"
    let path = StoreLocation.path(options.store)
    if requireStore {
      Console.printError("larder: Cannot use the store \(path): \(reason)")
      return Exit.failure
    }
    warn("The command runs without the store \(path): \(reason)")
    Console.printError("larder: \(CommandProxy.become(call))")
    return ExitCode(126)
  }

  private func warn(_ sentence: String) {
    if !quiet { Console.printError("larder: \(sentence)") }
  }

  /// Returns the message for a result that was not stored, or nil if none is needed.
  private func sentence(_ storing: Memo.Storing) -> String? {
    switch storing {
    case .stored, .failure, .cut, .notPassedOn, .overtaken: nil
    case .tooLarge:
      "The output was not stored: it exceeds --max-size \(options.maxSize) or the budget of the "
        + "store."
    case .error(let message): "The result was not stored: \(message)"
    }
  }
}
#endif
