// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine

/// `larder locks`: shows what processes hold and wait for.
struct LocksCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "locks",
    abstract: "Show locks with their holders and waiters.",
    discussion: """
      Locks, read-write locks, semaphores, rate limiters, leaders and barriers that a process holds \
      or waits for now. The command acquires nothing and does not wait.

      EXAMPLES
        larder locks
        larder locks --json | jq -r '.[].holders[].pid'
      """)

  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openForReading()
      defer { store.close() }
      let locks = try store.locks()
      if arguments.json { return Console.json(.array(locks.map(\.json))) }
      if locks.isEmpty { return Console.line("No process holds or waits for anything.") }
      for lock in locks {
        Console.line("\(lock.kind) \(lock.name)")
        for holder in lock.holders { Console.line("  held by " + text(holder)) }
        for waiter in lock.waiters { Console.line("  awaited by " + text(waiter)) }
      }
    }
  }

  private func text(_ request: LockStatus.Request) -> String {
    "process \(request.process.pid) since \(Timestamp(request.since).iso)"
      + (request.token == 0 ? "" : ", token \(request.token)")
  }
}

extension LockStatus {
  /// The object of a lock in JSON answers.
  var json: CBORValue {
    func list(_ requests: [Request]) -> CBORValue {
      .array(
        requests.map { request in
          .object([
            ("pid", CBORValue(Int(request.process.pid))),
            ("startTime", .unsigned(request.process.startTime)),
            ("since", CBORValue(Timestamp(request.since).iso)),
            ("token", .unsigned(request.token)),
          ])
        })
    }
    return .object([
      ("kind", .text(kind.rawValue)), ("name", .text(name)), ("holders", list(holders)),
      ("waiters", list(waiters)),
    ])
  }
}
#endif
