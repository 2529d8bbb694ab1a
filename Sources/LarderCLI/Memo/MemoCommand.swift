// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderEngine
import LarderMemo

/// `larder memo`: a command that is run once per machine.
struct MemoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "memo",
    abstract: "Run a command once per machine, and replay its result from then on.",
    discussion: """
      Standard output, standard error and the exit status are those of the command, byte for byte. \
      While it runs for the first time its output is passed on as it comes; whoever asks for the \
      same meanwhile waits for that run. If the process that runs it is killed, one of those who \
      wait takes over at once.

      THE KEY is the command's file (found in PATH, or the path from the working directory), every \
      argument, the variables named with --env (one that is not set is not one that is empty) and, \
      with --cwd, the working directory. Nothing else: what the command reads besides makes no \
      difference until the result is too old.

      FAILURES (an exit status other than 0, a signal) are passed on and not kept, unless \
      --keep-failures says so; those who wait then run the command themselves, one after the other. \
      The same holds for output of more than --max-size.

      --stale serves a result that is too old at once, for that much longer, while one process runs \
      the command in the background, in a session of its own and with no descriptor of the caller's.

      STANDARD INPUT of the command is empty (/dev/null): the key cannot know what would be read. \
      --stdin passes it on all the same. Its output is a pipe, not a terminal: force colours if you \
      want them (git -c color.ui=always). The two outputs are replayed in the order in which they \
      arrived.

      SIGNALS (INT, TERM, HUP, QUIT) go to the command; this process ends as the command ended, by \
      the same signal if it was one, which a shell shows as 128 + number. If nobody reads the output \
      any more the command meets the broken pipe, and the result is not kept. The run is over when \
      nobody holds the output open any more, children in the background included. A process \
      that waits for another's run, of a stopped one perhaps, waits for --wait at most; then it runs \
      the command without the store, and a line on standard error names the process.

      A store that cannot be opened is no reason to fail: the command is run without it, and a line \
      on standard error says why. --require-store ends with 70 instead.

      EXIT CODES
        those of the command, and
        126  the command's file may not be run
        127  there is no such command
        1    the command ended well, but its output could not be written
        64   the command line makes no sense
        70   with --require-store: the store cannot be used

      EXAMPLES
        larder memo --ttl 5s --cwd -- git status --porcelain
        larder memo --ttl 10m --stale 1h -- curl -fsS https://example.com/rates.json
        larder memo --ttl 7d --cwd --env CC -- ./configure
        larder memo --forget --cwd -- git status --porcelain
      """)

  @OptionGroup var options: MemoOptions

  @Flag(name: [.long, .customShort("f")], help: "Run the command even if there is a fresh result.")
  var force = false

  @Flag(name: .shortAndLong, help: "Say nothing of a store that cannot be used or has no room.")
  var quiet = false

  @Flag(
    name: .long, help: "Remove the command's result and run nothing. Ends with 1 if there is none.")
  var forget = false

  @Flag(name: .long, help: "End with 70 when the store cannot be used.")
  var requireStore = false

  // How the background run is started; not for people.
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
      // Nobody is left to be told, and nobody waits for it.
      if refreshInBackground { return }
      throw withoutStore(call, error)
    }
    switch answer {
    case .fresh(let result), .stale(let result):
      CommandProxy.replay(result)
      CommandProxy.end(as: result.end)
    case .ran(_, let end, let storing):
      if case .notPassedOn(let reason) = storing {
        Console.printError("larder memo: the output could not be passed on: \(reason)")
        // What is there is not what the command wrote, whatever it thought of its end.
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
          "No result of this command is stored in \(path). Give the --env, --cwd and --stdin with which "
            + "it was run.", exit: Exit.negative)
      }
    }
  }

  private func answer(_ memo: Memo) async throws -> Memo.Answer {
    if !force, let found = try memo.find() {
      if case .stale = found, !memo.isRunningElsewhere() {
        // The same command line, as it was given.
        _ = CommandProxy.detach(
          ["larder", "memo", "--refresh-in-background"],
          lastArguments: CommandLine.arguments.count - 2)
      }
      return found
    }
    return try await memo.answer(force: force, relays: true)!
  }

  /// Runs the command in this process's place.
  private func withoutStore(_ call: CommandInvocation, _ error: any Error) -> ExitCode {
    let reason = (error as? StoreError).map(\.message) ?? "\(error)"
    let path = StoreLocation.path(options.store)
    if requireStore {
      Console.printError("larder: the store \(path) cannot be used: \(reason)")
      return Exit.failure
    }
    warn("the command runs without the store \(path): \(reason)")
    Console.printError("larder: \(CommandProxy.become(call))")
    return ExitCode(126)
  }

  private func warn(_ sentence: String) {
    if !quiet { Console.printError("larder memo: \(sentence)") }
  }

  /// What there is to say of a result that was not kept although it might have been.
  private func sentence(_ storing: Memo.Storing) -> String? {
    switch storing {
    case .stored, .failure, .cut, .notPassedOn, .overtaken: nil
    case .tooLarge:
      "the output was not kept: it has more than --max-size \(options.maxSize) or than the store has "
        + "room for"
    case .error(let message): "the result was not kept: \(message)"
    }
  }
}
