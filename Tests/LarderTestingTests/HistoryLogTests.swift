// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.timeLimit(.minutes(60)))
struct HistoryLogTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  @Test func `Logged operations are read back, with times in order`() throws {
    let log = try HistoryLog(directory: directory.path)
    let before = Linearizability.now()
    let write = try #require(log.begin(.write, key: 7, value: 70))
    log.end(write)
    let read = try #require(log.begin(.read, key: 8))
    log.end(read, value: 80)
    let after = Linearizability.now()
    let operations = try HistoryLog.operations(in: directory.path)
    #expect(operations.map(\.kind) == [.write, .read])
    #expect(operations.map(\.key) == [7, 8])
    #expect(operations.map(\.value) == [70, 80])
    let times = operations.flatMap { [$0.start, $0.end] }
    #expect(([before] + times + [after]) == ([before] + times + [after]).sorted())
  }

  @Test func `What did not end is pending, and what was discarded never was`() throws {
    let log = try HistoryLog(directory: directory.path)
    _ = log.begin(.write, key: 1, value: 10)
    log.discard(try #require(log.begin(.write, key: 2, value: 20)))
    let operations = try HistoryLog.operations(in: directory.path)
    #expect(operations.map(\.value) == [10])
    #expect(operations.map(\.end) == [Linearizability.pending])
  }

  @Test func `A full log takes nothing more and loses nothing`() throws {
    let log = try HistoryLog(directory: directory.path, capacity: 3)
    let entries = (1...5).map { log.begin(.write, key: 1, value: $0) }
    #expect(entries.map { $0 == nil } == [false, false, false, true, true])
    #expect(try HistoryLog.operations(in: directory.path).map(\.value) == [1, 2, 3])
  }

  @Test func `A killed process leaves all it noted and what it was about to do`() async throws {
    await #expect(processExitsWith: .signal(SIGKILL)) { [path = directory.path as String] in
      let log = try HistoryLog(directory: path)
      for value in 1...1000 as ClosedRange<UInt64> {
        log.end(try #require(log.begin(.write, key: 1, value: value)))
      }
      _ = log.begin(.write, key: 1, value: 1001)
      kill(getpid(), SIGKILL)
    }
    let operations = try HistoryLog.operations(in: directory.path)
    #expect(operations.map(\.value) == Array(1...1001))
    #expect(operations.count { $0.end == Linearizability.pending } == 1)
    #expect(operations.last?.end == Linearizability.pending)
  }

  @Test func `Threads share a log, and logs a directory`() throws {
    let logs = try (0..<2).map { _ in try HistoryLog(directory: directory.path) }
    let threads = (0..<4).map { number in
      JoinableThread {
        for value in 0..<500 as Range<UInt64> {
          guard let entry = logs[number % 2].begin(.write, key: UInt64(number), value: value + 1)
          else { return }
          logs[number % 2].end(entry)
        }
      }
    }
    for thread in threads { thread.join() }
    let operations = try HistoryLog.operations(in: directory.path)
    #expect(operations.count == 2000)
    #expect(Set(operations.map { $0.key << 32 | $0.value }).count == 2000)
    #expect(Linearizability.violations(in: operations) == [])
  }

  @Test func `A file that is not a history is an error that names it`() throws {
    let log = try HistoryLog(directory: directory.path, capacity: 10)
    for (offset, byte) in [(0, UInt8(0)), (8, 9), (12, 41), (16, 11)] {
      let before = try TestFiles.contents(of: log.path)
      try TestFiles.overwrite([byte], at: offset, in: log.path)
      let error = #expect(throws: HistoryLog.DamagedLogError.self) {
        try HistoryLog.operations(in: directory.path)
      }
      #expect(error?.description.contains(log.path) == true)
      try TestFiles.overwrite(before, at: 0, in: log.path)
    }
    try TestFiles.write([1, 2, 3], to: directory.appending("short.history"))
    #expect(throws: HistoryLog.DamagedLogError.self) {
      try HistoryLog.operations(in: directory.path)
    }
  }

  @Test func `Other files of the directory are left alone`() throws {
    try TestFiles.write([1, 2, 3], to: directory.appending("notes"))
    #expect(try HistoryLog.operations(in: directory.path) == [])
  }
}
