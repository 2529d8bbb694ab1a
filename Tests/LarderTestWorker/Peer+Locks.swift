// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Locks of the open store.
//
//   lock NAME              holds a lock -> holding TOKEN, and after the next line: ok
//   trylock NAME MS        acquires and releases a lock, waiting at most MS
//                          -> locked TOKEN | timeout PID START
//   locksoon NAME MS       the same; prints `waiting` first
//   lockloop NAME FILE     increments the number in FILE under a lock, until it is killed

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

extension Peer {
  func locks(_ command: String, _ words: [Substring]) throws -> String {
    let store = try store
    let lock = store.lock(String(words[0]))
    switch command {
    case "lock":
      try lock.withLock { held in
        ParentProcess.send("holding \(held.token)")
        _ = ParentProcess.nextLine()
      }
      return "ok"
    case "trylock", "locksoon":
      if command == "locksoon" { ParentProcess.send("waiting") }
      do {
        let timeout = Duration.milliseconds(try number(words[1]))
        return "locked \(try lock.withLock(timeout: timeout) { $0.token })"
      } catch let error as StoreError where error.code == .lockTimeout {
        return "timeout \(error.pid ?? 0) \(error.process?.startTime ?? 0)"
      }
    case "lockloop":
      let counter = SharedCounter(path: String(words[1]))
      while true { try lock.withLock(timeout: .seconds(60)) { try counter.advance($0.token) } }
    default:
      return try refuse("no command \(command)")
    }
  }
}

/// A number in a file, which is read and written under a lock. Two holders at once lose a step.
struct SharedCounter {
  let path: String

  func advance(_ token: UInt64) throws {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    let bytes = try file.read(count: 16, at: 0)
    let number: UInt64 = bytes.integer(at: 0) ?? 0
    let last: UInt64 = bytes.integer(at: 8) ?? 0
    // A token that is not greater than the last one is marked for ever.
    var next = [UInt8](repeating: 0, count: 16)
    next.store(number + 1, at: 0)
    next.store(token > last && last != .max ? token : .max, at: 8)
    try file.write(next, at: 0)
  }
}
