// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Locks of the open store.
//
//   lock NAME              holds a lock -> holding TOKEN, and after the next line: ok
//   trylock NAME MS        acquires and releases a lock, waiting at most MS
//                          -> locked TOKEN | timeout PID START
//   lockloop NAME FILE     two threads increment the number in FILE under a lock, until the process is
//                          killed
//   readlock NAME, writelock NAME, permit NAME PERMITS
//                          hold it -> holding, and after the next line: ok
//   rate NAME COUNT BURST  requests COUNT permissions of a bucket that does not fill -> permitted COUNT
//   window NAME COUNT LIMIT
//                          requests COUNT permissions of a window of an hour -> permitted COUNT
//   names PREFIX COUNT     requests a permission of each of COUNT limiters -> permitted COUNT
//   barrier NAME PARTIES   waits at a barrier for ten minutes -> passed
//   lead NAME              leads -> leading TERM, and after the next line: ok

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

extension Peer {
  func locks(_ command: String, _ words: [Substring]) throws -> String {
    let store = try store
    let name = String(words[0])
    let lock = store.lock(name)
    switch command {
    case "lock":
      try lock.withLock { held in
        ParentProcess.send("holding \(held.token)")
        _ = ParentProcess.nextLine()
      }
      return "ok"
    case "trylock":
      do {
        let timeout = Duration.milliseconds(try number(words[1]))
        return "locked \(try lock.withLock(timeout: timeout) { $0.token })"
      } catch let error as StoreError where error.code == .lockTimeout {
        return "timeout \(error.pid ?? 0) \(error.process?.startTime ?? 0)"
      }
    case "lockloop":
      let counter = SharedCounter(path: String(words[1]))
      let other = JoinableThread { Result { try holdForever(lock, counter) } }
      try holdForever(lock, counter)
      try other.join().get()
      return "ok"
    case "readlock": try store.readWriteLock(name).withReadLock { _ in hold() }
    case "writelock": try store.readWriteLock(name).withWriteLock { _ in hold() }
    case "permit": try store.semaphore(name, permits: number(words[1])).withPermit { hold() }
    case "rate":
      let limiter = store.rateLimiter(
        name, .tokenBucket(rate: 0.000_01, burst: try number(words[2])))
      let count = try (0..<number(words[1])).filter { _ in try limiter.tryAcquire() }.count
      return "permitted \(count)"
    case "window":
      let limiter = store.rateLimiter(
        name, .slidingWindow(limit: try number(words[2]), per: .seconds(3600)))
      let count = try (0..<number(words[1])).filter { _ in try limiter.tryAcquire() }.count
      return "permitted \(count)"
    case "names":
      let count = try (0..<number(words[1])).filter {
        try store.rateLimiter("\(name)\($0)", .slidingWindow(limit: 100, per: .seconds(3600)))
          .tryAcquire()
      }.count
      return "permitted \(count)"
    case "acquire":
      try store.rateLimiter(name, .tokenBucket(rate: 0.000_01, burst: 1))
        .acquire(timeout: .seconds(3600))
      return "acquired"
    case "barrier":
      try store.barrier(name, parties: number(words[1])).wait(timeout: .seconds(600))
      return "passed"
    case "lead":
      let outcome = Outcome<String>()
      Task.detached {
        do {
          try await store.leader(name).lead { term in
            ParentProcess.send("leading \(term.number)")
            _ = ParentProcess.nextLine()
          }
          outcome.set(.success("ok"))
        } catch {
          outcome.set(.failure(error))
        }
      }
      return try outcome.wait()
    default:
      return try refuse("no command \(command)")
    }
    return "ok"
  }

  private func hold() {
    ParentProcess.send("holding")
    _ = ParentProcess.nextLine()
  }
}

/// Holds a lock again and again, until the process is killed.
private func holdForever(_ lock: SharedLock, _ counter: SharedCounter) throws {
  while true { try lock.withLock(timeout: .seconds(600)) { try counter.advance($0.token) } }
}

/// A number in a file that is read and written under a lock, and shows every violation of its rules.
///
/// Four words: the number of times the lock was held, the last token, the token of the holder inside,
/// and the violations.
struct SharedCounter {
  let path: String

  func advance(_ token: UInt64) throws {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    var words = try read(file)
    // A holder that was killed inside has left its token; one that lives finds it overwritten below.
    if token <= words[1] { words[3] += 1 }
    words[1] = token
    words[2] = token
    try write(words, file)
    // Long enough that kills find holders inside.
    for _ in 0..<20 {
      words = try read(file)
      if words[2] != token { words[3] += 1 }
    }
    words[0] += 1
    words[2] = 0
    try write(words, file)
  }

  private func read(_ file: OwnedFile) throws -> [UInt64] {
    let bytes = try file.read(count: 32, at: 0)
    return (0..<4).map { bytes.integer(at: 8 * $0) ?? 0 }
  }

  private func write(_ words: [UInt64], _ file: OwnedFile) throws {
    var bytes = [UInt8](repeating: 0, count: 32)
    for (index, word) in words.enumerated() { bytes.store(word, at: 8 * index) }
    try file.write(bytes, at: 0)
  }
}
