// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

extension Processes {
  /// LMDB's writer lock names a thread that does not have it, while processes have the store open.
  @Suite(.timeLimit(.minutes(60))) struct DamagedWriterLockTests {
    /// The thread whose number the lock has.
    enum Named: CaseIterable { case noThread, waitersOnly, stranger, idleProcess, writerItself }

    @Test(arguments: Named.allCases, [Durability.cache, .durable])
    func `Writers write on while their lock names a thread that does not have it`(
      named: Named, durability: Durability
    ) throws {
      let ground = try StoreFixture(StoreOptions(durability: durability))
      // Of the rest of the file, a descriptor that is closed would drop this process's locks.
      ground.store.close()
      let (first, second) = (try ground.peer("\(durability)"), try ground.peer("\(durability)"))
      let stranger = try ChildProcess("sleep", ["100000"])
      defer { stranger.kill() }
      try first.order("set 1 one")
      try second.order("set 2 two")
      let (directory, _) = try #require(StoreDirectory.find(ground.path))
      let file = LMDBLockFile(directory.generation(1) + "/lock.mdb")
      for round in 0..<3 {
        let word: UInt32 =
          switch named {
          case .noThread: 0x0100_0000
          case .waitersOnly: LMDBLockFile.waiters
          case .stranger: UInt32(stranger.processIdentifier)
          case .idleProcess: UInt32(second.processIdentifier)
          case .writerItself: UInt32(first.processIdentifier)
          }
        try file.setWord(word, of: .writer)
        // No time limit passes, and no process is blamed.
        try first.order("set 1 one\(round)")
        try second.order("set 2 two\(round)")
        #expect(try first.ask("get 2") == "value two\(round)")
        #expect(try second.ask("get 1") == "value one\(round)")
      }
      #expect(try first.ask("verify") == "sound")
      try first.dismiss()
      try second.dismiss()
    }
  }
}
#endif
