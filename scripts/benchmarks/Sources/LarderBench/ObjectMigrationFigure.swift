// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder
import LarderObjects
import Synchronization

/// What a migration of a million objects takes of memory, while another process reads on.
///
/// The memory is `RssAnon` of `/proc/self/status`, the resident pages that no file is behind, looked
/// at every millisecond in the migrating process: the most that was seen, less what was there when
/// the store had been opened. LMDB's map of the file is not in it; the pages it changes are.
struct ObjectMigrationFigure {
  let directory: String
  let isQuick: Bool

  func memory() throws -> Figure {
    let count = isQuick ? 100_000 : 1_000_000
    let path = directory + "/million"
    do {
      let store = try ObjectStore(at: path, .init(durability: .cache, budget: .gigabytes(4)))
      defer { store.close() }
      for start in stride(from: 0, to: count, by: 5000) {
        try store.save((start..<start + 5000).map(Part.sample))
      }
    }
    defer { Files.remove(path) }
    let reader = try Child(["--child-fetch", path])
    _ = try reader.line()
    let migrating = try Child(["--child-migrate", path])
    let memory = try migrating.number() / 1024
    let steps = try migrating.number()
    let seconds = try migrating.number()
    try migrating.finish()
    try reader.send("stop")
    let reads = try reader.number()
    let longest = try reader.number() / 1e6
    try reader.finish()
    let store = try ObjectStore(at: path, .init(durability: .cache))
    defer { store.close() }
    guard try store.objects(NewPart.self).count() == count else {
      throw BenchFailure("The migration lost objects.")
    }
    for number in stride(from: 0, to: count, by: count / 1000) {
      guard try store.object(id: Part.id(number)) == NewPart(.sample(number)) else {
        throw BenchFailure("The migration made something else of part \(number).")
      }
    }
    guard steps >= Double(count / 1000), reads > steps else {
      throw BenchFailure("\(steps) steps of progress, \(reads) reads by another process.")
    }
    let story =
      "none; \(count) objects in \(Int(seconds)) s, \(Int(steps)) progress reports; another process "
      + "read \(Int(reads)) objects, the longest took \(Int(longest * 1000)) us"
    return Figure(
      id: "objects.migration_memory", value: memory, unit: "MiB", bar: .atMost(64), own: memory,
      rival: story, rivalValue: 0, rivalUnit: "MiB")
  }
}

/// What other processes do while something is measured.
enum ObjectChildren {
  /// Changes the note of one part whenever it is told to.
  static func save(_ path: String) throws {
    let store = try ObjectStore(at: path)
    guard var part = try store.object(Part.self, id: Part.id(77)) else {
      throw BenchFailure("The part to change is missing.")
    }
    Child.say("ready")
    while let round = readLine() {
      part.note = "round \(round)"
      try store.save(part)
      Child.say("saved")
    }
    store.close()
  }

  /// Reads parts in the old version, and when that is gone in the new one, until it is told to stop.
  static func fetch(_ path: String) throws {
    let store = try ObjectStore(
      at: path, .init(durability: .cache), memory: CacheOptions(memoryCountLimit: 0))
    let count = try store.objects(Part.self).count()
    let stop = Mutex(false)
    Thread.detachNewThread {
      _ = readLine()
      stop.withLock { $0 = true }
    }
    Child.say("ready")
    var (reads, longest, isOld) = (0, UInt64(0), true)
    var numbers = Numbers(seed: 9)
    while !stop.withLock({ $0 }) {
      let number = Int.random(in: 0..<count, using: &numbers)
      let start = bench_now()
      do {
        let isThere =
          isOld
          ? try store.object(Part.self, id: Part.id(number)) == Part.sample(number)
          : try store.object(NewPart.self, id: Part.id(number)) == NewPart(.sample(number))
        guard isThere else { throw BenchFailure("Part \(number) is not as it was stored.") }
        reads += 1
        longest = max(longest, bench_now() - start)
      } catch let error as ObjectError {
        guard isOld, error.code == .newerSchema else { throw error }
        isOld = false
      }
    }
    Child.say("\(reads)")
    Child.say("\(longest)")
    store.close()
  }

  /// Migrates and says what that took.
  static func migrate(_ path: String) throws {
    let store = try ObjectStore(at: path, .init(durability: .cache))
    let before = try Memory.anonymous()
    let most = Mutex(before)
    let isDone = Mutex(false)
    Thread.detachNewThread {
      while !isDone.withLock({ $0 }) {
        if let now = try? Memory.anonymous() { most.withLock { $0 = max($0, now) } }
        usleep(1000)
      }
    }
    var steps = 0
    var last = 0
    let start = bench_now()
    let migration = Migration<Part, NewPart>("grams") { NewPart($0) }
    try store.migrate([migration.step]) { progress in
      steps += 1
      last = max(last, progress.done)
    }
    let time = bench_now() - start
    isDone.withLock { $0 = true }
    guard try last == store.objects(NewPart.self).count() else {
      throw BenchFailure("The progress ended at \(last).")
    }
    Child.say("\(most.withLock { $0 } - before)")
    Child.say("\(steps)")
    Child.say("\(Double(time) / 1e9)")
    store.close()
  }
}

enum Memory {
  /// Resident KiB of this process that no file is behind.
  static func anonymous() throws -> Int {
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    for line in status.split(separator: "\n") where line.hasPrefix("RssAnon:") {
      if let value = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first {
        return Int(value) ?? 0
      }
    }
    throw BenchFailure("This system does not tell a process's memory.")
  }
}
