// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Commands that run while the parent does something else. A loop without an end runs until the next
// line comes.
//
//   churn FROM COUNT [behind]  sets and reads back COUNT separate keys, round after round
//                              -> churned ROUNDS MISTAKES MILLISECONDS
//   stir FROM COUNT            sets, expiring or not, removes and clears, of all sizes, at random
//                              -> stirred ROUNDS
//   fill FROM TO SIZE          sets keys to SIZE bytes and checks the counters after each commit
//                              -> filled MOST
//   read FROM TO LEAST         reads keys that hold `PeerText`s; prints `reading` once LEAST were found
//                              -> read HITS MISTAKES
//   patience NS                waits for so long for readers before the file grows -> ok
//   pin                        stays inside a read -> pinned, and after the next line: ok
//   readthrough K              inside a read, another thread sets K -> through ENTRIES CODE ENTRIES
//                              before and after, as the read finds them
//   starve KEY TEXT            opens files until there is no descriptor left, then computes -> value TEXT
//   compute K TEXT LOG [held]  four tasks compute one key; a computation leaves a file in LOG, and
//                              with `held` prints `computing` and waits for a line
//                              -> computed TIMES VALUE
//   cross K OTHER              computes K with the value of OTHER; prints `computing` and waits for
//                              a line before it requests that -> value TEXT

import Larder
import LarderEngine
import LarderLMDB
import LarderSystem
import LarderTesting
import Synchronization

/// A text of a key that shows when any of it came from somewhere else.
enum PeerText {
  static func make(_ key: Int, version: Int) -> String {
    String(repeating: "\(key).\(version);", count: 20 + version % 30)
  }

  static func isWhole(_ text: String, _ key: Int) -> Bool {
    guard let first = text.split(separator: ";").first else { return false }
    let parts = first.split(separator: ".")
    guard parts.count == 2, parts[0] == "\(key)", let version = Int(parts[1]) else { return false }
    return text == make(key, version: version)
  }
}

/// Becomes true with the parent's next line.
final class NextLine: Sendable {
  private let came = Atomic<Bool>(false)
  private let thread = Mutex<JoinableThread<Void>?>(nil)

  init() {
    let thread = JoinableThread { [self] in
      _ = ParentProcess.nextLine()
      came.store(true, ordering: .releasing)
    }
    self.thread.withLock { $0 = thread }
  }

  var hasCome: Bool { came.load(ordering: .acquiring) }
  func join() { thread.withLock { $0 }?.join() }
}

extension Peer {
  func loop(_ command: String, _ words: [Substring]) throws -> String {
    switch command {
    case "churn":
      return try churn(number(words[0]), number(words[1]), isWriteBehind: words.count > 2)
    case "pin":
      try store.core.withGeneration { generation in
        try generation.withSnapshot { _ in
          ParentProcess.send("pinned")
          _ = ParentProcess.nextLine()
        }
      }
      return "ok"
    case "patience":
      let nanoseconds = UInt64(try number(words[0]))
      try store.core.generation().growth.wait.setPatience(nanoseconds: nanoseconds)
      return "ok"
    case "readthrough": return try readThrough(number(words[0]))
    case "fork": return try forked(words)
    case "compact":
      try store.compact()
      return "ok"
    case "stir": return try stir(number(words[0]), number(words[1]))
    case "fill": return try fill(number(words[0]), number(words[1]), size: number(words[2]))
    case "squeeze", "ballast": return try squeeze([Substring(command)] + words)
    case "read": return try read(number(words[0]), number(words[1]), least: number(words[2]))
    case "compute":
      return try compute(
        number(words[0]), String(words[1]), log: String(words[2]), isHeld: words.count > 3)
    case "refresh": return try refresh(words)
    case "batch": return try batch(words)
    case "announce":
      for number in 0..<5000 { try texts.setValue("x", forKey: "\(words[0]):\(number)") }
      return "over"
    case "starve": return try starve(number(words[0]), String(words[1]))
    case "lock", "trylock", "lockloop", "readlock", "writelock", "permit", "rate", "window",
      "names", "acquire", "barrier", "lead":
      return try locks(command, words)
    case "push", "pop", "claimfirst", "postpone", "work": return try deques(command, words)
    case "cross": return try cross(number(words[0]), number(words[1]))
    case "increment", "countlog", "exchange", "claim": return try change(command, words)
    default: return try whole(command, words)
    }
  }

  private func cross(_ key: Int, _ other: Int) throws -> String {
    let cache = try numbers
    let outcome = Outcome<String>()
    Task.detached {
      do {
        let value = try await cache.value(forKey: key) {
          ParentProcess.send("computing")
          _ = ParentProcess.nextLine()
          return try await cache.value(forKey: other) { "inner" } + "+"
        }
        outcome.set(.success(value))
      } catch {
        outcome.set(.failure(error))
      }
    }
    return "value \(try outcome.wait())"
  }

  private func starve(_ key: Int, _ text: String) throws -> String {
    let cache = try numbers
    // The threads of Swift's pool need descriptors when the first of them starts.
    let started = Outcome<String>()
    Task.detached { started.set(.success(try await cache.value(forKey: -1) { "started" })) }
    _ = try started.wait()
    var files: [OwnedFile] = []
    while let file = try? OwnedFile(path: "/dev/null", writable: false) { files.append(file) }
    let outcome = Outcome<String>()
    Task.detached {
      do {
        outcome.set(.success(try await cache.value(forKey: key) { text }))
      } catch {
        outcome.set(.failure(error))
      }
    }
    return "value \(try withExtendedLifetime(files) { try outcome.wait() })"
  }

