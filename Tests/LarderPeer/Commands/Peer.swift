// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE COMMANDS OF THE PEER
//
//   open PATH [budget=N] [bits=4] [clock=MS] [shared=FILE] [timeout=MS] [wait=MS] [durable] [meet]
//        [relaxed] [interval=MS] [idle=MS] [restless] [unmapped] [compute=MS]
//                              -> opened GENERATION    (meet: prints `ready`, opens after `go`)
//   get K                      -> value TEXT | none
//   set K TEXT, behind K TEXT  -> ok
//   token K TEXT               -> token TOKEN          (of the commit that sets K)
//   expiring K MS TEXT         -> ok                   (expires at MS of the store's clock)
//   jitter N                   -> jitter N...          (N lifetimes of a day with a jitter of 1)
//   tagged K TAGS TEXT         -> ok                   (tags with commas)
//   untag TAG                  -> ok                   (removes what has the tag)
//   absent K                   -> ok
//   state K                    -> value TEXT | absent | unknown
//   remove K                   -> removed | none
//   sync, clock MS, close      -> ok
//   count, bytes               -> N
//   wall                       -> N                    (the milliseconds since 1970 of this process's clock)
//   verify                     -> sound | the findings
//   hold                       -> holding, and after the next line: ok
//   numbers FROM TO            -> ack K for each key that is committed
//   overwrite K                -> ack N for each value N, from 0 to 999, of the key that is committed
//   and those of `Peer+Loops.swift`, `Peer+StoreState.swift`, `Peer+DiskPressure.swift`,
//   `Peer+Folder.swift`, `Peer+Defaults.swift`, `Peer+LMDB.swift`, `Peer+Attack.swift`,
//   `Peer+Locks.swift`, `Peer+Deques.swift`
//   and, with objects,
//   `Peer+Objects.swift` and `Peer+Notes.swift`
//   exit                       no answer
//
// A failure is answered with `error CODE PID SENTENCE`. A key that is a number is an `Int`.

import Larder
import LarderDefaults
import LarderEngine
import LarderLMDB
import LarderObjects
import LarderSystem
import LarderTesting

/// One store, opened on command, and two caches over it.
final class Peer {
  struct Refusal: Error, CustomStringConvertible {
    let description: String
  }

  /// A key and the cache it belongs to.
  enum Key {
    case number(Int)
    case text(String)

    init(_ word: Substring) { self = Int(word).map(Key.number) ?? .text(String(word)) }
  }

  private var opened: SharedStore?
  private var openedNumbers: PersistentCache<Int, String>?
  private var openedTexts: PersistentCache<String, String>?
  private let clock = ManualClock()
  var openedObjects: ObjectStore?
  var openedDefaults: Defaults?
  var openedEnvironment: Environment?
  var rawEnvironment: EnvironmentHandle?

  var store: SharedStore { get throws { try opened ?? refuse("open a store first") } }
  var numbers: PersistentCache<Int, String> {
    get throws { try openedNumbers ?? refuse("open a store first") }
  }
  var texts: PersistentCache<String, String> {
    get throws { try openedTexts ?? refuse("open a store first") }
  }

  func refuse<T>(_ reason: String) throws -> T { throw Refusal(description: reason) }

  /// Executes the command of a line and answers; returns false after the last one.
  func obey(_ line: String) -> Bool {
    let words = line.split(separator: " ", maxSplits: 1)
    guard let command = words.first, command != "exit" else { return false }
    do {
      if let answer = try answer(String(command), words.count > 1 ? words[1] : "") {
        ParentProcess.send(answer)
      }
    } catch let error as StoreError {
      ParentProcess.send("error \(error.code) \(error.pid ?? 0) \(error.message)")
    } catch {
      ParentProcess.send("error \(error)")
    }
    return true
  }

