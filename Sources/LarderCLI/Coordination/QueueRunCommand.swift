// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderEngine
import LarderMemo

/// `larder queue run`: runs a command for one element after the other.
struct QueueRunCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Run a command for each element, which is its last argument.",
    discussion: """
      The element is claimed while the command runs, and removed when it exits with 0. Otherwise it \
      returns to its place and is tried again after --retry-after; after --attempts it is one of \
      the --failed. If this process is killed, it returns within a second.

      This command ends when no element is due, or with --wait never. A command that a signal ends \
      ends this one by the same signal. Any number of these commands, and of programs, can work on \
      one queue.

      EXIT STATUS
        0    every command has exited with 0
        1    a command has failed
        126  the command's file is not executable
        127  no such command
        64   usage error
        70   other failure

      EXAMPLES
        larder queue run images -- scripts/convert
        larder queue run mails --wait --attempts 3 --retry-after 1m -- scripts/send
      """)

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The time after which an element is given to another process. (default: 1h)",
      valueName: "time"),
    transform: Timestamp.duration)
  var lease: Duration?

  @Option(
    name: .long,
    help: ArgumentHelp("The number of attempts for each element. (default: 5)", valueName: "n"))
  var attempts = 5

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The time before a failed element is tried again; 0 for none. (default: 10s)",
      valueName: "time"),
    transform: { $0 == "0" ? .zero : try Timestamp.duration($0) })
  var retryAfter: Duration?

  @Flag(name: .long, help: "Wait for elements when none is due.")
  var wait = false

  @Argument(help: "The name of the queue.")
  var name: String

  @Argument(
    parsing: .postTerminator,
    help: "The command and its arguments, after --. It is searched in PATH.",
    completion: .file())
  var command: [String] = []

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard command.first?.isEmpty == false else {
      throw ValidationError("Missing command: larder queue run NAME -- COMMAND [argument ...]")
    }
    guard attempts > 0 else { throw ValidationError("--attempts is at least 1.") }
    if let lease, lease <= .zero { throw ValidationError("--lease is greater than zero.") }
  }

  func run() async throws {
    let call: CommandInvocation
    do {
      call = try CommandInvocation(
        command[0], lastArguments: command.count, environment: [], isOfDirectory: false,
        readsInput: true)
    } catch { throw MemoOptions.refuse(error) }
    var finish: (() -> Void)?
    var hasFailed = false
    try await Console.reporting(json: arguments.json) {
      let store = try arguments.openOrCreate()
      defer { store.close() }
      let deque = StoredDeque(store, name: name, maximumAttempts: attempts)
      while finish == nil {
        CommandProxy.endIfSignalled()
        guard let claimed = try await deque.claim(lease: lease ?? .seconds(3600)) else {
          guard wait else { break }
          // Signals are caught since the first command.
          _ = try await deque.waitForElement(until: deque.deadline(after: .milliseconds(500)))
          continue
        }
        let element = Array(try QueueElement.text(claimed.element).utf8)
        let end = try CommandProxy.run(call.appending(element))
        if CommandProxy.isSuccess(end) {
          _ = try await deque.complete(claimed.claim)
          continue
        }
        hasFailed = true
        _ = try await deque.release(claimed.claim, after: retryAfter ?? .seconds(10))
        if CommandProxy.isSignal(end) { finish = { CommandProxy.end(as: end) } }
      }
    }
    finish?()
    if hasFailed { throw Exit.negative }
  }
}
