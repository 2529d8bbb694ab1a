// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Deques of the open store.
//
//   push NAME TEXT         -> ok
//   pop NAME               -> popped TEXT | none
//   claimfirst NAME MS     claims with a lease of MS -> claimed TEXT ATTEMPT | none
//   postpone NAME MS       claims and releases after MS -> ok | none
//   work NAME FIRST COUNT  pushes COUNT numbers from FIRST, and meanwhile claims numbers and completes
//                          them in four tasks, until the process is killed
//                          -> pushed N, begun N, done N for each that is stored, claimed, completed

import Larder
import LarderEngine
import LarderTesting

extension Peer {
  func deques(_ command: String, _ words: [Substring]) throws -> String {
    let store = try store
    let deque = SharedDeque<String>(storage: store, name: String(words[0]), maximumAttempts: .max)
    switch command {
    case "push":
      try deque.push(words[1...].joined(separator: " "))
      return "ok"
    case "pop": return try deque.popFirst().map { "popped \($0)" } ?? "none"
    case "claimfirst":
      let claim = try deque.claim(lease: .milliseconds(number(words[1])))
      return claim.map { "claimed \($0.element) \($0.attempt)" } ?? "none"
    case "postpone":
      let claim = try deque.claim(lease: .seconds(3600))
      return try claim?.release(after: .milliseconds(number(words[1]))) == true ? "ok" : "none"
    case "work":
      let numbers = SharedDeque<Int>(
        storage: store, name: String(words[0]), maximumAttempts: .max)
      let (first, count) = (try number(words[1]), try number(words[2]))
      let outcome = Outcome<String>()
      Task.detached {
        do {
          try await work(numbers, pushing: first..<(first + count))
          outcome.set(.success("ok"))
        } catch {
          outcome.set(.failure(error))
        }
      }
      return try outcome.wait()
    default: return try refuse("no command \(command)")
    }
  }
}

private func work(_ numbers: SharedDeque<Int>, pushing range: Range<Int>) async throws {
  try await withThrowingTaskGroup(of: Void.self) { group in
    group.addTask {
      for number in range {
        try await numbers.push(number)
        ParentProcess.send("pushed \(number)")
      }
    }
    for _ in 0..<4 {
      group.addTask {
        for try await claim in numbers.claims(lease: .seconds(3600)) {
          ParentProcess.send("begun \(claim.element)")
          if try await claim.complete() { ParentProcess.send("done \(claim.element)") }
        }
      }
    }
    try await group.waitForAll()
  }
}
