// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
import Glibc

/// LMDB's file `lock.mdb`, mapped by a process that does not have the environment open: in a process
/// that has, closing the file would release LMDB's locks.
///
/// Each lock begins with a word of 32 bits: the thread that holds it, or zero, and in the highest
/// bit whether other threads sleep until its release.
package struct LMDBLockFile {
  package enum Lock: Sendable, CaseIterable { case readers, writer }

  package static let waiters: UInt32 = 0x8000_0000
  private let path: String

  package init(_ path: String) { self.path = path }

  package func word(of lock: Lock) throws -> UInt32 {
    try word(TestFiles.contents(of: path), at: offset(of: lock))
  }

  package func setWord(_ word: UInt32, of lock: Lock) throws {
    let bytes = (0..<4).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) }
    try TestFiles.overwrite(bytes, at: offset(of: lock), in: path)
  }

  /// Clears the waiters' bit of a lock that is held, so that its release wakes no thread.
  package func forgetWaiters(of lock: Lock) throws {
    let highest = try word(of: lock) >> 24 & 0x7F
    try TestFiles.overwrite([UInt8(highest)], at: offset(of: lock) + 3, in: path)
  }

  /// Waits until a thread sleeps for the lock. Returns `false` if none does within ten minutes.
  package func waitForWaiter(of lock: Lock, in process: ChildProcess) throws -> Bool {
    let limit = ContinuousClock.now + .seconds(600)
    while ContinuousClock.now < limit {
      if try word(of: lock) & LMDBLockFile.waiters != 0, process.isAsleep { return true }
      sched_yield()
    }
    return false
  }

  private func offset(of lock: Lock) throws -> Int {
    let size = unsafe MemoryLayout<pthread_mutex_t>.size
    // After magic and format. Each lock has a cache line.
    if lock == .writer { return (24 + size + 63) & ~63 }
    // Before or after two words, depending on the release. Its kind: robust and process-shared.
    let bytes = try TestFiles.contents(of: path)
    return word(bytes, at: 8 + 16) == 0x90 ? 8 : 24
  }

  private func word(_ bytes: [UInt8], at offset: Int) -> UInt32 {
    (0..<4).reduce(0) { $0 | UInt32(bytes[offset + $1]) << (8 * $1) }
  }
}

extension ChildProcess {
  /// The number of waits of the present threads of a process.
  package var wakeUps: Int {
    let tasks = "/proc/\(processIdentifier)/task"
    return TestFiles.names(in: tasks).reduce(0) { sum, task in
      let bytes = (try? TestFiles.contents(of: "\(tasks)/\(task)/status")) ?? []
      let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
      let line = lines.first { $0.hasPrefix("voluntary_ctxt_switches:") }
      return sum + (line.flatMap { Int($0.split(separator: "\t").last ?? "") } ?? 0)
    }
  }

  /// Returns whether every thread of a process sleeps.
  package var isAsleep: Bool {
    let tasks = "/proc/\(processIdentifier)/task"
    return TestFiles.names(in: tasks).allSatisfy { task in
      guard let bytes = try? TestFiles.contents(of: "\(tasks)/\(task)/stat") else { return true }
      // "pid (name) S ..."
      let rest = String(decoding: bytes, as: UTF8.self).split(separator: ")").last ?? ""
      return rest.hasPrefix(" S")
    }
  }
}
#endif
