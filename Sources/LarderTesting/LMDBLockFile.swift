// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
  import Glibc

  /// LMDB's file `lock.mdb`, in the hands of a process that does not have the environment open itself:
  /// closing the file would take LMDB's locks from one that has.
  ///
  /// Each lock begins with a word of 32 bits: the thread that holds it, zero for none, and in the
  /// highest bit whether others sleep until it is let go.
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

    /// Takes the waiters' mark from a lock that is held: whoever lets it go wakes nobody.
    package func forgetWaiters(of lock: Lock) throws {
      let highest = try word(of: lock) >> 24 & 0x7F
      try TestFiles.overwrite([UInt8(highest)], at: offset(of: lock) + 3, in: path)
    }

    /// Waits until somebody sleeps until the lock is let go; `false`: nobody in ten seconds.
    package func waitForWaiter(of lock: Lock, in process: ChildProcess) throws -> Bool {
      let limit = ContinuousClock.now + .seconds(10)
      while ContinuousClock.now < limit {
        if try word(of: lock) & LMDBLockFile.waiters != 0, process.isAsleep { return true }
        sched_yield()
      }
      return false
    }

    private func offset(of lock: Lock) throws -> Int {
      let size = unsafe MemoryLayout<pthread_mutex_t>.size
      // After magic and format; a line of the cache to each lock.
      if lock == .writer { return (24 + size + 63) & ~63 }
      // Before or after two words, in one release or another. Its kind: robust, and of all processes.
      let bytes = try TestFiles.contents(of: path)
      return word(bytes, at: 8 + 16) == 0x90 ? 8 : 24
    }

    private func word(_ bytes: [UInt8], at offset: Int) -> UInt32 {
      (0..<4).reduce(0) { $0 | UInt32(bytes[offset + $1]) << (8 * $1) }
    }
  }

  extension ChildProcess {
    /// Whether every thread of it sleeps.
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
