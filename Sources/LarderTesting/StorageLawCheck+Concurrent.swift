// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
import Synchronization

// A value of these laws contains the number of its key and a sequence number in each of its words, and
// its length follows from the sequence number. A mixture of two values is detected.

extension StorageLawCheck {
  private static let threadCount = 4
  /// The number of operations, large enough that threads of a fast storage overlap.
  private static let leastTime = Duration.milliseconds(50)

  func concurrentWritersLoseNothing() async throws {
    let rounds = max(storage.operations / 8, 10)
    let end = ContinuousClock.now + Self.leastTime
    let written = (0..<Self.threadCount).map { _ in Tally() }
    try sideBySide { [self] thread in
      while written[thread].count < rounds || ContinuousClock.now < end {
        let number = written[thread].count
        written[thread].add()
        try await storage.set("\(thread)/\(number)", value(thread, number))
        // A thread's writes must not remove the values of another thread.
        if number % 3 == 2 { try await storage.remove("\(thread)/\(number - 1)") }
        let earlier = number / 2
        let isThere = earlier % 3 != 1 || earlier + 1 > number
        try await expect(
          isThere ? value(thread, earlier) : nil, for: "\(thread)/\(earlier)",
          isThere ? "set while others wrote other keys" : "removed while others wrote other keys")
      }
    }
    for thread in 0..<Self.threadCount {
      let count = written[thread].count
      for number in 0..<count {
        let isThere = number % 3 != 1 || number + 1 == count
        try await expect(
          isThere ? value(thread, number) : nil, for: "\(thread)/\(number)",
          isThere
            ? "set while others wrote other keys, at the end"
            : "removed while others wrote other keys, at the end")
      }
    }
  }

  /// Two threads write a key each, two read both.
  func concurrentReadersSeeWholeValues() async throws {
    let rounds = max(storage.operations / 2, 10)
    let end = ContinuousClock.now + Self.leastTime
    let names = ["left", "right"]
    for key in 0..<2 { try await storage.set(names[key], value(key, 0)) }
    let finished = Tally()
    let written = [Tally(), Tally()]
    try sideBySide { [self] thread in
      if thread < 2 {
        defer { finished.add() }
        while written[thread].count < rounds || ContinuousClock.now < end {
          try await storage.set(names[thread], value(thread, written[thread].count + 1))
          written[thread].add()
        }
        return
      }
      var newest = [0, 0]
      repeat {
        for key in 0..<2 {
          let number = try sequence(of: try await storage.get(names[key]), key: key, names[key])
          if number < newest[key] {
            throw LawFailure(
              message: """
                The key \(quoted(names[key])) was read as its value number \(newest[key]), and \
                later as number \(number).
                """)
          }
          newest[key] = number
        }
      } while finished.count < 2
    }
    for key in 0..<2 {
      try await expect(
        value(key, written[key].count), for: names[key], "written by one thread, at the end")
    }
  }

  /// All threads increment one key, and each increments another one.
  func concurrentUpdatesLoseNothing() async throws {
    guard let update = storage.update else { return }
    let rounds = max(storage.operations / 8, 5)
    let add: @Sendable (inout [UInt8]?) throws -> Void = { bytes in
      let number = (bytes ?? []).reversed().reduce(0) { $0 << 8 | Int($1) } + 1
      bytes = (0..<4).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    }
    try sideBySide { thread in
      for _ in 0..<rounds {
        try await update("all", add)
        try await update("own \(thread)", add)
      }
    }
    for (key, count) in [("all", rounds * Self.threadCount), ("own 0", rounds)] {
      let expected = (0..<4).map { UInt8(truncatingIfNeeded: count >> ($0 * 8)) }
      try await expect(expected, for: key, "counted up \(count) times by updates")
    }
    try await update("all") { $0 = nil }
    try await expect(nil, for: "all", "updated to nothing")
  }

  private final class Tally: Sendable {
    private let value = Atomic<Int>(0)
    var count: Int { value.load(ordering: .acquiring) }
    func add() { value.wrappingAdd(1, ordering: .acquiringAndReleasing) }
  }

  // MARK: Parts

  private func value(_ key: Int, _ number: Int) -> [UInt8] {
    let word = UInt64(key) << 56 | 0xA5 << 48 | UInt64(number)
    let count = (1 + number * 37 % 501) * 8
    return unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      let bytes = UnsafeMutableRawBufferPointer(buffer)
      for offset in stride(from: 0, to: count, by: 8) {
        unsafe bytes.storeBytes(of: word.littleEndian, toByteOffset: offset, as: UInt64.self)
      }
      initialized = count
    }
  }

  private func sequence(of found: [UInt8]?, key: Int, _ name: String) throws -> Int {
    guard let found else {
      throw LawFailure(message: "The key \(quoted(name)) was gone for a moment while it was set.")
    }
    if found.count >= 8 {
      let number = found[..<6].reversed().reduce(0) { $0 << 8 | Int($1) }
      if found == value(key, number) { return number }
    }
    throw LawFailure(
      message: """
        The key \(quoted(name)) was read as \(described(found)), which was never stored for it.
        """)
  }

  /// Runs `body` on several threads that start together. When all have ended, throws the error of the
  /// first thread that failed.
  private func sideBySide(
    _ body: @escaping @Sendable (_ thread: Int) async throws -> Void
  ) throws {
    let arrived = Tally()
    let threads = (0..<Self.threadCount).map { thread in
      JoinableThread { () -> (any Error)? in
        arrived.add()
        while arrived.count < Self.threadCount { pauseBriefly() }
        return CallingThreadExecutor.run { () -> (any Error)? in
          do {
            try await body(thread)
            return nil
          } catch {
            return error
          }
        }
      }
    }
    let errors = threads.map { $0.join() }
    if let error = errors.lazy.compactMap({ $0 }).first { throw error }
  }
}

private func pauseBriefly() {
  var pause = Backoff()
  pause.take()
}
