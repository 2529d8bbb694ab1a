// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderEngine
import LarderMemo

/// `larder warm`: a remembered command's result, renewed ahead of time.
struct WarmCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "warm",
    abstract: "Run a command now and store its result for `larder memo`, for schedules.",
    discussion: """
      For cron and systemd timers: the command is run even if a fresh result is stored, after \
      whoever runs it right now. Give the same --env, --cwd and --stale as `larder memo` gives, and a \
      --ttl somewhat longer than the schedule's interval: a result is kept for the --ttl and the \
      --stale of the command that stores it. Name commands by their whole path where PATH differs, as \
      under cron: another file is another key.

      It writes nothing while all goes well. A command that fails is not stored: the old result \
      stays, what the command wrote is shown, and its exit status is this one's.

      EXIT CODES
        those of the command, and
        126, 127  as of `larder memo`
        64        the command line makes no sense
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
        "larder warm: \(options.command[0]) failed; "
          + (isStored ? "that is stored, as --keep-failures says" : "an older result stays"))
      CommandProxy.end(as: end)
    }
    switch storing {
    case .stored, .failure, .overtaken: return
    case .cut, .notPassedOn, .tooLarge:
      Console.printError(
        "larder warm: the output has more than --max-size \(options.maxSize) or than the store has "
          + "room for")
    case .error(let message): Console.printError("larder warm: \(message)")
    }
    throw Exit.failure
  }
}
