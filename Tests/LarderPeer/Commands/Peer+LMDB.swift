// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// An LMDB environment, opened with LarderLMDB alone. Keys and values are words of its table "words".
//
//   lmdb open PATH [map=N] [readers=N] [wait=MS] [ondemand]
//                              -> opened
//   lmdb put K V               -> ok
//   lmdb get K                 -> value V | none
//   lmdb write FROM TO         -> ack K for each number, committed one by one; no end if TO is 0
//   lmdb add K N               -> ok            adds 1 to the number under K, N times
//   lmdb hold                  -> holding       inside a write that has put "held", and after the next
//                                               line: ok
//   lmdb rawput, lmdb rawhold  the same without waiting for the turn: only LMDB's lock is between them
//   lmdb pin                   -> pinned        inside a read, and after the next line: ok
//   lmdb cycle PATH FROM TO    -> ack K for each number: opens, commits it, closes; TO as above
//   lmdb gate PATH             -> gated         holds the gate, and after the next line: ok
//   lmdb raw PATH              -> raw           open as by a program without the gate
//   lmdb rawlock PATH          -> holding       the same, with LMDB's lock, and after the next line: ok
//   lmdb fork                  -> forked CODE … what a forked child got from each use; see Peer+Fork
//   lmdb rest                  -> ok            once no thread watches waiters for a lock
//   lmdb copy PATH             -> ok
//   lmdb close                 -> ok

import LarderLMDB
import LarderSystem
import LarderTesting

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension Peer {
  private var environment: Environment {
    get throws { try openedEnvironment ?? refuse("open an environment first") }
  }

  func lmdb(_ words: [Substring]) throws -> String? {
    let rest = words.dropFirst().map(String.init)
    switch words[0] {
    case "open":
      openedEnvironment = try Environment(at: rest[0], lmdbOptions(rest.dropFirst()))
      return "opened"
    case "put":
      let (environment, table) = try wordTable(of: environment)
      try environment.withWriteTransaction { try $0.put(rest[1], forKey: rest[0], in: table) }
    case "rawput":
      let (environment, table) = try wordTable(of: environment)
      try environment.write { try $0.put(rest[1], forKey: rest[0], in: table) }
    case "get":
      let (environment, table) = try wordTable(of: environment)
      let value = try environment.withReadTransaction { try $0.bytes(forKey: rest[0], in: table) }
      return value.map { "value \(String(decoding: $0, as: UTF8.self))" } ?? "none"
    case "write":
      let (environment, table) = try wordTable(of: environment)
      try lmdbCount(rest) { number in
        try environment.withWriteTransaction { try $0.put("v\(number)", forKey: number, in: table) }
      }
      return nil
    case "cycle":
      try lmdbCount(Array(rest.dropFirst())) { number in
        let environment = try Environment(at: rest[0], lmdbOptions([]))
        let table = try environment.table("words")
        try environment.withWriteTransaction { try $0.put("v\(number)", forKey: number, in: table) }
        try environment.close()
      }
      return nil
    case "add": try lmdbAdd(rest[0], Int(rest[1])!)
    case "hold", "rawhold":
      let (environment, table) = try wordTable(of: environment)
      func hold(_ transaction: inout WriteTransaction) throws {
        try transaction.put("yes", forKey: "held", in: table)
        ParentProcess.send("holding")
        _ = ParentProcess.nextLine()
      }
      if words[0] == "hold" {
        try environment.withWriteTransaction(hold)
      } else {
        try environment.write(hold)
      }
    case "pin":
      try environment.withReadTransaction { _ in
        ParentProcess.send("pinned")
        _ = ParentProcess.nextLine()
      }
    case "gate":
      let file = try OwnedFile(path: rest[0] + "/gate", creation: .createIfMissing)
      try file.lockExclusively()
      ParentProcess.send("gated")
      _ = ParentProcess.nextLine()
      file.unlock()
    case "raw":
      rawEnvironment = try EnvironmentHandle(
        path: rest[0], options: .init(mapSize: nil, synchronous: true))
      return "raw"
    case "rawlock": try lmdbLock(rest[0])
    case "fork": try lmdbFork()
    case "rest": while LostWakeupWatchdog.shared.isAwake { OSThread.yield() }
    case "copy": try environment.copy(to: rest[0])
    case "close": try environment.close()
    default: return try refuse("no command lmdb \(words[0])")
    }
    return "ok"
  }

  private func wordTable(of environment: Environment) throws -> (Environment, Table) {
    (environment, try environment.table("words"))
  }

  private func lmdbLock(_ path: String) throws {
    let handle = try EnvironmentHandle(path: path, options: .init(mapSize: nil, synchronous: true))
    let transaction = try WriteTransaction(in: handle)
    ParentProcess.send("holding")
    _ = ParentProcess.nextLine()
    _ = consume transaction
    handle.close()
  }

  private func lmdbOptions(_ words: some Sequence<String>) throws -> EnvironmentOptions {
    var options = EnvironmentOptions(mapSize: 1 << 26)
    for word in words {
      let halves = word.split(separator: "=")
      let value = halves.count > 1 ? Int(halves[1]) ?? 0 : 0
      switch halves[0] {
      case "map": options.mapSize = value
      case "readers": options.maximumReaders = value
      case "wait": options.openTimeout = .milliseconds(value)
      case "ondemand": options.durability = .onDemand
      default: return try refuse("no option \(word)")
      }
    }
    return options
  }

  private func lmdbCount(_ words: [String], _ body: (String) throws -> Void) throws {
    let (from, to) = (Int(words[0])!, Int(words[1])!)
    var number = from
    while to == 0 || number < to {
      try body("\(number)")
      ParentProcess.send("ack \(number)")
      number += 1
    }
  }

  private func lmdbAdd(_ key: String, _ count: Int) throws {
    let (environment, table) = try wordTable(of: environment)
    for _ in 0..<count {
      try environment.withWriteTransaction { transaction in
        let old = try transaction.bytes(forKey: key, in: table).flatMap {
          Int(String(decoding: $0, as: UTF8.self))
        }
        try transaction.put("\((old ?? 0) + 1)", forKey: key, in: table)
      }
    }
  }

  private func lmdbFork() throws {
    let (environment, table) = try wordTable(of: environment)
    #if os(Linux)
    let child = fork()
    if child < 0 { return try refuse("fork failed") }
    if child == 0 {
      let uses: [() throws -> Void] = [
        { _ = try environment.withReadTransaction { try $0.bytes(forKey: "a", in: table) } },
        { try environment.withWriteTransaction { try $0.put("child", forKey: "a", in: table) } },
        { _ = try environment.table("other") },
        { _ = try environment.readers() },
        { try environment.close() },
        { _ = try Environment(at: environment.path) },
      ]
      let codes = uses.map { use in
        do {
          try use()
          return "fine"
        } catch {
          return "\((error as? LMDBError)?.code.rawValue ?? 0)"
        }
      }
      ParentProcess.send("forked \(codes.joined(separator: " "))")
      var byte: UInt8 = 0
      while unsafe read(0, &byte, 1) > 0 {}
      _exit(0)
    }
    while true { pause() }
    #else
    return try refuse("Swift has no fork on this system")
    #endif
  }
}
