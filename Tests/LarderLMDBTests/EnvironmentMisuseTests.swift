// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderLMDB
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// Misuse that LMDB would answer with a hang, a signal or silence.
@Suite(.timeLimit(.minutes(60))) struct EnvironmentMisuseTests {
  let directory: TemporaryDirectory
  let environment: Environment
  let words: Table

  init() throws {
    directory = try TemporaryDirectory()
    // A busy machine can take longer than the default to come to the end of a transaction.
    environment = try Environment(
      at: directory.path,
      .init(mapSize: 1 << 26, durability: .onDemand, writeTimeout: .seconds(600)))
    words = try environment.table("words")
  }

  @Test func `Inside a write, what would wait for that write is an error`() throws {
    try environment.withWriteTransaction { transaction in
      try transaction.put("1", forKey: "a", in: words)
      #expect(code { try environment.withWriteTransaction { _ in } } == .insideTransaction)
      #expect(code { _ = try environment.table("other") } == .insideTransaction)
      #expect(code { try environment.close() } == .insideTransaction)
      #expect(code { try environment.copy(to: directory.appending("x")) } == .insideTransaction)
      #expect(code { _ = try environment.verify() } == .insideTransaction)
      // The open environment is available, and reads continue.
      #expect(try environment.table("words") == words)
      #expect(try environment.withReadTransaction { try !$0.contains(key: "a", in: words) })
    }
    #expect(try environment.withReadTransaction { try $0.contains(key: "a", in: words) })
  }

  @Test func `Closing inside a read is an error, and so is any use after closing`() throws {
    try environment.withReadTransaction { _ in
      #expect(code { try environment.close() } == .insideTransaction)
    }
    try environment.close()
    #expect(code { _ = try environment.withReadTransaction { $0.id } } == .closed)
    #expect(code { try environment.withWriteTransaction { _ in } } == .closed)
    #expect(code { _ = try environment.table("words") } == .closed)
    #expect(code { _ = try environment.information() } == .closed)
    #expect(code { _ = try environment.readers() } == .closed)
    #expect(code { try environment.synchronize() } == .closed)
    #expect(code { try environment.copy(to: directory.appending("x")) } == .closed)
    try environment.close()
  }

  @Test func `Closing waits for the transactions of other threads`() throws {
    let (isIn, mayEnd) = (Event(), Event())
    let writer = JoinableThread { [environment, words] in
      code {
        try environment.withWriteTransaction { transaction in
          isIn.set()
          mayEnd.wait()
          try transaction.put("1", forKey: "a", in: words)
        }
      }
    }
    isIn.wait()
    let box = ClosedFlag()
    let closer = JoinableThread { [environment] in
      let result = code { try environment.close() }
      box.isSet.store(true, ordering: .sequentiallyConsistent)
      return result
    }
    // Others are refused from the moment on that it waits.
    while code({ try environment.synchronize() }) != .closed { OSThread.yield() }
    let isClosed = box.isSet.load(ordering: .sequentiallyConsistent)
    #expect(!isClosed)
    mayEnd.set()
    #expect(writer.join() == nil && closer.join() == nil)
    let again = try Environment(at: directory.path, .init(durability: .onDemand))
    let table = try again.table("words")
    #expect(try again.withReadTransaction { try $0.contains(key: "a", in: table) })
  }

  @Test func `Asynchronous writes keep no thread of the pool waiting`() async throws {
    let (isIn, mayEnd) = (Event(), Event())
    let holder = JoinableThread { [environment] in
      code {
        try environment.withWriteTransaction { _ in
          isIn.set()
          mayEnd.wait()
        }
      }
    }
    isIn.wait()
    let count = 4 * OSThread.coreCount
    try await withThrowingTaskGroup { group in
      for number in 0..<count {
        group.addTask { [environment, words] in
          try await environment.withWriteTransaction { transaction in
            try transaction.put([1], forKey: "\(number)", in: words)
          }
        }
      }
      // All wait by now or will; the pool has threads for this all the same.
      for _ in 0..<100 { await Task { await Task.yield() }.value }
      mayEnd.set()
      try await group.waitForAll()
    }
    #expect(holder.join() == nil)
    let entries = try environment.withReadTransaction { try $0.statistics(of: words).entries }
    #expect(entries == count)
  }

  @Test func `A table of another environment, or of a closed one, is an error`() throws {
    let other = try Environment(at: directory.appending("other"), .init(mapSize: 1 << 26))
    let numbers = try other.table("numbers", keys: .integers)
    #expect(
      code { _ = try environment.withReadTransaction { try $0.bytes(forKey: "a", in: numbers) } }
        == .wrongEnvironment)
    try environment.withWriteTransaction { transaction in
      #expect(
        code { try transaction.put([1], forKey: UInt64(1), in: numbers) } == .wrongEnvironment)
      #expect(code { try transaction.removeAll(in: numbers) } == .wrongEnvironment)
      #expect(code { _ = try transaction.statistics(of: numbers) } == .wrongEnvironment)
      #expect(code { try transaction.forEach(in: numbers) { _, _ in } } == .wrongEnvironment)
    }
    try other.close()
    let again = try Environment(at: directory.appending("other"))
    #expect(
      code { _ = try again.withReadTransaction { try $0.statistics(of: numbers) } }
        == .wrongEnvironment)
  }

  @Test func `Keys of the other kind are an error, never a wrong entry`() throws {
    let numbers = try environment.table("numbers", keys: .integers)
    try environment.withWriteTransaction { transaction in
      #expect(code { try transaction.put("x", forKey: "a", in: numbers) } == .keyKindMismatch)
      #expect(code { try transaction.put("x", forKey: UInt64(1), in: words) } == .keyKindMismatch)
      #expect(
        code { try transaction.removeValue(forKey: UInt64(1), in: words) } == .keyKindMismatch)
      #expect(code { try transaction.removeAll(in: words, .from(UInt64(1))) } == .keyKindMismatch)
      #expect(
        code { try transaction.forEach(in: numbers, .prefix("a")) { _, _ in } } == .keyKindMismatch)
      let mixed = KeyRange.from("a").upTo(UInt64(9))
      #expect(code { try transaction.forEach(in: words, mixed) { _, _ in } } == .keyKindMismatch)
      // A type that declares integer keys and passes other bytes.
      #expect(code { try transaction.put("x", forKey: Short(), in: numbers) } == .badValueSize)
      #expect(
        code { try transaction.forEach(in: numbers, .from(Short())) { _, _ in } }
          == .keyKindMismatch)
    }
  }

  private struct Short: TableKey {
    static var keyKind: Table.Keys { .integers }
    func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R {
      [UInt8](repeating: 1, count: 4).withKeyBytes(body)
    }
  }

  @Test func `The requested number of tables can be open`() throws {
    let small = try Environment(
      at: directory.appending("small"), .init(mapSize: 1 << 24, maximumTables: 2))
    _ = try small.table("1")
    _ = try small.table("2")
    #expect(code { _ = try small.table("3") } == .tablesFull)
    let unnamed = try small.table(nil)
    try small.withWriteTransaction { try $0.put("x", forKey: "own", in: unnamed) }
    // The names of tables are stored there as well; they must not be overwritten.
    let over = code { try small.withWriteTransaction { try $0.put("x", forKey: "1", in: unnamed) } }
    #expect(over == .incompatible)
    let away = code {
      _ = try small.withWriteTransaction { try $0.removeValue(forKey: "1", in: unnamed) }
    }
    #expect(away == .incompatible)
    #expect(code { _ = try small.table(nil, keys: .integers) } == .incompatible)
  }

  @Test func `Readers that are all in use are an error, and one that ends lets others in`() throws {
    let small = try Environment(
      at: directory.appending("small"), .init(mapSize: 1 << 24, maximumReaders: 2))
    func nest(_ depth: Int) throws {
      if depth > 0 { try small.withReadTransaction { _ in try nest(depth - 1) } }
    }
    #expect(code { try nest(2000) } == .readersFull)
    try nest(3)
  }

  @Test func `Files that are removed under an open environment are noticed by its writes`()
    throws
  {
    try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: words) }
    TestFiles.removeAll(directory.path)
    let error = #expect(throws: LMDBError.self) {
      try environment.withWriteTransaction { try $0.put("2", forKey: "a", in: words) }
    }
    #expect(error?.code == .filesRemoved)
    // The new one at that place is another environment.
    let path = directory.path
    let new = try Environment(at: path, .init(mapSize: 1 << 24))
    let table = try new.table("words")
    try new.withWriteTransaction { try $0.put("3", forKey: "a", in: table) }
    try environment.close()
    #expect(try new.withReadTransaction { try $0.contains(key: "a", in: table) })
  }

  @Test func `A file cut short under an open environment is noticed by its writes`() throws {
    try environment.withWriteTransaction { transaction in
      try transaction.put([UInt8](repeating: 1, count: 100_000), forKey: "a", in: words)
    }
    try environment.withWriteTransaction { try $0.put("1", forKey: "b", in: words) }
    try TestFiles.truncate(directory.path + "/data.mdb", to: 8192)
    #expect(code { try environment.withWriteTransaction { _ in } } == .filesRemoved)
  }

  @Test func `Every error names a remedy`() {
    for raw in Array(-30_799 ... -30_779) + Array(-16 ... -1) + [1, 2, 5, 12, 13, 17, 20, 28, 95] {
      let error = LMDBError(.init(rawValue: CInt(raw)), during: "x")
      #expect(error.description.hasPrefix("x: "))
      #expect(error.advice.hasSuffix(".") && error.advice.count > 10, "\(raw): \(error.advice)")
      #expect(!error.description.contains("Unknown error"), "\(raw)")
    }
    #expect(code { throw LMDBError(.mapFull, during: "x") } == .mapFull)
    do {
      throw LMDBError(.mapFull, during: "x")
    } catch LMDBError.Code.mapFull {
    } catch {
      Issue.record("a code is a pattern")
    }
  }
}

private final class ClosedFlag: Sendable {
  let isSet = Atomic<Bool>(false)
}