  private func answer(_ command: String, _ rest: Substring) throws -> String? {
    switch command {
    case "open": return try open(rest.split(separator: " "))
    case "get": return try value(Key(rest)).map { "value \($0)" } ?? "none"
    case "set", "behind":
      let words = rest.split(separator: " ", maxSplits: 1)
      try set(Key(words[0]), String(words[1]), isWriteBehind: command == "behind")
    case "token":
      let words = rest.split(separator: " ", maxSplits: 1)
      try set(Key(words[0]), String(words[1]), isWriteBehind: true)
      return "token \(try store.commitToken())"
    case "expiring":
      let words = rest.split(separator: " ", maxSplits: 2)
      try numbers.setValue(
        String(words[2]), forKey: number(words[0]),
        expires: .at(millisecondsSince1970: Int64(number(words[1]))))
    case "tagged":
      let words = rest.split(separator: " ", maxSplits: 2)
      try numbers.setValue(
        String(words[2]), forKey: number(words[0]),
        tags: words[1].split(separator: ",").map(String.init))
    case "untag": try numbers.removeAll(tagged: String(rest))
    case "absent": try numbers.setAbsent(forKey: number(rest), expires: .never)
    case "state":
      return switch try numbers.state(forKey: number(rest)) {
      case .value(let text): "value \(text)"
      case .absent: "absent"
      case .unknown: "unknown"
      }
    case "jitter":
      let expires = Expiration.after(.seconds(86_400), jitter: 1)
      let lifetimes = try (0..<number(rest)).map { _ in "\(try expires.deadline(now: 0))" }
      return "jitter " + lifetimes.joined(separator: " ")
    case "remove": return try remove(Key(rest)) ? "removed" : "none"
    case "sync": try store.sync()
    case "count": return try "\(store.statistics().entries)"
    case "bytes": return try "\(store.statistics().bytes)"
    case "verify":
      let findings = try store.verify()
      return findings.isEmpty ? "sound" : "\(findings)"
    case "clock": clock.set(to: Int64(try number(rest)))
    case "wall": return "\(Clocks.wallMilliseconds())"
    case "hold": try hold()
    case "numbers":
      let (from, to) = try range(rest)
      for key in from..<to {
        try numbers.setValue("v\(key)", forKey: key)
        ParentProcess.send("ack \(key)")
      }
      return nil
    case "overwrite":
      let key = try number(rest)
      for value in 0..<1000 {
        try numbers.setValue("\(value)", forKey: key)
        ParentProcess.send("ack \(value)")
      }
    case "close": try store.close()
    case "swap": return try swap(rest.split(separator: " "))
    case "lmdb": return try lmdb(rest.split(separator: " "))
    case "defaults": return try defaults(rest.split(separator: " "))
    default: return try loop(command, rest.split(separator: " "))
    }
    return "ok"
  }

  func number(_ word: Substring) throws -> Int {
    try Int(word) ?? refuse("\"\(word)\" is no number")
  }

  func range(_ rest: Substring) throws -> (from: Int, to: Int) {
    let words = rest.split(separator: " ")
    return (try number(words[0]), try number(words[1]))
  }

  private func open(_ words: [Substring]) throws -> String {
    // Limits that a test does not name only end a hang: a busy machine may exceed the usual ones.
    var options = StoreOptions(openTimeout: .seconds(600), writeTimeout: .seconds(600))
    var cacheOptions = CacheOptions(computeTimeout: .seconds(600))
    for word in words.dropFirst() {
      let halves = word.split(separator: "=")
      let value = halves.count > 1 ? Int(halves[1]) ?? 0 : 0
      switch halves[0] {
      case "budget": options.budget = .bytes(value)
      case "bits": options.hashBits = value
      case "timeout": options.writeTimeout = .milliseconds(value)
      case "compute": cacheOptions.computeTimeout = .milliseconds(value)
      case "wait": options.openTimeout = .milliseconds(value)
      case "cache": options.durability = .cache
      case "durable": options.durability = .durable
      case "strict", "durableStrict": options.durability = .durableStrict
      case "relaxed": options.durability = .relaxed
      case "interval":
        options.syncInterval = .milliseconds(value)
        options.idleSyncDelay = nil
      case "idle": options.idleSyncDelay = .milliseconds(value)
      case "restless": options.idleSyncDelay = nil
      case "unmapped": options.usesWriteMap = false
      case "sweeps": options.sweepsWhenIdle = value != 0
      case "clock":
        clock.set(to: Int64(value))
        options.clock = StoreClock { [clock] in clock.now }
      case "shared":
        options.clock = try ManualClock(sharedAt: String(halves[1])).storeClock
      case "meet": if !ProcessBarrier.arrive() { return try refuse("no go from the parent") }
      default: return try refuse("no option \(word)")
      }
    }
    let store = try SharedStore(at: String(words[0]), options)
    opened = store
    openedNumbers = PersistentCache(storage: store, options: cacheOptions)
    openedTexts = PersistentCache(storage: store, options: cacheOptions)
    return "opened \(try store.statistics().generation)"
  }

  private func value(_ key: Key) throws -> String? {
    switch key {
    case .number(let key): try numbers.value(forKey: key)
    case .text(let key): try texts.value(forKey: key)
    }
  }

  private func set(_ key: Key, _ value: String, isWriteBehind: Bool) throws {
    switch key {
    case .number(let key) where isWriteBehind: try numbers[key] = value
    case .number(let key): try numbers.setValue(value, forKey: key)
    case .text(let key) where isWriteBehind: try texts[key] = value
    case .text(let key): try texts.setValue(value, forKey: key)
    }
  }

  private func remove(_ key: Key) throws -> Bool {
    switch key {
    case .number(let key): try numbers.removeValue(forKey: key)
    case .text(let key): try texts.removeValue(forKey: key)
    }
  }

  private func hold() throws {
    try store.write { transaction in
      try transaction.setBytes([1], forKey: "held")
      ParentProcess.send("holding")
      _ = ParentProcess.nextLine()
    }
  }
}