  private func churn(_ from: Int, _ count: Int, isWriteBehind: Bool) throws -> String {
    let end = NextLine()
    let start = ContinuousClock.now
    var rounds = 0
    var mistakes = 0
    repeat {
      let key = from + rounds % count
      let text = PeerText.make(key, version: rounds)
      if isWriteBehind { try numbers[key] = text } else { try numbers.setValue(text, forKey: key) }
      if try numbers.value(forKey: key) != text { mistakes += 1 }
      rounds += 1
    } while !end.hasCome
    end.join()
    try store.sync()
    let milliseconds = (ContinuousClock.now - start) / .milliseconds(1)
    return "churned \(rounds) \(mistakes) \(Int(milliseconds))"
  }

  private func stir(_ from: Int, _ count: Int) throws -> String {
    let end = NextLine()
    var random = SeededRandom(seed: UInt64(from))
    var rounds = 0
    repeat {
      rounds += 1
      let key = from + Int.random(in: 0..<count, using: &random)
      let length = [10, 300, 3000, 30_000, 100_000].randomElement(using: &random)!
      let text = String(repeating: "\(key % 10)", count: length + key % 100)
      switch Int.random(in: 0..<20, using: &random) {
      case 0..<12: try numbers.setValue(text, forKey: key)
      case 12..<15: try numbers.setValue(text, forKey: key, expires: .after(.milliseconds(50)))
      case 15..<19: try numbers.removeValue(forKey: key)
      default: try store.removeAll(in: "stirred \(from)")
      }
      if rounds.isMultiple(of: 3) {
        try store.setBytes(Array(text.utf8.prefix(40_000)), forKey: key, in: "stirred \(from)")
      }
    } while !end.hasCome
    end.join()
    return "stirred \(rounds)"
  }

  private func fill(_ from: Int, _ to: Int, size: Int) throws -> String {
    var most = 0
    for key in from..<to {
      let text = String(repeating: "x", count: size + key % 100)
      try numbers.setValue(text, forKey: key)
      most = max(most, try store.statistics().bytes)
    }
    return "filled \(most)"
  }

  private func read(_ from: Int, _ to: Int, least: Int) throws -> String {
    let end = NextLine()
    var isAnnounced = false
    var hits = 0
    var mistakes = 0
    while !end.hasCome {
      for key in from..<to {
        guard let text = try numbers.value(forKey: key) else { continue }
        hits += 1
        if !PeerText.isWhole(text, key) { mistakes += 1 }
      }
      if !isAnnounced, hits >= least {
        ParentProcess.send("reading")
        isAnnounced = true
      }
    }
    end.join()
    return "read \(hits) \(mistakes)"
  }

  private func compute(_ key: Int, _ text: String, log: String, isHeld: Bool) throws -> String {
    let cache = try numbers
    let computation = Computation(text: text, log: log, isHeld: isHeld)
    let outcome = Outcome<Set<String>>()
    Task.detached {
      let result: Result<Set<String>, any Error>
      do {
        let values = try await withThrowingTaskGroup(of: String.self) { group in
          for _ in 0..<4 {
            group.addTask { try await cache.value(forKey: key) { try computation.run() } }
          }
          return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        result = .success(values)
      } catch {
        result = .failure(error)
      }
      outcome.set(result)
    }
    let values = try outcome.wait()
    return "computed \(computation.times) \(values.sorted().joined(separator: ","))"
  }
}

/// The state that the tasks of `compute` share.
private final class Computation: Sendable {
  private let count = Atomic<Int>(0)
  private let text: String
  private let log: String
  private let isHeld: Bool

  init(text: String, log: String, isHeld: Bool) {
    self.text = text
    self.log = log
    self.isHeld = isHeld
  }

  var times: Int { count.load(ordering: .acquiring) }

  func run() throws -> String {
    let number = count.wrappingAdd(1, ordering: .acquiringAndReleasing).newValue
    try TestFiles.write([1], to: "\(log)/\(ProcessIdentity.pid)-\(number)")
    if isHeld {
      ParentProcess.send("computing")
      _ = ParentProcess.nextLine()
    }
    return text
  }
}

extension Peer {
  /// Sets a key on another thread while this one is inside a read.
  private func readThrough(_ key: Int) throws -> String {
    let numbers = try numbers
    return try store.core.withGeneration { generation in
      try generation.withSnapshot { snapshot in
        let before = try snapshot.transaction.statistics(of: generation.entries).entries
        let code = JoinableThread {
          do {
            try numbers.setValue("through", forKey: key)
            return "fine"
          } catch {
            return (error as? StoreError)?.code.rawValue ?? "\(error)"
          }
        }.join()
        let after = try snapshot.transaction.statistics(of: generation.entries).entries
        return "through \(before) \(code) \(after)"
      }
    }
  }
}

/// A result that one thread waits for.
final class Outcome<Value: Sendable>: Sendable {
  private let result = Mutex<Result<Value, any Error>?>(nil)
  private let event = Event()

  func set(_ value: Result<Value, any Error>) {
    result.withLock { $0 = value }
    event.set()
  }

  func wait() throws -> Value {
    while !event.wait(nanoseconds: 1_000_000_000) {}
    return try result.withLock { $0! }.get()
  }
}
