// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderEngine
import LarderMemo

/// `larder warm`: runs a memoized command before its result expires.
struct WarmCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "warm",
    abstract: "Run a command now and store its result for `larder memo`.",
    discussion: """
      For cron and systemd timers. The command runs even if a fresh result is stored, after a run \
      that is in progress. Pass the same --env, --cwd and --stale as `larder memo`, and a --ttl \
      somewhat longer than the interval of the schedule: a result is kept for the --ttl and the \
      --stale of the command that stores it. Use absolute paths of commands where PATH differs, as \
      under cron: another file is another key.

      The command prints nothing on success. The result of a command that fails is not stored: the \
      stored result stays, and the output and the exit status are those of the command.

      EXIT STATUS
        those of the command, and
        126, 127  as for `larder memo`
        64        usage error
        70        the result could not be stored

      EXAMPLES
        */5 * * * *  larder warm --ttl 10m -- curl -fsS https://example.com/rates.json
      """)

  @OptionGroup var options: MemoOptions

  func run() async throws {
    let call: CommandInvocation
    do { call = try options.call() } catch { throw MemoOptions.refuse(error) }
    let answer: Memo.Answer?
    do {
      let store = try options.openStore()
      defer { store.close() }
      answer = try await Memo(call, options.policy, in: store).answer(force: true, relays: false)
    } catch let error as Memo.NotStarted {
      Console.printError("larder: \(error.message)")
      throw ExitCode(126)
    } catch {
      return try Console.reporting(json: false) { throw error }
    }
    guard case .ran(let result, let end, let storing)? = answer else { return }
    if !CommandProxy.isSuccess(end) {
      if let result { CommandProxy.replay(result) }
      let isStored = if case .stored = storing { true } else { false }
      Console.printError(
        "larder: \(options.command[0]) failed. "
          + (isStored ? "The failure is stored (--keep-failures)." : "The stored result stays."))
      CommandProxy.end(as: end)
    }
    switch storing {
    case .stored, .failure, .overtaken: return
    case .cut, .notPassedOn, .tooLarge:
      Console.printError(
        "larder: The output was not stored: it exceeds --max-size \(options.maxSize) or the budget "
          + "of the store.")
    case .error(let message): Console.printError("larder: The result was not stored: \(message)")
    }
    throw Exit.failure
  }
}
#endif
