// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderEngine
import LarderMemo

/// `larder queue run`: runs a command for one element after the other.
struct QueueRunCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Run a command for each element, which is its last argument.",
    discussion: """
      The element is claimed while the command runs, and removed when it exits with 0. The lease is \
      renewed until then: it ends if this process is stopped. Otherwise the element returns to its \
      place and is tried again after --retry-after; after --attempts it is one of the --failed. If \
      this process is killed, another one gets it within a second, although the command itself may \
      run on. LARDER_STORE is the path of the store in the command's environment: commands of larder that \
      it starts use this store, unless they have --store.

      This command ends when no element is due, or with --wait never. A signal for this \
      process goes to the command, whose element is then no attempt, and ends this process. A command \
      that ends by another signal ends this one by the same signal. The command has the standard input \
      of this process. Any number of these commands, and of programs, can work on \
      one queue.

      EXIT STATUS
        0    every command has exited with 0
        1    a command has failed, or has lost its lease
        2    there is no store, and no --wait
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
    help: ArgumentHelp("The number of attempts for each element.", valueName: "n"))
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

  @OptionGroup var arguments: QueueStoreArguments

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
    var (hasFailed, hasRun) = (false, false)
    try await Console.reporting(json: arguments.json) {
      // Without --wait there is nothing to do in a new store: its name is a mistake.
      let store = try wait ? arguments.openOrCreate() : arguments.openExisting(for: name)
      defer { store.close() }
      let deque = StoredDeque(store, name: name, maximumAttempts: attempts)
      /// The commands of this process have its store, whatever the default store is.
      func begin() {
        if !hasRun { arguments.export(store) }
        hasRun = true
      }
      while finish == nil {
        if CommandProxy.wasSignalled {
          finish = { CommandProxy.endBySignal() }
          break
        }
        guard let claimed = try await deque.claim(lease: lease ?? .seconds(3600)) else {
          if !hasRun { QueueElement.tell(arguments.hint(for: name)) }
          begin()
          guard wait else { break }
          // Signals are caught since the first command.
          _ = try await deque.waitForElement(until: deque.deadline(after: .milliseconds(500)))
          continue
        }
        begin()
        guard let argument = try argument(of: claimed.element) else {
          Console.printError("larder: An element is no argument of a command; it has failed.")
          hasFailed = true
          _ = try await deque.release(claimed.claim, after: .zero, .hopeless)
          continue
        }
        do {
          let end = try await run(call.appending(argument), claimed.claim, deque)
          if !CommandProxy.isSuccess(end.status) || !end.isInTime { hasFailed = true }
          if CommandProxy.isSignal(end.status), !CommandProxy.wasSignalled {
            finish = { CommandProxy.end(as: end.status) }
          }
        } catch {
          _ = try await deque.release(claimed.claim, after: .zero, .unused)
          throw error
        }
      }
    }
    finish?()
    if hasFailed { throw Exit.negative }
  }

  /// Returns an element as an argument, or `nil` if a command cannot get it.
  private func argument(of element: StoredDeque.Element) throws -> [UInt8]? {
    let bytes: [UInt8] =
      if case .bytes(let bytes) = try QueueElement.value(element) {
        bytes
      } else {
        Array(try QueueElement.text(element).utf8)
      }
    // The limit of Linux for one argument, with its terminator.
    return bytes.contains(0) || bytes.count >= 131_072 ? nil : bytes
  }

  /// Runs the command, and renews the claim meanwhile; then ends the claim.
  private func run(
    _ call: CommandInvocation, _ claim: DequeState.Claim, _ deque: StoredDeque
  ) async throws -> (status: CommandProxy.End, isInTime: Bool) {
    let lease = lease ?? .seconds(3600)
    let renewal = Task.detached {
      while true {
        try await Task.sleep(for: lease / 3)
        _ = try await deque.extend(claim, lease: lease)
      }
    }
    defer { renewal.cancel() }
    let status = try CommandProxy.run(call)
    if CommandProxy.isSuccess(status) {
      let isInTime = try await deque.complete(claim)
      if !isInTime {
        Console.printError(
          "larder: The lease ended before the command did; another process may have run it as well. "
            + "Pass a longer --lease.")
      }
      return (status, isInTime)
    }
    // A signal for this process, which interrupted the command, is no attempt.
    _ = try await deque.release(
      claim, after: CommandProxy.wasSignalled ? .zero : retryAfter ?? .seconds(10),
      CommandProxy.wasSignalled ? .unused : .failed)
    return (status, true)
  }
}
#endif
