// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding
import LarderDynamic
import LarderEngine

/// `larder queue`: the deques of programs.
struct QueueCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "queue",
    abstract: "Push, pop and process the elements of a queue.",
    discussion: """
      The queue is the `SharedDeque` with this name in programs. Each element is popped or claimed \
      by one process. Elements that this command pushes are text; it shows elements of every type.

      Without --store and LARDER_STORE the queue is in $XDG_DATA_HOME/larder/queues, else \
      ~/.local/share/larder/queues: not in the default store of the other commands, which is a cache. \
      A store that a command creates is durable, unless --durability names another kind: the elements \
      of a cache are lost if the machine crashes. A queue of a program is in the program's store: name \
      that with --store.

      EXAMPLES
        larder queue push images a.png b.png
        find . -name '*.png' | larder queue push images -
        larder queue run images -- scripts/convert     converts each, in any number of processes
        larder queue status images
        larder queue list images --failed
      """,
    subcommands: [
      QueuePushCommand.self, QueuePopCommand.self, QueueListCommand.self, QueueStatusCommand.self,
      QueueRunCommand.self, QueueRetryCommand.self,
    ])
}

/// The queue of a command.
struct QueueArguments: ParsableArguments {
  @Argument(help: "The name of the queue, 1 to 250 bytes.")
  var name: String

  @Flag(name: .long, help: "The elements whose attempts have all failed.")
  var failed = false

  func deque(_ store: SharedStore, attempts: Int = .max) -> StoredDeque {
    StoredDeque(store, name: name, maximumAttempts: attempts, isFailed: failed)
  }
}

/// Elements of a queue, as the tool shows them.
enum QueueElement {
  static func text(_ element: StoredDeque.Element) throws -> String {
    switch try value(element) {
    case .text(let text), .plain(let text, _), .json(let text, _): text
    case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
    case .structure(let value): value.jsonText(pretty: false)
    }
  }

  /// Prints a hint, unless it is empty.
  static func tell(_ hint: String) {
    if !hint.isEmpty { Console.printError("larder:" + hint) }
  }

  static func value(_ element: StoredDeque.Element) throws -> EntryValue {
    try EntryValue(codec: CodecIdentifier(rawValue: element.codec), payload: element.payload)
  }
}

/// `larder queue push`.
struct QueuePushCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push", abstract: "Add elements at the end, in one transaction.",
    discussion: """
      The element - stands for one element in each line of standard input. Lines end with a newline, \
      with or without a carriage return.
      """)

  @OptionGroup var queue: QueueArguments

  @Argument(help: "The elements.")
  var elements: [String]

  @OptionGroup var arguments: QueueStoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      guard elements.count(where: { $0 == "-" }) <= 1 else {
        throw ToolError.usage("Standard input (-) is named twice.")
      }
      let texts = try elements.flatMap { $0 == "-" ? try Console.readLines() : [$0] }
      let encoded = try texts.map { text in
        let (codec, payload) = try StandardCoding.encode(text, codec: CBORCodec())
        return StoredDeque.Element(codec: codec.rawValue, payload: payload)
      }
      let store = try arguments.openOrCreate()
      defer { store.close() }
      try queue.deque(store).push(encoded, at: .last)
    }
  }
}

/// `larder queue pop`.
struct QueuePopCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pop", abstract: "Remove the first element and print it.",
    discussion: """
      The element is removed after it was printed: if the output cannot be written, it stays, and is \
      available again. A process that is killed in between prints it and leaves it. The exit status is \
      1 if there is no element.
      """)

  @OptionGroup var queue: QueueArguments
  @OptionGroup var arguments: QueueStoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openExisting(for: queue.name)
      defer { store.close() }
      let deque = queue.deque(store)
      // The claim of a process that ends is over at once. The lease is for one that is stopped.
      guard let claimed = try deque.claim(lease: .seconds(3600)) else {
        throw ToolError(
          "notFound",
          "No element of the queue \(queue.name) is due." + arguments.hint(for: queue.name),
          exit: Exit.negative)
      }
      // A failed output ends the process, and with it the claim.
      if arguments.json {
        Console.json(try QueueElement.value(claimed.element).jsonValue)
      } else {
        Console.line(try QueueElement.text(claimed.element))
      }
      guard try deque.complete(claimed.claim) else {
        throw ToolError(
          "claimEnded",
          "The element was printed after its lease of an hour, and is available to others again.")
      }
    }
  }
}

/// `larder queue list`.
struct QueueListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "Print the elements that are not claimed.")

  @Option(
    name: .long, help: ArgumentHelp("The most elements.", valueName: "n"))
  var limit = 100

  @OptionGroup var queue: QueueArguments
  @OptionGroup var arguments: QueueStoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openForReading(of: queue.name)
      defer { store.close() }
      let elements = try queue.deque(store).elements(limit: limit)
      if elements.isEmpty { QueueElement.tell(arguments.hint(for: queue.name)) }
      guard arguments.json else {
        for element in elements {
          Console.line(TextLayout.cleaned(try QueueElement.text(element)))
        }
        return
      }
      Console.json(.array(try elements.map { try QueueElement.value($0).jsonValue }))
    }
  }
}

/// `larder queue status`.
struct QueueStatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Print the numbers of waiting, claimed and failed elements, and the claims.")

  @Argument(help: "The name of the queue.")
  var name: String

  @OptionGroup var arguments: QueueStoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openForReading(of: name)
      defer { store.close() }
      let deque = StoredDeque(store, name: name, maximumAttempts: .max)
      let (state, failed) = try deque.states()
      let claims = try deque.claimStatus(in: state)
      let delayed = try deque.delayedCount(in: state)
      if state.waitingCount + claims.count + failed.waitingCount == 0 {
        QueueElement.tell(arguments.hint(for: name))
      }
      guard arguments.json else {
        let later = delayed > 0 ? " (\(delayed) to be tried again later)" : ""
        Console.line(
          "waiting \(state.waitingCount)\(later), claimed \(claims.count), "
            + "failed \(failed.waitingCount)")
        for claim in claims {
          let holder =
            claim.process.map { "process \($0.pid) until \(Timestamp(claim.deadline).iso)" }
            ?? "a process that has ended; it is free for the next claim"
          Console.line("  claimed by \(holder), attempt \(claim.attempt)")
        }
        return
      }
      Console.json(
        .object([
          ("waiting", CBORValue(state.waitingCount)), ("delayed", CBORValue(delayed)),
          ("claimed", CBORValue(claims.count)),
          ("failed", CBORValue(failed.waitingCount)),
          (
            "claims",
            .array(
              claims.map { claim in
                .object([
                  ("pid", claim.process.map { CBORValue(Int($0.pid)) } ?? .null),
                  ("until", .text(Timestamp(claim.deadline).iso)),
                  ("attempt", CBORValue(claim.attempt)),
                ])
              })
          ),
        ]))
    }
  }
}

/// `larder queue retry`.
struct QueueRetryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "retry",
    abstract: "Move the failed elements back to the end of the queue, and print their number.")

  @Argument(help: "The name of the queue.")
  var name: String

  @OptionGroup var arguments: QueueStoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openExisting(for: name)
      defer { store.close() }
      let count: Int = try StoredDeque(store, name: name, maximumAttempts: .max).retryFailed()
      guard arguments.json else { return Console.line("\(count)") }
      Console.json(.object([("moved", CBORValue(count))]))
    }
  }
}
#endif
