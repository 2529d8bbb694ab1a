// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Logging
import Foundation
import InMemoryLogging
import Larder
import LarderEngine
import LarderLogging
import LarderTesting
import Logging
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60)))
struct LoggingTests {
  let handler: InMemoryLogHandler
  let logger: Logger

  init() {
    var handler = InMemoryLogHandler()
    handler.logLevel = .trace
    self.handler = handler
    logger = Logger(label: "test") { [handler] _ in handler }
  }

  @Test func `Every event is logged with its documented level and metadata`() throws {
    let options = StoreOptions().logging(to: logger)
    let events: [(StoreEvent, Logger.Level, Logger.Metadata)] = [
      (.damagedEntry("here"), .warning, ["larder.event": "damagedEntry", "larder.detail": "here"]),
      (.resetToEmpty("so"), .error, ["larder.event": "startedEmpty", "larder.detail": "so"]),
      (.restored("why"), .warning, ["larder.event": "restored", "larder.detail": "why"]),
      (
        .generationChanged(generation: 7), .info,
        ["larder.event": "moved", "larder.generation": "7"]
      ),
      (
        .pidNamespaceConflict("/p"), .notice,
        ["larder.event": "separateNamespace", "larder.path": "/p"]
      ),
      (
        .readerStalled(pid: 12, transactionsBehind: 34), .warning,
        [
          "larder.event": "readerStalled", "larder.pid": "12", "larder.transactions_behind": "34",
        ]
      ),
      (
        .indexBuilding(type: "Book", index: "title", done: 5, total: 9), .debug,
        [
          "larder.event": "indexBuilding", "larder.type": "Book", "larder.index": "title",
          "larder.done": "5", "larder.total": "9",
        ]
      ),
    ]
    for (event, level, metadata) in events {
      handler.clear()
      options.onEvent?(event)
      let entry = try #require(handler.entries.first)
      #expect(handler.entries.count == 1)
      #expect(entry.level == level)
      #expect(entry.message == "\(event)")
      #expect(entry.metadata == metadata)
    }
  }

  @Test func `Every error is logged with its documented level and metadata`() throws {
    let options = StoreOptions().logging(to: logger)
    let levels: [(StoreError.Code, Logger.Level)] = [
      (.damaged, .critical), (.outcomeUnknown, .critical), (.unreadableEntry, .warning),
      (.valueTooLarge, .warning), (.storageFull, .error), (.writerStalled, .error),
      (.system, .error), (StoreError.Code(rawValue: "of a later version"), .error),
    ]
    for (code, level) in levels {
      handler.clear()
      let error = StoreError(
        code, during: "set", path: "/p", "It failed.", pid: 12, errorNumber: 28)
      options.onError?(error)
      let entry = try #require(handler.entries.first)
      #expect(handler.entries.count == 1)
      #expect(entry.level == level, "\(code)")
      #expect(entry.message == "It failed.")
      #expect(entry.error as? StoreError == error)
      #expect(
        entry.metadata == [
          "larder.code": "\(code)", "larder.operation": "set", "larder.path": "/p",
          "larder.pid": "12", "larder.errno": "28",
        ])
    }
    handler.clear()
    options.onError?(StoreError(.closed, during: "get", "Closed."))
    #expect(
      handler.entries.map(\.metadata) == [["larder.code": "closed", "larder.operation": "get"]])

    struct Own: Error {}
    handler.clear()
    options.onError?(Own())
    #expect(handler.entries.map(\.level) == [.error])
    #expect(handler.entries.first?.error is Own)
  }

  @Test func `Handlers that were set are called once, after the log`() {
    let seen = Mutex<[String]>([])
    let handler = handler
    var options = StoreOptions()
    options.onError = { _ in seen.withLock { $0.append("error \(handler.entries.count)") } }
    options.onEvent = { _ in seen.withLock { $0.append("event \(handler.entries.count)") } }
    options.budget = .megabytes(3)
    options = options.logging(to: logger)
    options.onError?(StoreError(.system, during: "set", "It failed."))
    options.onEvent?(.generationChanged(generation: 1))
    #expect(seen.withLock { $0 } == ["error 1", "event 2"])
    #expect(options.budget == .megabytes(3))
  }

  @Test func `What a level forbids is not logged, and handlers are called all the same`() {
    let calls = Mutex(0)
    var logger = logger
    logger.logLevel = .warning
    let options = StoreOptions(onEvent: { _ in calls.withLock { $0 += 1 } }).logging(to: logger)
    options.onEvent?(.generationChanged(generation: 1))
    #expect(handler.entries.isEmpty)
    #expect(calls.withLock { $0 } == 1)
  }

  @Test func `What a store reports and where it starts empty is in the log`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("store")
    let options = StoreOptions(budget: .megabytes(1)).logging(to: logger)
    let store = try SharedStore(at: path, options)
    let cache = PersistentCache<String, [UInt8]>(storage: store)
    cache["small"] = [1]
    #expect(cache["small"] == [1])
    try store.sync()
    #expect(handler.entries.isEmpty, "\(handler.entries)")
    cache["large"] = [UInt8](repeating: 1, count: 2 << 20)
    try store.sync()
    // An error of a queued write is reported shortly after sync() has returned.
    try eventually("the error is logged") { !handler.entries.isEmpty }
    let entry = try #require(handler.entries.first)
    #expect(handler.entries.count == 1)
    #expect(entry.level == .warning)
    #expect(entry.metadata["larder.code"] == "valueTooLarge")
    // Its meta pages.
    let files = try FileManager.default.subpathsOfDirectory(atPath: path)
    let data = try #require(files.first { $0.hasSuffix("data.mdb") })
    store.close()
    handler.clear()
    try TestFiles.overwrite([UInt8](repeating: 0xA5, count: 8192), at: 0, in: "\(path)/\(data)")
    try SharedStore(at: path, options).close()
    #expect(handler.entries.map { $0.metadata["larder.event"] } == ["startedEmpty"])
    #expect(handler.entries.map(\.level) == [.error])
  }
}
#endif
